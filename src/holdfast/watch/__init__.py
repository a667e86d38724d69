"""The terminal view of a run (`holdfast watch`). It reads the journal and starts commands; it decides nothing."""
