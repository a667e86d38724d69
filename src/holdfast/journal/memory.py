"""A journal in memory, for tests and the simulator: the same promises as the durable ones, except to survive.

It keeps encoded bytes, as they do, so that tests notice a row that changes after it was handed over.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from threading import Condition
from typing import Self

from holdfast.journal.journal_errors import lease_lost, no_such_run, run_exists
from holdfast.journal.lease import Holder
from holdfast.journal.protocol import (
    Journal,
    StoredBytes,
    StoredEvents,
    StoredListing,
    StoredOverview,
    first_plan_of,
)

_LOOK_S = 0.05


@dataclass(slots=True)
class _Run:
    plan_hash: str
    row: bytes
    epoch: int
    started_at: float
    updated_at: float
    last: int
    appends: list[StoredEvents]
    tasks: dict[int, bytes] = field(default_factory=dict)

    def listing(self, run: str) -> StoredListing:
        return StoredListing(self.row, self.started_at, self.updated_at, self.last, run)


@dataclass(slots=True)
class _MemoryWatch:
    """Waits for an append of another thread. One that came between two waits is seen a moment later."""

    changed: Condition

    def wait(self, timeout_s: float) -> None:
        with self.changed:
            self.changed.wait(min(timeout_s, _LOOK_S))

    def close(self) -> None:
        """Nothing to release."""


class MemoryJournal(Journal):
    """Dicts behind the journal's protocol."""

    name = "journal in memory"

    def __init__(self) -> None:
        super().__init__()
        self._runs: dict[str, _Run] = {}
        self._plans: dict[str, bytes] = {}
        self._confirmed: set[str] = set()
        self._changed = Condition()

    @classmethod
    def open(cls, _address: str = "") -> Self:
        """Return a new, empty journal of its own."""
        return cls()

    @classmethod
    def open_read_only(cls, _address: str = "") -> Self:
        """Return a new, empty journal, which has nothing to read."""
        return cls()

    def reader(self) -> Self:
        """Return this journal: it has no connection that belongs to a thread."""
        return self

    def take_epoch(self, run: str, by: Holder | None = None, *, hold: bool = False) -> int:  # noqa: ARG002 - one process needs no lease
        """Raise the run's epoch and return it. Each call fences off all earlier ones."""
        stored = self._run(run)
        stored.epoch += 1
        return stored.epoch

    def remove_run(self, run: str, epoch: int) -> None:
        """Forget a run. Raises LeaseLostError if `epoch` is not its present one."""
        self._owned(run, epoch)
        del self._runs[run]

    def confirm_plan(self, plan_hash: str, at: float) -> None:  # noqa: ARG002 - durable journals keep the time
        """Remember that the user agreed to run this plan's commands. Idempotent."""
        self._confirmed.add(plan_hash)

    def is_confirmed(self, plan_hash: str) -> bool:
        """Tell whether the user agreed to this plan before."""
        return plan_hash in self._confirmed

    def close(self) -> None:
        """Nothing to release."""

    def _watch(self) -> _MemoryWatch:
        return _MemoryWatch(self._changed)

    def _run_ids(self) -> Iterable[str]:
        return self._runs

    def _listings(self) -> list[StoredListing]:
        return [stored.listing(run) for run, stored in self._runs.items()]

    def _overview(self) -> StoredOverview:
        rows = [(run, body) for run, stored in self._runs.items() for body in stored.tasks.values()]
        return StoredOverview(self._plans, rows)

    def _stored(self, run: str) -> StoredBytes:
        stored = self._run(run)
        tasks = [stored.tasks[place] for place in sorted(stored.tasks)]
        began_with = self._plans.get(first_plan_of(stored.row), b"")
        return StoredBytes(stored.listing(run), self._plans[stored.plan_hash], tasks, began_with)

    def _stored_events(self, run: str, after: int, upto: int | None) -> Iterator[StoredEvents]:
        appends = self._run(run).appends
        start = bisect_right(appends, after + 1, key=lambda append: append.first) - 1
        return (append for append in appends[start:] if upto is None or append.first <= upto)

    def _plan(self, plan_hash: str) -> bytes:
        return self._plans[plan_hash]

    def _add_run(
        self, run: str, epoch: int, plan: tuple[str, bytes], row: bytes, events: bytes, at: float
    ) -> None:
        if run in self._runs:
            raise run_exists(run)
        plan_hash, body = plan
        self._plans[plan_hash] = body
        self._runs[run] = _Run(plan_hash, row, epoch, at, at, 1, [StoredEvents(1, at, events)])

    def _add(
        self,
        run: str,
        epoch: int,
        events: bytes,
        count: int,
        row: bytes,
        tasks: Sequence[tuple[int, bytes]],
        at: float,
        plan: tuple[str, bytes] | None,
    ) -> int:
        stored = self._owned(run, epoch)
        if plan is not None:
            stored.plan_hash, body = plan
            self._plans[stored.plan_hash] = body
            stored.tasks.clear()
        stored.row, stored.updated_at = row, at
        stored.appends.append(StoredEvents(stored.last + 1, at, events))
        stored.last += count
        stored.tasks.update(tasks)
        with self._changed:
            self._changed.notify_all()
        return stored.last

    def _run(self, run: str) -> _Run:
        if run not in self._runs:
            raise no_such_run(run)
        return self._runs[run]

    def _owned(self, run: str, epoch: int) -> _Run:
        stored = self._run(run)
        if stored.epoch != epoch:
            raise lease_lost(run)
        return stored
