"""Knowledge about agents: presets, command lines, output streams, ACP. No process is started here."""
