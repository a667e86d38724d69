"""Carrying on what another system began: looking at its files and at git, and making a run of ours from them.

Nothing of the other system changes: neither its files nor its branches, working trees or index.
"""
