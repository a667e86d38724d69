"""What an event survives after a server acknowledged it, as far as the server's own settings tell."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StoreDurability:
    """What becomes of acknowledged events when the server fails. The journal of each kind of server works it out."""

    survives: str
    """One sentence for people."""
    server_kill: bool
    """Whether they are there after the server was killed and started again."""
    power_cut: bool
    """Whether they are there after the server's machine lost its power."""
    failover: bool
    """Whether they are there after a replica took the server's place."""
    advice: str = ""
    """What to set on the server so that more is survived; empty if there is nothing."""
