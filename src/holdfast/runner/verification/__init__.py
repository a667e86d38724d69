"""Verification of work: checks, validators, stage gates, syntax errors, and the slots that checks share."""
