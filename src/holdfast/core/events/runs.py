"""Events of a run as a whole, from its beginning to its end."""

from __future__ import annotations

from holdfast.core.events.base import Event


class RunStarted(Event, frozen=True, tag=True):
    """A run exists: its plan, the commit it starts from and the branch it lands on are fixed for ever.

    `adopting` is the digest of another system's files: until `RunAdopted` they are still to be taken in.
    """

    run: str
    goal: str
    plan_hash: str
    base: str
    branch: str
    target: str = ""
    plan_source: str = ""
    epoch: int = 0
    adopting: str = ""


class RunRestored(Event, frozen=True, tag=True):
    """The journal was lost: everything recorded before this was read from git. The run rests."""


class RunnerAttached(Event, frozen=True, tag=True):
    """A runner took the lease and carries the run from here."""

    epoch: int
    pid: int
    host: str
    boot_id: str


class AgentsAdopted(Event, frozen=True, tag=True):
    """A new runner found agents of the one before it: still working, or finished while nobody watched."""

    working: tuple[str, ...] = ()
    finished: tuple[str, ...] = ()


class IntrusionNoticed(Event, frozen=True, tag=True):
    """Files changed where no task may write, while `tasks` were running."""

    tasks: tuple[str, ...]
    place: str
    paths: tuple[str, ...]


class NotificationFailed(Event, frozen=True, tag=True):
    """Somebody whom the plan names could not be told the news. Nothing else follows from it."""

    channel: str
    error: str


class BranchMoved(Event, frozen=True, tag=True):
    """Somebody else moved the run branch; landings continue from where it is now."""

    commit: str


class PauseRequested(Event, frozen=True, tag=True):
    """No new attempt starts; those under way may finish and land. `now`: they are stopped, their work kept."""

    now: bool = False


class StopRequested(Event, frozen=True, tag=True):
    """Nothing new starts and running agents are stopped, their work kept. `blocked_by` says why, if not the user."""

    blocked_by: str = ""


class RunPaused(Event, frozen=True, tag=True):
    """The run rests after a pause; resume carries on."""


class RunStopped(Event, frozen=True, tag=True):
    """The run rests after a stop; resume carries on."""


class RunBlocked(Event, frozen=True, tag=True):
    """Nothing more can be done without a person; `reason` says why."""

    reason: str


class RunCompleted(Event, frozen=True, tag=True):
    """Every stage is closed."""


class RunAbandoned(Event, frozen=True, tag=True):
    """The user gave the run up; its refs and outputs stay. `reason` says what for, if not for its own sake."""

    reason: str = ""
