"""The demo: a small real repository, a plan of eight tasks, and a scripted agent that behaves like a real one."""
