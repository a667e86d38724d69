"""The real core in a simulated world: virtual time, random order, and a fault between any two steps.

The simulated runner does what the runner does: apply results, decide, make it all durable, act. One seed is one run,
from its plan to its end, and the same seed is always the same run: `python -m tests.core.simulation SEED` tells it.
"""
