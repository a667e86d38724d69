"""Tests of `holdfast.runner.adoption`."""
