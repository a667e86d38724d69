"""How an attempt ended: what its process did, what its stream said and what git shows. A table; the first row counts.

Exit codes and final words are hints. An agent that says it is done and changed nothing is not done; one that ends with
status 0 after an error event failed; one that ran into a limit neither failed nor is to blame.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from holdfast.core.events import FailureKind
from holdfast.core.facts import Exit, ExitReason
from holdfast.core.observations import Heard, Trouble
from holdfast.core.projection import Halt


class Sign(StrEnum):
    """What the process shows."""

    OK = "ok"
    STATUS = "status"
    SIGNAL = "signal"
    TIMEOUT = "timeout"
    STALLED = "stalled"
    NOT_STARTED = "not_started"


class Said(StrEnum):
    """What the stream says: nothing of trouble, that something was refused on the way, or which trouble it ended in."""

    WELL = "well"
    DENIED = "denied"
    LIMIT = "limit"
    CONTEXT = "context"
    PERMISSION = "permission"
    AUTH = "auth"
    ERROR = "error"


class Work(StrEnum):
    """What git shows: a change, or none, or none where none is needed."""

    CHANGED = "changed"
    UNCHANGED = "unchanged"
    NOT_NEEDED = "not_needed"


class End(StrEnum):
    """What becomes of the attempt: its work is checked, it failed, its provider is waited for, or a person is needed."""

    DONE = "done"
    FAILED = "failed"
    LIMITED = "limited"
    BLOCKED = "blocked"


@dataclass(frozen=True, slots=True)
class Row:
    """One row: the first whose three sets contain what was found gives the end and its kind."""

    signs: frozenset[Sign]
    said: frozenset[Said]
    work: frozenset[Work]
    end: End
    failure: FailureKind | None = None


_ANY_SIGN, _ANY_SAID, _ANY_WORK = frozenset(Sign), frozenset(Said), frozenset(Work)
_STARTED = _ANY_SIGN - {Sign.NOT_STARTED}


def _row(
    signs: frozenset[Sign],
    said: frozenset[Said],
    end: End,
    failure: FailureKind,
    work: frozenset[Work] = _ANY_WORK,
) -> Row:
    return Row(signs, said, work, end, failure)


TABLE: tuple[Row, ...] = (
    _row(frozenset({Sign.NOT_STARTED}), _ANY_SAID, End.FAILED, FailureKind.ENVIRONMENT),
    _row(_STARTED, frozenset({Said.LIMIT}), End.LIMITED, FailureKind.LIMIT),
    _row(_STARTED, frozenset({Said.AUTH}), End.BLOCKED, FailureKind.AUTH),
    _row(_STARTED, frozenset({Said.PERMISSION}), End.BLOCKED, FailureKind.PERMISSION),
    _row(_STARTED, frozenset({Said.CONTEXT}), End.FAILED, FailureKind.CONTEXT),
    _row(frozenset({Sign.TIMEOUT}), _ANY_SAID, End.FAILED, FailureKind.TIMEOUT),
    _row(frozenset({Sign.STALLED}), _ANY_SAID, End.FAILED, FailureKind.STALLED),
    _row(frozenset({Sign.SIGNAL}), _ANY_SAID, End.FAILED, FailureKind.KILLED),
    _row(frozenset({Sign.STATUS}), _ANY_SAID, End.FAILED, FailureKind.AGENT),
    _row(frozenset({Sign.OK}), frozenset({Said.ERROR}), End.FAILED, FailureKind.AGENT),
    _row(frozenset({Sign.OK}), frozenset({Said.DENIED}), End.BLOCKED, FailureKind.PERMISSION, frozenset({Work.UNCHANGED})),
    _row(frozenset({Sign.OK}), _ANY_SAID, End.FAILED, FailureKind.NO_CHANGE, frozenset({Work.UNCHANGED})),
    Row(frozenset({Sign.OK}), _ANY_SAID, _ANY_WORK, End.DONE),
)  # fmt: skip

_SIGNS = {
    ExitReason.TIMEOUT: Sign.TIMEOUT,
    ExitReason.STALLED: Sign.STALLED,
    ExitReason.NOT_STARTED: Sign.NOT_STARTED,
    ExitReason.CANCELLED: Sign.SIGNAL,
}
_HALTS = {
    FailureKind.LIMIT: End.LIMITED,
    FailureKind.PERMISSION: End.BLOCKED,
    FailureKind.AUTH: End.BLOCKED,
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an attempt ended, and in which words."""

    end: End
    failure: FailureKind | None = None
    error: str = ""


def judge(
    exit_: Exit, heard: Heard, work: Work, halt: Halt | None = None, by_code: Trouble | None = None
) -> Outcome:
    """Return how an attempt ended. What we ended ourselves ended for the reason for which we did.

    `by_code` is what the exit status means by the agent's own convention, where its stream told nothing better.
    """
    if halt is not None and exit_.reason is ExitReason.CANCELLED:
        return Outcome(_HALTS.get(halt.failure, End.FAILED), halt.failure, halt.error)
    sign, said = sign_of(exit_), said_by(heard, by_code)
    row = next(row for row in TABLE if sign in row.signs and said in row.said and work in row.work)
    if row.failure is None:
        return Outcome(End.DONE)
    return Outcome(row.end, row.failure, _words(row.failure, exit_, heard))


def sign_of(exit_: Exit) -> Sign:
    """Return what a process shows by the way it ended."""
    if exit_.reason is not ExitReason.EXITED:
        return _SIGNS[exit_.reason]
    if exit_.code == 0:
        return Sign.OK
    return Sign.STATUS if exit_.code > 0 else Sign.SIGNAL


def said_by(heard: Heard, by_code: Trouble | None = None) -> Said:
    """Return what a stream says in all."""
    trouble = by_code if by_code is not None and heard.trouble in (None, Trouble.ERROR) else heard.trouble
    if trouble is not None:
        return Said(trouble.value)
    return Said.DENIED if heard.denied else Said.WELL


def _words(failure: FailureKind, exit_: Exit, heard: Heard) -> str:
    match failure:
        case FailureKind.NO_CHANGE:
            return "the agent reported success but changed no file"
        case FailureKind.PERMISSION:
            wanted = ", ".join(heard.denied) or heard.message or "more than it may"
            return f"the agent was not allowed what it wanted: {wanted}"
        case FailureKind.CONTEXT:
            return _with("the agent ran out of its context window", heard.message)
        case FailureKind.AUTH:
            return _with("the agent's credentials were refused", heard.message)
        case FailureKind.LIMIT:
            return _with("a limit of the agent's provider is reached", heard.message)
    return _with(_ending(exit_), heard.message)


def _ending(exit_: Exit) -> str:
    if exit_.reason is not ExitReason.EXITED:
        return exit_.error or f"the agent was stopped: {exit_.reason}"
    if exit_.code == 0:
        return "the agent ended with status 0 after an error"
    signalled = f"the agent was killed by signal {-exit_.code}"
    return exit_.error or (f"the agent exited with status {exit_.code}" if exit_.code > 0 else signalled)


def _with(words: str, message: str) -> str:
    return f"{words}: {message}" if message else words
