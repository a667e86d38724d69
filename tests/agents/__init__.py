"""Real coding agents at work for the real runner; only their model is played."""
