"""Which agent works on which task, and through which provider: what the shell knows of agents and decisions need."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Seat:
    """One agent of the run. Agents of one provider share its limits; `fallback` works where they are parked.

    `resumable`: it can go on with a session of its own. `native`: it is meant to, whenever that is possible.
    """

    provider: str
    fallback: str = ""
    resumable: bool = False
    native: bool = False
