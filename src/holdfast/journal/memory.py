"""A journal in memory, for tests and the simulator: the same promises as the durable ones, except to survive.

It keeps encoded bytes, as they do, so that whoever changes a row after handing it over is found out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from holdfast.core.event_codec import Recorded, decode_event, encode_event
from holdfast.core.events import Event
from holdfast.core.plan import Plan, decode_plan, encode_plan
from holdfast.core.projection import RunRow, TaskRow, decode_run_row, decode_task_row, encode_row
from holdfast.errors import JournalError, LeaseLostError
from holdfast.journal.protocol import RunListing, StoredRun, number_after, unplanned


@dataclass(slots=True)
class _Run:
    plan: bytes
    row: bytes
    epoch: int
    started_at: float
    updated_at: float
    events: list[tuple[float, bytes]]
    names: dict[str, None]
    tasks: dict[str, bytes] = field(default_factory=dict)


class MemoryJournal:
    """Dicts behind the journal's protocol."""

    def __init__(self) -> None:
        self._runs: dict[str, _Run] = {}
        self._confirmed: set[str] = set()

    def next_run_number(self) -> int:
        """Return the counter for the next run id."""
        return number_after(self._runs)

    def create_run(self, plan: Plan, row: RunRow, event: Event, at: float) -> None:
        """Keep a run with its plan and its first event. Raises JournalError if the id is taken."""
        if row.run in self._runs:
            raise JournalError(f"run {row.run} exists already", "`holdfast resume` carries it on")
        first = (at, encode_event(event))
        names = dict.fromkeys(task.id for _, task in plan.tasks())
        self._runs[row.run] = _Run(encode_plan(plan), encode_row(row), row.epoch, at, at, [first], names)

    def take_epoch(self, run: str) -> int:
        """Raise the run's epoch and return it. Each call fences off all earlier ones."""
        stored = self._stored(run)
        stored.epoch += 1
        return stored.epoch

    def append(
        self,
        run: str,
        epoch: int,
        events: Sequence[Event],
        row: RunRow,
        tasks: Sequence[TaskRow],
        at: float,
    ) -> int:
        """Keep events and the rows they changed; return the last event's number. The same events again count again."""
        stored = self._owned(run, epoch)
        for task in tasks:
            if task.id not in stored.names:
                raise unplanned(run, task.id)
        bodies = [(at, encode_event(event)) for event in events]
        rows = {task.id: encode_row(task) for task in tasks}
        stored.row, stored.updated_at = encode_row(row), at
        stored.events += bodies
        stored.tasks |= rows
        return len(stored.events)

    def remove_run(self, run: str, epoch: int) -> None:
        """Forget a run. Raises LeaseLostError if `epoch` is not its present one."""
        self._owned(run, epoch)
        del self._runs[run]

    def load(self, run: str) -> StoredRun:
        """Return the run as last written. Raises JournalError if there is none of that id."""
        stored = self._stored(run)
        tasks = [decode_task_row(stored.tasks[name]) for name in stored.names if name in stored.tasks]
        plan, row = decode_plan(stored.plan), decode_run_row(stored.row)
        return StoredRun(plan, row, tasks, stored.started_at, stored.updated_at, len(stored.events))

    def events(self, run: str, *, after: int = 0, upto: int | None = None) -> Iterator[Recorded]:
        """Yield the run's events in order, numbered from 1."""
        for number, (at, body) in enumerate(self._stored(run).events[after:upto], after + 1):
            yield Recorded(number, at, decode_event(body))

    def runs(self) -> list[RunListing]:
        """Return every run, oldest first."""
        return [
            RunListing(decode_run_row(stored.row), stored.started_at, stored.updated_at, len(stored.events))
            for stored in self._runs.values()
        ]

    def confirm_plan(self, plan_hash: str, at: float) -> None:  # noqa: ARG002 - durable journals keep the time
        """Remember that the user agreed to run this plan's commands. Repeating it changes nothing."""
        self._confirmed.add(plan_hash)

    def is_confirmed(self, plan_hash: str) -> bool:
        """Tell whether the user agreed to this plan before."""
        return plan_hash in self._confirmed

    def close(self) -> None:
        """Nothing to release; what is kept stays readable."""

    def _owned(self, run: str, epoch: int) -> _Run:
        stored = self._stored(run)
        if epoch != stored.epoch:
            raise LeaseLostError(
                f"another runner took over run {run}", "`holdfast status` shows how it goes on there"
            )
        return stored

    def _stored(self, run: str) -> _Run:
        if run not in self._runs:
            raise JournalError(f"there is no run {run}", "`holdfast list` shows the runs there are")
        return self._runs[run]
