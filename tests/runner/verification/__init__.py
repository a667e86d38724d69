"""Tests of `holdfast.runner.verification`."""
