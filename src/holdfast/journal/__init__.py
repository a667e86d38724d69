"""Durable truth: append-only events, a projection beside them, and the lease that says who may write."""
