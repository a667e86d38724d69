"""The MCP server: an agent leads a run by itself, or reports on its task.

The runner does the rest as usual.
"""
