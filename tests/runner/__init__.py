"""Whole situations, with real files and processes."""
