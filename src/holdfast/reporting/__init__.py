"""Pure like the core, but only told to people: reports, estimates, notes, displayed statuses. Nothing is decided here."""
