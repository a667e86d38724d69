"""Tests of `holdfast.runner.landing`."""
