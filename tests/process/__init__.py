"""Tests of `holdfast.process`."""
