"""Events of the merge queue, from the first try to the proof in git."""

from __future__ import annotations

from typing import Literal

from holdfast.core.events.base import Event


class LandingStarted(Event, frozen=True, tag=True):
    """Intent: the task's head is being merged onto the run branch."""

    task: str
    attempt: int


class MergePrepared(Event, frozen=True, tag=True):
    """The merge commit exists and its tree was checked; the run branch moves to it next, by compare-and-swap."""

    task: str
    attempt: int
    commit: str
    onto: str


class MergeConflicted(Event, frozen=True, tag=True):
    """The head does not merge cleanly; `carry` is a commit with both sides and the conflict markers in it."""

    task: str
    attempt: int
    onto: str
    carry: str
    files: tuple[str, ...]
    detail: str = ""


class MergeRefused(Event, frozen=True, tag=True):
    """The merged tree failed a check; `carry` is the merge commit it failed on."""

    task: str
    attempt: int
    check: str
    error: str
    detail: str = ""
    carry: str = ""


class LandingInterrupted(Event, frozen=True, tag=True):
    """A crash or a moved branch cut the landing short; the task is back in the merge queue, in its old place."""

    task: str
    attempt: int


class TaskLanded(Event, frozen=True, tag=True):
    """Git proves it: the task's merge is on the run branch's first-parent line."""

    task: str
    attempt: int
    commit: str
    head: str


class LandingVanished(Event, frozen=True, tag=True):
    """A landing we recorded is no longer on the run branch; the task counts as not done."""

    task: str
    commit: str


class LandingReplaced(Event, frozen=True, tag=True):
    """The recorded merge is gone, but the same change is provably on the branch: squashed or rebased."""

    task: str
    commit: str
    proof: Literal["patch", "tree"]
