"""When to try a failed task again, with which kind of attempt, and why to abandon it."""

from __future__ import annotations

from enum import StrEnum

from holdfast.core.plan import Limits
from holdfast.core.projection import TaskRow
from holdfast.core.status import AttemptKind, FailureKind

LOSSES_PER_ATTEMPT = 3
"""A crash costs no attempt, but a task that crashes the machine every time must end at some point."""
_DELAY_MAX_S = 60.0


class FailureClass(StrEnum):
    """What kind of trouble a failure is: it decides what helps against it."""

    TRANSIENT = "transient"
    ENVIRONMENT = "environment"
    CODE = "code"
    CONFLICT = "conflict"
    LIMIT = "limit"
    PERSON = "person"


CUT_SHORT = (FailureKind.KILLED, FailureKind.TIMEOUT, FailureKind.STALLED)
"""An attempt that failed in one of these ways did not come to its own end. Neither did one that was lost."""
SESSION_ENDS = (FailureKind.SESSION, FailureKind.CONTEXT)
"""What ends an agent's own session for good: it is gone, or full. An attempt that resumed it is not charged for that."""
_CLASSES = {
    FailureKind.KILLED: FailureClass.TRANSIENT,
    FailureKind.TIMEOUT: FailureClass.TRANSIENT,
    FailureKind.STALLED: FailureClass.TRANSIENT,
    FailureKind.NO_SCORE: FailureClass.PERSON,
    FailureKind.ENVIRONMENT: FailureClass.ENVIRONMENT,
    FailureKind.CONFLICT: FailureClass.CONFLICT,
    FailureKind.SIDE_LOST: FailureClass.CONFLICT,
    FailureKind.LIMIT: FailureClass.LIMIT,
    FailureKind.OUTAGE: FailureClass.LIMIT,
    FailureKind.PERMISSION: FailureClass.PERSON,
    FailureKind.AUTH: FailureClass.PERSON,
    FailureKind.CREDIT: FailureClass.PERSON,
    FailureKind.MODEL: FailureClass.PERSON,
    FailureKind.UNRUNNABLE: FailureClass.PERSON,
    FailureKind.SETUP: FailureClass.PERSON,
}
_SAYS_NOTHING_OF_THE_WORK = (
    FailureKind.NO_SCORE,
    FailureKind.ENVIRONMENT,
    FailureKind.KILLED,
    FailureKind.LIMIT,
    FailureKind.OUTAGE,
    FailureKind.SESSION,
    FailureKind.PERMISSION,
    FailureKind.AUTH,
    FailureKind.CREDIT,
    FailureKind.MODEL,
    FailureKind.UNRUNNABLE,
    FailureKind.SETUP,
)
_JUDGES_THE_WORK = (
    FailureKind.NO_CHANGE,
    FailureKind.MISSING_FILES,
    FailureKind.CHECK,
    FailureKind.MERGED_CHECK,
    FailureKind.CONFLICT,
    FailureKind.SIDE_LOST,
    FailureKind.SYNTAX,
    FailureKind.VALIDATION,
    FailureKind.REJECTED,
)
_WAITED_OUT = (FailureClass.TRANSIENT, FailureClass.ENVIRONMENT)


def class_of(failure: FailureKind) -> FailureClass:
    """Return what kind of trouble a failure is. Unlisted kinds count as CODE."""
    return _CLASSES.get(failure, FailureClass.CODE)


def losses_allowed(limits: Limits) -> int:
    """Return how often an attempt at one task may be lost to a crash before the task is abandoned."""
    return limits.attempts * LOSSES_PER_ATTEMPT


def delay_after(failure: FailureKind, charged: int, base_s: float) -> float:
    """Return how long to wait before the next attempt. Only trouble from outside is worth waiting out:
    an agent's own failure is best repaired at once, while its context is still true."""
    if class_of(failure) not in _WAITED_OUT:
        return 0.0
    return min(base_s * 2.0 ** (charged - 1), _DELAY_MAX_S)


def reason_to_give_up(task: TaskRow, limits: Limits) -> str:
    """Return why a task that is not being worked on is not tried again, as a sentence; empty if it is."""
    if task.charged >= limits.attempts:
        return f"failed {_times(task.charged)}; last: {task.error}"
    if makes_no_progress(task):
        return f"no progress: the same failure on the same files twice; {task.error}"
    if task.crash_count >= losses_allowed(limits):
        return f"its agent was lost to a crash {_times(task.crash_count)}"
    return ""


def makes_no_progress(task: TaskRow) -> bool:
    """Tell whether the last two attempts failed in the same way on the same tree: a third would only cost money.

    Trouble of the machine says nothing about the work, and neither failures before the user's reset count nor those of a resumed
    session that could not go on.
    """
    recent = [failure for failure in task.failures[task.forgiven :] if not failure.session_lost][-2:]
    if len(recent) < 2 or not recent[0].tree:
        return False
    before, last = recent
    alike = (before.kind, before.error, before.check, before.tree) == (
        last.kind,
        last.error,
        last.check,
        last.tree,
    )
    return alike and last.kind not in _SAYS_NOTHING_OF_THE_WORK


def was_found_wanting(task: TaskRow) -> bool:
    """Tell whether the work that the latest attempt began with was judged, and failed: without a change it fails again.

    Work of an attempt that hung, crashed or used up its budget was not judged. It may well be whole.
    """
    last = task.failures[-1] if task.failures else None
    return last is not None and last.attempt == task.attempt - 1 and last.kind in _JUDGES_THE_WORK


def kind_of_next_attempt(task: TaskRow) -> AttemptKind:
    """Return the kind of the next attempt, from what the last one left."""
    if task.conflict and task.carry == task.conflict:
        return AttemptKind.CONFLICT
    if not task.carry:
        return AttemptKind.IMPLEMENTATION
    return AttemptKind.FIX if _needs_repair(task) else AttemptKind.CONTINUATION


def _needs_repair(task: TaskRow) -> bool:
    """Tell whether the work so far failed: in the latest attempt, or before one that was to repair it and was cut short.

    After an answer, a stop, a crash, a limit, or what a person gave back nothing is wrong with it.
    """
    last = task.failures[-1] if task.failures else None
    if last is not None and last.attempt == task.attempt:
        return last.kind not in _SAYS_NOTHING_OF_THE_WORK
    return task.latest.kind is AttemptKind.FIX and task.latest.head != task.carry


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
