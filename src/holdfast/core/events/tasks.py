"""Events of a task that no attempt brought about: what was given up, decided by the user, or found again."""

from __future__ import annotations

from holdfast.core.events.base import Event


class TaskAbandoned(Event, frozen=True, tag=True):
    """No attempt is left; the task's stage cannot close without a person."""

    task: str
    error: str


class TaskSkipped(Event, frozen=True, tag=True):
    """The user declared the task unnecessary; tasks that need it may start."""

    task: str


class TaskReset(Event, frozen=True, tag=True):
    """The user gave the task a fresh budget of attempts."""

    task: str


class TaskRewound(Event, frozen=True, tag=True):
    """The user wants the task done anew from a clean start. What was done before stays at its refs."""

    task: str


class TaskRestored(Event, frozen=True, tag=True):
    """Git and the attempt folders know of `attempts` at the task; the next one goes on from `carry`, if any.

    `base` is the commit below that work. Failures are not in git, so the task has its whole budget again.
    """

    task: str
    attempts: int
    carry: str = ""
    base: str = ""
