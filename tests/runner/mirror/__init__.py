"""Tests of `holdfast.runner.mirror`."""
