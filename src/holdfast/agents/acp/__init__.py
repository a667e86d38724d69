"""A client of the Agent Client Protocol: one conversation with one agent, told as lines of JSON on standard output.

It runs as the agent of an attempt, under a supervisor like any other, so it outlives the runner. What its lines mean
is read in `agents/streams/acp.py`. The protocol's own library is an extra and is loaded only here.
"""
