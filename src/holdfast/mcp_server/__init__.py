"""Runs that an agent leads by itself: it opens a run and claims its tasks; Holdfast keeps, checks and lands the work."""
