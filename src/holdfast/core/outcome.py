"""How an attempt ended: what its process did, what its stream said and what git shows. A table; the first row counts.

Exit codes and final words are hints. An agent that says it is done and changed nothing is not done; one that ends with
status 0 after an error event failed; one whose stream lacks its last word, or the closing line that it was asked for, did
not finish, whatever it changed; one that ran into a limit, or whose provider could not be reached, neither failed nor is
to blame.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from holdfast.core.facts import Exit, ExitReason
from holdfast.core.observations import AgentTrouble, StreamSummary
from holdfast.core.projection import Failure, Halt
from holdfast.core.status import FailureKind


class ProcessSign(StrEnum):
    """What the process shows."""

    OK = "ok"
    STATUS = "status"
    SIGNAL = "signal"
    TIMEOUT = "timeout"
    STALLED = "stalled"
    NOT_STARTED = "not_started"


class StreamSign(StrEnum):
    """What the stream says: no trouble, something was refused on the way, no last word, or the trouble it ended in."""

    WELL = "well"
    DENIED = "denied"
    UNFINISHED = "unfinished"
    LIMIT = "limit"
    OUTAGE = "outage"
    CONTEXT = "context"
    PERMISSION = "permission"
    AUTH = "auth"
    CREDIT = "credit"
    MODEL = "model"
    SESSION = "session"
    ERROR = "error"


class WorkSign(StrEnum):
    """What git shows: a change, or none, or none where none is needed."""

    CHANGED = "changed"
    UNCHANGED = "unchanged"
    NOT_NEEDED = "not_needed"


class OutcomeKind(StrEnum):
    """What becomes of the attempt: its work is checked, it failed, its provider is waited for, or a person is needed."""

    DONE = "done"
    FAILED = "failed"
    LIMITED = "limited"
    BLOCKED = "blocked"


class OutcomeRow(NamedTuple):
    """One row: the first whose three sets contain what was found gives the outcome and its kind of failure."""

    signs: Collection[ProcessSign]
    said: Collection[StreamSign]
    end: OutcomeKind
    failure: FailureKind | None = None
    work: Collection[WorkSign] = frozenset(WorkSign)


_ANY = frozenset(StreamSign)
_OK = (ProcessSign.OK,)
_STARTED = frozenset(ProcessSign) - {ProcessSign.NOT_STARTED}
_UNCHANGED = (WorkSign.UNCHANGED,)

OUTCOMES = (
    OutcomeRow((ProcessSign.NOT_STARTED,), _ANY, OutcomeKind.BLOCKED, FailureKind.ENVIRONMENT),
    OutcomeRow(_STARTED, (StreamSign.LIMIT,), OutcomeKind.LIMITED, FailureKind.LIMIT),
    OutcomeRow(_STARTED, (StreamSign.OUTAGE,), OutcomeKind.LIMITED, FailureKind.OUTAGE),
    OutcomeRow(_STARTED, (StreamSign.AUTH,), OutcomeKind.BLOCKED, FailureKind.AUTH),
    OutcomeRow(_STARTED, (StreamSign.CREDIT,), OutcomeKind.BLOCKED, FailureKind.CREDIT),
    OutcomeRow(_STARTED, (StreamSign.MODEL,), OutcomeKind.BLOCKED, FailureKind.MODEL),
    OutcomeRow(_STARTED, (StreamSign.PERMISSION,), OutcomeKind.BLOCKED, FailureKind.PERMISSION),
    OutcomeRow(_STARTED, (StreamSign.CONTEXT,), OutcomeKind.FAILED, FailureKind.CONTEXT),
    OutcomeRow(_STARTED, (StreamSign.SESSION,), OutcomeKind.FAILED, FailureKind.SESSION),
    OutcomeRow((ProcessSign.TIMEOUT,), _ANY, OutcomeKind.FAILED, FailureKind.TIMEOUT),
    OutcomeRow((ProcessSign.STALLED,), _ANY, OutcomeKind.FAILED, FailureKind.STALLED),
    OutcomeRow((ProcessSign.SIGNAL,), _ANY, OutcomeKind.FAILED, FailureKind.KILLED),
    OutcomeRow((ProcessSign.STATUS,), _ANY, OutcomeKind.FAILED, FailureKind.AGENT),
    OutcomeRow(_OK, (StreamSign.ERROR,), OutcomeKind.FAILED, FailureKind.AGENT),
    OutcomeRow(_OK, (StreamSign.UNFINISHED,), OutcomeKind.FAILED, FailureKind.UNFINISHED),
    OutcomeRow(_OK, (StreamSign.DENIED,), OutcomeKind.BLOCKED, FailureKind.PERMISSION, _UNCHANGED),
    OutcomeRow(_OK, _ANY, OutcomeKind.FAILED, FailureKind.NO_CHANGE, _UNCHANGED),
    OutcomeRow(_OK, _ANY, OutcomeKind.DONE),
)

_SIGNS = {
    ExitReason.TIMEOUT: ProcessSign.TIMEOUT,
    ExitReason.STALLED: ProcessSign.STALLED,
    ExitReason.NOT_STARTED: ProcessSign.NOT_STARTED,
    ExitReason.CANCELLED: ProcessSign.SIGNAL,
}
_HALTS = {
    FailureKind.LIMIT: OutcomeKind.LIMITED,
    FailureKind.OUTAGE: OutcomeKind.LIMITED,
    FailureKind.PERMISSION: OutcomeKind.BLOCKED,
    FailureKind.AUTH: OutcomeKind.BLOCKED,
    FailureKind.CREDIT: OutcomeKind.BLOCKED,
    FailureKind.MODEL: OutcomeKind.BLOCKED,
}

_AROUND = re.compile(r"^[\W_]+|[\W_]+$")
"""What models put around a line that they were shown: Markdown, quotes, a full stop, an emoji."""
_NO_LAST_WORD = "the agent ended without its last word: its work may be half done"
_NOT_CLOSED = "the agent's last message does not end with the closing line that its brief asks for: its work may be half done"
_NOTHING_READ = (
    "nothing that the agent printed was understood; if it prints no events, or another agent's, say so by `stream:` of its "
    "entry in `agents:` (`raw` is plain output)"
)
_TROUBLE_WORDS = {
    FailureKind.CONTEXT: "the agent ran out of its context window",
    FailureKind.AUTH: "the agent's credentials were refused",
    FailureKind.LIMIT: "a limit of the agent's provider is reached",
    FailureKind.OUTAGE: "the agent's provider cannot be reached",
    FailureKind.CREDIT: "the agent's account has no credit",
    FailureKind.MODEL: "the agent's model is unknown or not allowed",
    FailureKind.SESSION: "the agent does not know the session any more",
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an attempt ended, and the message about it."""

    end: OutcomeKind
    failure: FailureKind | None = None
    error: str = ""


