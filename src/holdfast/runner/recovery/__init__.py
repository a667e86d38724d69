"""Recovery after a crash: the facts, the conclusions, their preview, and the rebuild of a lost journal."""
