"""The commands as users type them: real processes in real repositories."""
