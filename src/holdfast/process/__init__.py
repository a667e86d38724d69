"""The only door to processes: supervisors are started here, agents are started by supervisors, signals are sent here."""
