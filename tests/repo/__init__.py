"""Tests of `holdfast.repo`."""
