"""What git and the process table show: the evidence that `reconcile` and the invariants judge by."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

import msgspec


class ExitReason(StrEnum):
    """Why a supervised process tree is gone."""

    EXITED = "exited"
    TIMEOUT = "timeout"
    STALLED = "stalled"
    CANCELLED = "cancelled"
    NOT_STARTED = "not_started"


class Exit(msgspec.Struct, frozen=True, kw_only=True):
    """How a supervised process ended. `code` is its exit status, or minus the signal that killed it.

    `synced`: the files that it left were on disk before this was written, so a power cut did not tear them. `led`: an agent
    that leads gave its word; there was no process, so there is no stream to end. `refused_hosts` are those that an allow-list kept
    from it, as `host:port` with spaces between them; `allowed_requests` were for other hosts.
    """

    token: str
    reason: ExitReason
    code: int
    error: str = ""
    duration_s: float = 0.0
    output_bytes: int = 0
    output_digest: str = ""
    strays: int = 0
    synced: bool = False
    led: bool = False
    refused_hosts: str = ""
    allowed_requests: int = 0


class Presence(StrEnum):
    """What became of a launch."""

    UNKNOWN = "unknown"
    ALIVE = "alive"
    ENDED = "ended"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Sighting:
    """A launch as the machine shows it: never started, alive, ended with a record, or gone without one.

    `seen_s` is how long after its start a lost one gave its last sign of life; 0 is unknown.
    """

    presence: Presence
    exit: Exit | None = None
    seen_s: float = 0.0

    @property
    def worked_s(self) -> float:
        """How long a launch that is over worked, as far as is known: all its time, or until its last sign. 0 is unknown."""
        return self.seen_s if self.exit is None else self.exit.duration_s


@dataclass(frozen=True, slots=True)
class ResultPlaces:
    """Where the result of a run is: branches of the user that hold it, the target first; else where its branch is archived.

    `has_branch`: the run branch still holds it, too.
    """

    branches: tuple[str, ...] = ()
    archive: str = ""
    has_branch: bool = True


NOWHERE = ResultPlaces()
"""On the run branch alone, or unknown."""


@dataclass(frozen=True, slots=True)
class Landing:
    """One first-parent commit of the run branch that carries our trailers.

    `adopted`: another system did the work, below the run's base; `head` is the commit that proves it.
    """

    task: str
    attempt: int
    commit: str
    head: str
    tree: str
    adopted: bool = False


@dataclass(frozen=True, slots=True)
class BranchFacts:
    """The run branch: its tip (empty when the branch is gone), what landed on it, oldest first."""

    tip: str
    landings: tuple[Landing, ...] = ()
    descends_from_base: bool = True


@dataclass(frozen=True, slots=True)
class Equivalent:
    """Proof that a vanished landing survives in another commit: the same patch, or the same file contents."""

    commit: str
    proof: Literal["patch", "tree"]


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything recovery may look at. `wall` is the time of day, by which waits for limits are shortened.

    Without `branch_exists`, `branch` is what the recorded tip shows: recovery makes the branch there again. `foreign` are
    the commits on it that neither Holdfast made nor the user accepted, newest first.
    """

    branch: BranchFacts
    branch_exists: bool = True
    sightings: dict[str, Sighting] = field(default_factory=dict)
    equivalents: dict[str, Equivalent] = field(default_factory=dict)
    missing_commits: frozenset[str] = frozenset()
    foreign: tuple[str, ...] = ()
    wall: float = 0.0
