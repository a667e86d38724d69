"""How a run ended, or that it has not: concluded only from what is stored, the lease and the boot id.

No clock is used: a lease is a lock that the kernel frees with its holder. So a stopped runner still holds it,
a suspended machine changes nothing, and a process that got a dead runner's pid holds nothing. Times are for
people.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from holdfast.core.projection import RunRow
from holdfast.core.status import ParkReason, RunStatus


class Ending(StrEnum):
    """How a run ended for now. A run with a live runner, or one that never began, has not ended."""

    NOT_STARTED = "not started"
    RUNNING = "running"
    CRASH = "crash"
    REBOOT = "reboot"
    STOP = "stop"
    PAUSE = "pause"
    BLOCKED = "blocked"
    LIMIT = "limit"
    OUTAGE = "outage"
    COMPLETED = "completed"
    ABANDONED = "abandoned"


INTERRUPTED = frozenset({Ending.CRASH, Ending.REBOOT})
"""The endings that the user did not ask for."""
TOLD_BESIDE = INTERRUPTED | {Ending.LIMIT, Ending.OUTAGE}
"""The endings that say more than the run's status."""

_AT_REST = {
    RunStatus.PENDING: Ending.NOT_STARTED,
    RunStatus.PAUSED: Ending.PAUSE,
    RunStatus.STOPPED: Ending.STOP,
    RunStatus.BLOCKED: Ending.BLOCKED,
    RunStatus.COMPLETED: Ending.COMPLETED,
    RunStatus.ABANDONED: Ending.ABANDONED,
}


class Rest(msgspec.Struct, frozen=True, kw_only=True):
    """How a run ended, and when it last gave a sign of life."""

    ending: Ending
    last_sign: float


def how_it_ended(row: RunRow, *, held: bool, boot_id: str, budget: float | None = None) -> Ending:
    """Return how a run ended. `held`: whether a runner holds the lease; `boot_id`: the current boot.

    `budget` is what the run may cost, if the plan is available.
    """
    if held:
        return Ending.RUNNING
    if row.status is RunStatus.RUNNING:
        return Ending.REBOOT if row.is_of_earlier_boot(boot_id) else Ending.CRASH
    waits = _waited_for(row, budget) if row.status is RunStatus.BLOCKED else None
    return waits or _AT_REST[row.status]


def _waited_for(row: RunRow, budget: float | None) -> Ending | None:
    """Return what a blocked run waits for: more money, or the end of a provider's limit or outage; None if for neither."""
    named = (one for one in row.parked.values() if one.shut_in < 0 and one.words and one.words in row.reason)
    reasons = {one.reason for one in named}
    if ParkReason.LIMIT in reasons or (budget is not None and row.cost_usd >= budget):
        return Ending.LIMIT
    return Ending.OUTAGE if reasons else None


def rest_of(ending: Ending, recorded_at: float, seen_at: float = 0.0) -> Rest:
    """Return an ending with its last sign of life: the last event, or what agents left behind after a crash.

    `seen_at` is the newest trace of an agent. It counts only after a crash or a reboot, when no runner was left to record anything.
    """
    last = max(recorded_at, seen_at) if ending in INTERRUPTED else recorded_at
    return Rest(ending=ending, last_sign=last)
