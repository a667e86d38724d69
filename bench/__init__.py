"""Measures how fast Holdfast is, compared to the limits of the machine: `python -m bench`."""
