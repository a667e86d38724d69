"""Events of runs that other systems began, and of the native files that are kept beside a run."""

from __future__ import annotations

from holdfast.core.claims import PastFailure
from holdfast.core.events.base import Event
from holdfast.core.report import Report


class RunAdopted(Event, frozen=True, tag=True):
    """All that another system's files tell of the run is taken in; the files themselves are kept in git.

    `name` is what that system calls it, `main` its state file, `digest` stands for the content of all of them.
    """

    system: str
    name: str
    main: str
    digest: str


class TaskInherited(Event, frozen=True, tag=True):
    """What another system had tried at the task. The next attempt goes on from `carry`, if any, made upon `base`.

    `attempts` counts all of them, `spent` those that count against the budget. `commits` are those below the run's
    base. What it had done counts only once `TaskLanded` says that git proves it.
    """

    task: str
    attempts: int = 0
    spent: int = 0
    failures: tuple[PastFailure, ...] = ()
    commits: tuple[str, ...] = ()
    carry: str = ""
    base: str = ""
    summary: str = ""
    report: Report | None = None


class MirrorKept(Event, frozen=True, tag=True):
    """From now on the native files of a system are kept up to date, below `folder` of the project."""

    system: str
    folder: str = ""


class MirrorEnded(Event, frozen=True, tag=True):
    """The native files of a system are left as they are from now on."""

    system: str


class MirrorFailed(Event, frozen=True, tag=True):
    """The native files of a system could not be written. Nothing else follows from it."""

    system: str
    error: str
