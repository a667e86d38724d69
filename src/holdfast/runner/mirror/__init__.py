"""A run in another system's own files: written once (export), or kept up to date beside the run (mirror).

They are written from the journal and from git, and never read back as truth.
"""
