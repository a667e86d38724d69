"""Whether an agent works, told from its process, its stream and its silence alone. No model is asked; for people only."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from holdfast.core.projection import TaskRow

if TYPE_CHECKING:
    from holdfast.core.facts import Presence

SLOW_AFTER_S = 60.0
"""A model that says nothing for this long is slow."""
TOOL_SLOW_AFTER_S = 300.0
"""A tool, such as a test run, may well be silent for longer."""


class Liveness(StrEnum):
    """How it goes with an agent that is recorded as running."""

    WORKING = "working"
    SLOW = "slow"
    LIMITED = "limited"
    WAITING = "waiting for permission"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class AgentSign:
    """An agent as the machine shows it: whether its process lives, and when it was last heard of."""

    presence: Presence
    heard_at: float = 0.0


def liveness(task: TaskRow, sign: AgentSign, now: float) -> Liveness:
    """Say how it goes with a running task's agent. The last word of its stream counts before its silence."""
    # Here and not above: `status` loads this module always, and most often no agent is at work.
    from holdfast.core.facts import Presence
    from holdfast.core.observations import Trouble

    if sign.presence is not Presence.ALIVE:
        return Liveness.DEAD
    if task.trouble == Trouble.PERMISSION:
        return Liveness.WAITING
    if task.trouble == Trouble.LIMIT:
        return Liveness.LIMITED
    silent_s = now - max(sign.heard_at, task.active_at)
    return (
        Liveness.SLOW
        if silent_s > (TOOL_SLOW_AFTER_S if task.in_tool else SLOW_AFTER_S)
        else Liveness.WORKING
    )
