"""What a person decides about a run: stop, retry, skip, waive, rewind, reset, clean."""
