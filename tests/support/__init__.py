"""What several tests build on: repositories, runs, commands, agents, launches."""
