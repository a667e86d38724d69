"""Tests of `holdfast.runner.recovery`."""
