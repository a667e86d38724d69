"""All processes but git: the fork server, the supervisor above each agent, and the process table."""
