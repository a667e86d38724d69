"""The files of other systems, read (adopt) and written (export, mirror), and task lists, read (plan import).

Readers and writers are pure functions over bytes. Only `discovery.py` looks at a disk, and nothing here calls
git.
"""
