"""Crash tests: real processes, broken at every point where they change a file."""
