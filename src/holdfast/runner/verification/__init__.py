"""Is the work good: checks, validators, stage gates, syntax errors, and the slots that checks share."""
