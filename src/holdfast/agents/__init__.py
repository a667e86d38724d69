"""How agents are started: argv templates and ways to pass the brief. No process is spawned in here."""
