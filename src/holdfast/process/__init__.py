"""The only door to processes: the fork server, the supervisor above each agent, and what the process table shows."""
