"""Pure like the core, but only for people: reports, estimates, notes, displayed statuses. Decides nothing."""
