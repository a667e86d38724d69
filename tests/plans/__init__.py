"""Tests of `holdfast.plans`."""
