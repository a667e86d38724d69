"""Adoption: assess another system's files against git, and make a Holdfast run from them.

Nothing of the other system changes: neither its files nor its branches, working trees or index.
"""
