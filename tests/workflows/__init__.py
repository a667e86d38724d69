"""Workflows: what expands into which plan."""
