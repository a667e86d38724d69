"""Taking over after a crash: the facts, what follows from them, the preview of it, and rebuilding a lost journal."""
