"""Tests of `holdfast.journal`."""
