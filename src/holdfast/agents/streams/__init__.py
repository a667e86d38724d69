"""Readers of agents' event streams: bytes in, typed observations out. One small module per dialect.

Nothing here can raise or stop a run: what makes no sense is passed over. The bytes were logged before they came here.
"""
