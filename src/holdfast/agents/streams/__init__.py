"""Readers of agents' output: bytes in, observations out. One small module for each dialect.

Nothing here can raise or stop a run: what makes no sense is skipped. The bytes were logged before they came here.
"""
