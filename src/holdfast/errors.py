"""Every error that Holdfast raises on purpose, with the exit code of the command, and helpers for messages.

An error says what failed, on what, and what to type next. A leaf module, and a light one: every supervisor loads it.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import IntEnum

_SHOWN_MAX = 60
_LISTED_MAX = 12
_LASTING = (
    "No space left on device",
    "Disk quota exceeded",
    "Read-only file system",
    "Too many open files",
    "Function not implemented",
    "File name too long",
    "Stale file handle",
    "Transport endpoint is not connected",
)
# Longer words are not typing mistakes, and comparing them costs the square of their length.
_SUGGEST_MAX = 100


class ExitCode(IntEnum):
    """What a command's exit status means to scripts."""

    DONE = 0
    TASKS_FAILED = 1
    BAD_INPUT = 2
    NEEDS_DECISION = 3
    HELD_BY_ANOTHER = 4
    INTERRUPTED = 130


class HoldfastError(Exception):
    """A failure that we understand. `hint` is the way out, phrased as the next thing to do."""

    exit_code = ExitCode.BAD_INPUT

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    @property
    def is_lasting(self) -> bool:
        """Whether the cause stays until somebody removes it, such as a full disk: no retry helps then."""
        return any(cause in f"{self.message} {self.hint}" for cause in _LASTING)


class MachineError(HoldfastError):
    """The disk, the kernel or a limit of this machine refused something. What was recorded stays; the rest is done again."""

    exit_code = ExitCode.NEEDS_DECISION


class PlanError(HoldfastError):
    """The plan file is wrong; the message names file, line, field and fix."""


class RepositoryError(HoldfastError):
    """The git repository cannot be used, or git refused a command."""


class JournalError(HoldfastError):
    """The journal cannot be read or written; its bytes are kept as they are."""


class EventsLostError(JournalError):
    """The store no longer has what it acknowledged: it went back to an older state. Nothing was written on top of that."""


class RunExistsError(JournalError):
    """Somebody made a run of the same id first: the next number is free."""


class JournalUnavailableError(JournalError):
    """The machine is in the way of the journal: its disk, its file system, or a process that keeps it locked."""

    exit_code = ExitCode.NEEDS_DECISION


class StoreUnavailableError(JournalUnavailableError):
    """The server that keeps the journal does not answer, or not now. What it acknowledged is there; the same call may be repeated."""


class LeftWaitingError(StoreUnavailableError):
    """Somebody ended a runner while it waited for the server. Agents live on, and the run can be resumed."""

    exit_code = ExitCode.INTERRUPTED


class LeaseHeldError(HoldfastError):
    """Another live process holds this run, or lands a result in the repository."""

    exit_code = ExitCode.HELD_BY_ANOTHER


class LeaseLostError(HoldfastError):
    """This runner no longer owns its run and must have no further effect."""

    exit_code = ExitCode.HELD_BY_ANOTHER


class LaunchError(HoldfastError):
    """A process could not be started."""

    exit_code = ExitCode.NEEDS_DECISION


class HostGoneError(LaunchError):
    """The only host on which a launch can go on is gone: to try again at once does not help."""

    @property
    def is_lasting(self) -> bool:
        """Whether a retry is of no use: always."""
        return True


class NeedsDecisionError(HoldfastError):
    """Nothing is wrong, but only the user can decide how to continue."""

    exit_code = ExitCode.NEEDS_DECISION


class ForeignCommitsError(NeedsDecisionError):
    """The run branch holds commits that Holdfast did not make: they count for nothing unless the user accepts them."""


def quoted(text: str) -> str:
    """Quote a user's text for a message: one line, bounded, control characters escaped."""
    from json import dumps  # too heavy for a supervisor, and only mistakes need it

    cut = text if len(text) <= _SHOWN_MAX else text[:_SHOWN_MAX] + "…"
    quoted = dumps(cut, ensure_ascii=False)
    return quoted if quoted.isprintable() else dumps(cut)


def nearest(word: str, known: Collection[str]) -> str:
    """Return the known word that was most likely meant, or an empty string."""
    if len(word) > _SUGGEST_MAX:
        return ""
    import difflib  # only mistakes need it, and every command would pay for it

    folded = {name.lower(): name for name in known}
    found = difflib.get_close_matches(word.lower(), folded, n=1)
    return folded[found[0]] if found else ""


def did_you_mean(word: str, known: Collection[str], listed_max: int = _LISTED_MAX) -> str:
    """Return the end of a message that offers the nearest known word, or else lists the known ones."""
    if guess := nearest(word, known):
        return f"; did you mean {quoted(guess)}?"
    listed = ", ".join(sorted(known)[:listed_max])
    return f"; known: {listed}{', …' if len(known) > listed_max else ''}" if listed else ""
