"""Attacks of a hostile agent on a real run, each at every level of the sandbox."""
