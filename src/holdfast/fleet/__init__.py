"""Where attempts run: the seam behind which one machine or many carry the agents."""
