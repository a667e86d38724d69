"""The simulated journal: events and the rows they add up to, on a disk that may be full or lose its power.

An append is there as a whole or not at all; only a writer of the present epoch may append. As in the real journal, an
append is acknowledged once it is synced. The judge gets all events, and the rows each time somebody read them.
"""

from __future__ import annotations

from typing import NamedTuple

from holdfast.core import events as ev
from holdfast.core.plan import Plan
from holdfast.core.projection import decode_run_row, decode_task_row, encode_row
from holdfast.core.run_transitions import first_row
from holdfast.core.state import RunState


class NoRoomError(Exception):
    """The disk is full."""


class FencedError(Exception):
    """The journal refuses a writer whose epoch is over."""


class StoredRows(NamedTuple):
    """The rows as they are stored: the run's, those of the tasks that ever changed, and the plan of the run then."""

    run: bytes
    tasks: dict[str, bytes]
    plan: Plan


class SimulatedJournal:
    """One run as it is stored, and how it came to be."""

    def __init__(self, plan: Plan, first: ev.RunStarted) -> None:
        self.first_plan = plan
        self.first = first
        self.epoch = first.epoch
        self.full = False
        self.appends: list[list[ev.Event]] = []
        self.reads: dict[int, StoredRows] = {}
        """The rows each time they were read, by the number of appends at that time."""
        self.rows = self._synced = StoredRows(encode_row(first_row(first)), {}, plan)
        self._unsynced = 0
        self._seen: tuple[int, RunState] | None = None

    def take_epoch(self) -> int:
        """Fence off all earlier writers."""
        if self.full:
            raise NoRoomError
        self.epoch += 1
        return self.epoch

    def append(self, epoch: int, events: list[ev.Event], state: RunState) -> None:
        """Write events and the rows that they changed."""
        if self.full:
            raise NoRoomError
        if epoch != self.epoch:
            raise FencedError
        self.write(events, state)

    def write(self, events: list[ev.Event], state: RunState) -> None:
        """Write without looking who does."""
        amended = any(type(event) is ev.PlanAmended for event in events)
        tasks = {} if amended else dict(self.rows.tasks)
        for row in state.take_changed():
            tasks[row.id] = encode_row(row)
        self.rows = StoredRows(encode_row(state.row), tasks, state.plan)
        self.appends.append(events)
        self._unsynced += 1

    def sync(self) -> None:
        """Make all that was written survive a power cut."""
        self._unsynced = 0
        self._synced = self.rows

    def lose_unsynced(self) -> None:
        """A power cut takes back what was not synced."""
        if self._unsynced:
            del self.appends[-self._unsynced :]
            self._unsynced = 0
            self.rows = self._synced
            self.reads = {number: rows for number, rows in self.reads.items() if number <= len(self.appends)}

    def look(self) -> RunState:
        """Return the run as it was last written, for somebody who changes nothing."""
        state = self._read()
        self._seen = (len(self.appends), state)
        return state

    def load(self) -> RunState:
        """Return the run as it was last written."""
        seen, self._seen = self._seen, None
        # What was only looked at need not be read again.
        return seen[1] if seen is not None and seen[0] == len(self.appends) else self._read()

    def events(self) -> list[ev.Event]:
        """Return the whole history."""
        return [self.first, *(event for events in self.appends for event in events)]

    def _read(self) -> RunState:
        rows = self.reads[len(self.appends)] = self.rows
        tasks = [decode_task_row(row) for row in rows.tasks.values()]
        return RunState(rows.plan, decode_run_row(rows.run), tasks)
