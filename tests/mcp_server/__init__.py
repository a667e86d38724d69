"""Agents that lead runs by themselves."""
