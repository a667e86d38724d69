"""How a run ended, in words: for `status`, `list`, the recovery report and whoever starts a plan again."""

from __future__ import annotations

from holdfast.core.interruption import INTERRUPTED, Ending, Rest
from holdfast.core.projection import RunRow
from holdfast.views.times import timestamp

_UNASKED = {
    Ending.CRASH: "its runner is gone (crash)",
    Ending.REBOOT: "the machine restarted under its runner (reboot)",
}


def ending_words(row: RunRow, rest: Rest) -> str:
    """Return why a run rests and what a live one is about to do; empty where its status says it all."""
    if rest.ending in INTERRUPTED:
        sign = timestamp(rest.last_sign)
        return f"{_UNASKED[rest.ending]}; last sign of life {sign}; nothing that was recorded is lost"
    if row.reason:
        return row.reason
    if rest.ending is not Ending.RUNNING:
        return ""
    if row.stopping:
        verb = "pausing" if row.pausing else "stopping"
        return f"{verb}: running agents end, their work is kept"
    return "pausing: what is under way may finish, nothing new starts" if row.pausing else ""


def ending_label(status: str, ending: Ending) -> str:
    """Return a run's status with what it hides: whether an interruption was a crash or a reboot."""
    return f"{status} ({ending})" if ending in INTERRUPTED or ending is Ending.LIMIT else status
