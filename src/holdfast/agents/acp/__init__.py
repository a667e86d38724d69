"""A client of the Agent Client Protocol: one turn with one agent, printed as lines of JSON on standard output.

It runs as the agent of an attempt, under a supervisor like any other, so it outlives the runner. The protocol's own
library is an extra and is imported only here.
"""
