"""Tests of `holdfast.views`."""
