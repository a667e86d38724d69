"""What decides. Pure: no clock, disk, process, randomness or logging in here."""
