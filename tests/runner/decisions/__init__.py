"""Tests of `holdfast.runner.decisions`."""
