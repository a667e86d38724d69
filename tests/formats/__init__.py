"""Other systems' files: read, written, damaged."""
