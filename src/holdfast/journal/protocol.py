"""What every journal promises. One contract suite (`tests/contract/`) passes on all of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from holdfast.core.event_codec import Recorded
from holdfast.core.events import Event
from holdfast.core.plan import Plan
from holdfast.core.projection import RunRow, TaskRow
from holdfast.core.state import RunState


@dataclass(frozen=True, slots=True)
class RunListing:
    """One run as `list` shows it, without loading its tasks."""

    row: RunRow
    started_at: float
    updated_at: float
    last_seq: int


@dataclass(frozen=True, slots=True)
class StoredRun:
    """One run as it was last written: enough to continue without reading its events. Tasks are in plan order."""

    plan: Plan
    row: RunRow
    tasks: Sequence[TaskRow]
    started_at: float
    updated_at: float
    last_seq: int

    def state(self) -> RunState:
        """Return the run's state. Every call returns a new one over the same rows."""
        return RunState(self.plan, self.row, self.tasks)


class JournalReader(Protocol):
    """What views get: they look and can change nothing."""

    def next_run_number(self) -> int:
        """Return the counter for the next run id. Two callers may get the same: `create_run` decides."""

    def load(self, run: str) -> StoredRun:
        """Return the run as last written. Raises JournalError if there is none of that id."""

    def events(self, run: str, *, after: int = 0, upto: int | None = None) -> Iterator[Recorded]:
        """Yield the run's events in order, numbered from 1, those after `after` up to and including `upto`."""

    def runs(self) -> list[RunListing]:
        """Return every run, oldest first."""

    def is_confirmed(self, plan_hash: str) -> bool:
        """Tell whether the user agreed to this plan before."""

    def close(self) -> None:
        """Release files and locks. Repeating it changes nothing."""


class Journal(JournalReader, Protocol):
    """Append-only events of many runs, with one writer per run at a time.

    Times (`at`) are wall-clock seconds for people to read; nothing is ever decided from them.
    """

    def reader(self) -> JournalReader:
        """Return a reader of this journal for another thread. The caller closes it."""

    def create_run(self, plan: Plan, row: RunRow, event: Event, at: float) -> None:
        """Make a run durable with its plan and its first event. Raises JournalError if the id is taken."""

    def take_epoch(self, run: str) -> int:
        """Raise the run's epoch and return it. Whoever wrote under an older one is refused from now on."""

    def append(
        self,
        run: str,
        epoch: int,
        events: Sequence[Event],
        row: RunRow,
        tasks: Sequence[TaskRow],
        at: float,
    ) -> int:
        """Make events and the projection rows they changed durable together; return the last event's number.

        One transaction and one sync, for any number of events. Raises LeaseLostError, writing nothing,
        if `epoch` is not the run's present one, and JournalError if a task is not in the run's plan.
        """

    def remove_run(self, run: str, epoch: int) -> None:
        """Forget a run: its events, its rows, and its plan unless another run has the same.

        All of it or nothing. Raises LeaseLostError, removing nothing, if `epoch` is not the run's present one, and
        JournalError if there is no such run. Consents stay: they are about plans, not runs.
        """

    def confirm_plan(self, plan_hash: str, at: float) -> None:
        """Remember that the user agreed to run this plan's commands. Repeating it changes nothing."""


def number_after(runs: Iterable[str]) -> int:
    """Return a counter that no run id in `runs` starts with yet, however many of them were lost or rebuilt."""
    return max((int(found[0]) for run in runs if (found := re.match(r"[0-9]+", run))), default=0) + 1
