"""The MCP server: an agent leads a run by itself, or reports on its task. The runner does all the rest as ever."""
