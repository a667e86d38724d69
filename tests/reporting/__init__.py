"""Tests of `holdfast.reporting`."""
