"""What all journals share: encoding, decoding, the order of tasks, and the errors. Backends move bytes.

A backend derives from `BytesReader` and `BytesJournal` and fills in the methods that begin with an underscore. It stores
each append of events as one body, each row as one body, and never looks inside.
"""

from __future__ import annotations

import gc
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import msgspec

from holdfast.core.event_codec import Recorded, decode_events, encode_events
from holdfast.core.events import Event
from holdfast.core.plan import Plan, decode_plan, encode_plan
from holdfast.core.projection import RunRow, TaskRow, decode_run_row, decode_task_row, encode_row
from holdfast.errors import JournalError, LeaseLostError
from holdfast.journal.protocol import RunListing, StoredRun, number_after

REBUILD = "the file is kept as it is; `holdfast rebuild` restores the state from git"


class StoredListing(NamedTuple):
    """One run without its tasks: its row, when it was started and last written, and the number of its last event."""

    row: bytes
    started_at: float
    updated_at: float
    last_seq: int


class StoredBytes(NamedTuple):
    """One run as of one moment. `tasks` are in plan order."""

    listing: StoredListing
    plan: bytes
    tasks: Iterable[bytes]


class StoredEvents(NamedTuple):
    """The events of one append, in one body. `first` is the number of the first of them."""

    first: int
    at: float
    body: bytes


class BytesReader(ABC):
    """The reading half of a journal. `name` is what error messages call it."""

    name = "journal"

    @abstractmethod
    def _run_ids(self) -> Iterable[str]:
        """Return the id of every run."""

    @abstractmethod
    def _listings(self) -> list[StoredListing]:
        """Return every run, oldest first."""

    @abstractmethod
    def _stored(self, run: str) -> StoredBytes:
        """Return one run. Raises `no_such_run` if there is none of that id."""

    @abstractmethod
    def _stored_events(self, run: str, after: int, upto: int | None) -> Iterator[StoredEvents]:
        """Yield, in order, each append that has an event after `after` and up to `upto`. It may begin and end outside."""

    def next_run_number(self) -> int:
        """Return the counter for the next run id."""
        return number_after(self._run_ids())

    def load(self, run: str) -> StoredRun:
        """Return the run as last written. Raises JournalError if there is none of that id."""
        with decoding(self.name), _collector_paused():
            stored = self._stored(run)
            tasks = [decode_task_row(body) for body in stored.tasks]
            row, started_at, updated_at, last_seq = stored.listing
            plan = decode_plan(stored.plan)
            return StoredRun(plan, decode_run_row(row), tasks, started_at, updated_at, last_seq)

    def events(self, run: str, *, after: int = 0, upto: int | None = None) -> Iterator[Recorded]:
        """Yield the run's events in order, numbered from 1."""
        for stored in self._stored_events(run, after, upto):
            with decoding(self.name):
                events = decode_events(stored.body)
            for number, event in enumerate(events, stored.first):
                if after < number and (upto is None or number <= upto):
                    yield Recorded(number, stored.at, event)

    def runs(self) -> list[RunListing]:
        """Return every run, oldest first."""
        listings = self._listings()
        with decoding(self.name):
            return [
                RunListing(decode_run_row(row), started_at, updated_at, last_seq)
                for row, started_at, updated_at, last_seq in listings
            ]


class BytesJournal(BytesReader):
    """The writing half of a journal."""

    def __init__(self) -> None:
        self._places: dict[str, dict[str, int]] = {}

    @abstractmethod
    def _add_run(
        self, run: str, epoch: int, plan: tuple[str, bytes], row: bytes, events: bytes, at: float
    ) -> None:
        """Make a run durable with its plan, by its hash, and its first event. Raises `run_exists` if the id is taken."""

    @abstractmethod
    def _add(
        self,
        run: str,
        epoch: int,
        events: bytes,
        count: int,
        row: bytes,
        tasks: Sequence[tuple[int, bytes]],
        at: float,
    ) -> int:
        """Make `count` events and some rows durable together; return the last event's number.

        A task's row comes with its place in the plan. Raises `lease_lost`, writing nothing, if `epoch` is not the run's
        present one.
        """

    @abstractmethod
    def _plan(self, plan_hash: str) -> bytes:
        """Return a plan. Raises `no_plan` if it is missing."""

    def create_run(self, plan: Plan, row: RunRow, event: Event, at: float) -> None:
        """Make a run durable with its plan and its first event. Raises JournalError if the id is taken."""
        stored_plan = (row.plan_hash, encode_plan(plan))
        self._add_run(row.run, row.epoch, stored_plan, encode_row(row), encode_events([event]), at)

    def append(
        self, run: str, epoch: int, events: Sequence[Event], row: RunRow, tasks: Sequence[TaskRow], at: float
    ) -> int:
        """Make events and the rows they changed durable together; return the last event's number.

        Appending the same events again records them again: the epoch, not the content, tells writers apart.
        After a JournalError nothing of it is recorded, and the journal can be used as before.
        """
        rows = self._placed(row, tasks) if tasks else ()
        return self._add(run, epoch, encode_events(events), len(events), encode_row(row), rows, at)

    def _placed(self, row: RunRow, tasks: Sequence[TaskRow]) -> list[tuple[int, bytes]]:
        """Return each task's row with its place in the plan. A plan never changes, so its order is read once."""
        places = self._places.get(row.plan_hash)
        if places is None:
            with decoding(self.name):
                plan = decode_plan(self._plan(row.plan_hash))
            places = self._places[row.plan_hash] = {task.id: at for at, (_, task) in enumerate(plan.tasks())}
        try:
            return [(places[task.id], encode_row(task)) for task in tasks]
        except KeyError as error:
            raise JournalError(
                f"run {row.run} has no task {error.args[0]}", "`holdfast doctor` looks into it"
            ) from error


def plan_hash_of(row: bytes) -> str:
    """Return which plan the run of a stored row has."""
    return decode_run_row(row).plan_hash


def run_exists(run: str) -> JournalError:
    """Return the error for a run id that is taken."""
    return JournalError(f"run {run} exists already", "`holdfast resume` continues it")


def no_such_run(run: str) -> JournalError:
    """Return the error for a run that the journal does not have."""
    return JournalError(f"there is no run {run}", "`holdfast list` shows the runs there are")


def no_plan(plan_hash: str) -> JournalError:
    """Return the error for a plan that is missing although a run has it."""
    return JournalError(f"plan {plan_hash[:12]} is missing from the journal", REBUILD)


def lease_lost(run: str) -> LeaseLostError:
    """Return the error for a writer whose epoch is over."""
    return LeaseLostError(f"another runner took over run {run}", "`holdfast status` shows what it does there")


def unreadable(name: str, error: msgspec.DecodeError) -> JournalError:
    """Return the error for a stored record that the codecs refuse."""
    return JournalError(f"{name}: it holds a record that cannot be read ({error})", REBUILD)


@contextmanager
def decoding(name: str) -> Iterator[None]:
    """Turn what the codecs raise about a stored record into a JournalError with a hint."""
    try:
        yield
    except msgspec.DecodeError as error:
        raise unreadable(name, error) from error


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Keep the garbage collector from walking rows that are all alive; it doubles the time of a large load."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
