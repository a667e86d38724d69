"""What is known about agents: presets, their command lines, their output streams, ACP. No process is started here."""
