"""Pure like the core, but only told to people: reports, estimates, notes, displayed states. Nothing is decided here."""
