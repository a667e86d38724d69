"""The pure heart: no clock, disk, process, randomness or logging in here."""