def judge_outcome(
    exit_: Exit,
    heard: StreamSummary,
    work: WorkSign,
    halt: Halt | None = None,
    by_code: AgentTrouble | None = None,
    closing_line: str = "",
) -> Outcome:
    """Return how an attempt ended. If we ended it, our reason is the reason.

    `by_code` is what the exit status means by the agent's own convention, if its stream says nothing better. Without its
    `closing_line`, if one was asked for, the agent did not finish.
    """
    if halt is not None and exit_.reason is ExitReason.CANCELLED:
        end = _HALTS.get(halt.failure, OutcomeKind.FAILED)
        return Outcome(end, halt.failure, _words_of_trouble(halt.failure, halt.error) or halt.error)
    sign, said = sign_of(exit_), said_by(heard, by_code, closing_line)
    if said is StreamSign.UNFINISHED and exit_.led:
        said = StreamSign.WELL
    row = next(row for row in OUTCOMES if sign in row.signs and said in row.said and work in row.work)
    if row.failure is None:
        return Outcome(OutcomeKind.DONE)
    return Outcome(row.end, row.failure, _words(row.failure, exit_, heard))


def sign_of(exit_: Exit) -> ProcessSign:
    """Return the sign that a process's end gives."""
    if exit_.reason is not ExitReason.EXITED:
        return _SIGNS[exit_.reason]
    if exit_.code == 0:
        return ProcessSign.OK
    return ProcessSign.STATUS if exit_.code > 0 else ProcessSign.SIGNAL


def said_by(heard: StreamSummary, by_code: AgentTrouble | None = None, closing_line: str = "") -> StreamSign:
    """Return the sign that a whole stream gives."""
    trouble = (
        by_code if by_code is not None and heard.trouble in (None, AgentTrouble.ERROR) else heard.trouble
    )
    if trouble is not None:
        return StreamSign(trouble.value)
    if heard.is_cut:
        return StreamSign.UNFINISHED
    if closing_line and not is_closed_by(closing_line, heard.last_line):
        # One that was refused something and does not say that it is done needs a person.
        return StreamSign.PERMISSION if heard.denied else StreamSign.UNFINISHED
    return StreamSign.DENIED if heard.denied else StreamSign.WELL


def is_closed_by(line: str, last_line: str) -> bool:
    """Tell whether the last line of a message is the closing line, if there is one."""
    return bool(line) and _AROUND.sub("", last_line) == line


def lacks_closing_line(failure: Failure) -> bool:
    """Tell whether an attempt failed for its closing line alone: its stream was whole."""
    return failure.kind is FailureKind.UNFINISHED and failure.error == _NOT_CLOSED


def _words(failure: FailureKind, exit_: Exit, heard: StreamSummary) -> str:
    match failure:
        case FailureKind.NO_CHANGE:
            return "the agent reported success but changed no file"
        case FailureKind.PERMISSION:
            wanted = ", ".join(heard.denied) or heard.message or "more than it may"
            return f"the agent was not allowed what it wanted: {wanted}"
        case FailureKind.UNFINISHED:
            return _words_of_unfinished(heard)
    return _words_of_trouble(failure, heard.message) or _with(ending_words(exit_), heard.message)


def _words_of_unfinished(heard: StreamSummary) -> str:
    if heard.finished and not heard.is_cut:
        return _NOT_CLOSED
    return _NO_LAST_WORD if heard.shows_work else _NOTHING_READ


def _words_of_trouble(failure: FailureKind, message: str) -> str:
    """Return what trouble of an agent means, with its own message; empty for a failure that is none."""
    words = _TROUBLE_WORDS.get(failure)
    return _with(words, message) if words else ""


def ending_words(exit_: Exit) -> str:
    """Return how a process ended, in words."""
    if exit_.reason is not ExitReason.EXITED:
        return exit_.error or f"the agent was stopped: {exit_.reason}"
    if exit_.code == 0:
        return "the agent ended with status 0 after an error"
    signalled = f"the agent was killed by signal {-exit_.code}"
    return exit_.error or (f"the agent exited with status {exit_.code}" if exit_.code > 0 else signalled)


def _with(words: str, message: str) -> str:
    return f"{words}: {message}" if message else words
