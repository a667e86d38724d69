"""Tests of `holdfast.runner.attempts`."""
