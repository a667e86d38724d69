"""The five systems' own files: read (adopt), written (export, mirror), and their ways of working (workflows).

Readers and writers are pure functions over bytes. Only `gather.py` looks at a disk, and nothing here asks git.
"""
