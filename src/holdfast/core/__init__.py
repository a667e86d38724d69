"""Everything that decides. Pure: no clock, disk, process, randomness or logging."""
