"""What every journal promises, and what all journals share: encoding, decoding, the order of tasks, and the errors.

One contract suite (`tests/contract/`) passes on all of them. A backend derives from `JournalReader` and `Journal` and
fills in the abstract methods. It stores each append of events as one body, each row as one body, and never looks inside.
The table of journals is in `journal/__init__.py`.
"""

from __future__ import annotations

import gc
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import msgspec

from holdfast.core.event_codec import Recorded, decode_events, encode_events
from holdfast.core.events import Event, PlanAmended, RunStarted
from holdfast.core.ids import run_branch
from holdfast.core.plan import Plan, decode_plan, encode_plan
from holdfast.core.projection import RunRow, TaskRow, decode_run_row, decode_task_row, encode_row
from holdfast.core.state import RunState
from holdfast.core.status import TaskStatus
from holdfast.errors import (
    JournalError,
    quoted,
)
from holdfast.journal.journal_errors import REBUILD, decoding
from holdfast.journal.lease import Holder


@dataclass(frozen=True, slots=True)
class RunListing:
    """One run as `list` shows it, without loading its tasks."""

    row: RunRow
    started_at: float
    updated_at: float
    last_seq: int


class RunProgress(NamedTuple):
    """How far a run is: how many of its tasks have landed."""

    landed: int = 0
    tasks: int = 0


@dataclass(frozen=True, slots=True)
class StoredRun(RunListing):
    """One run as it was last written: enough to continue without reading its events. Tasks are in plan order.

    Its history is folded from the `first_plan`, with which it began: amendments are events.
    """

    plan: Plan
    tasks: Sequence[TaskRow]
    first_plan: Plan

    def state(self) -> RunState:
        """Return the run's state. Every call returns a new one over the same rows."""
        return RunState(self.plan, self.row, self.tasks)


class StoredListing(NamedTuple):
    """One run without its tasks: its row, when it was started and last written, the number of its last event, and its id."""

    row: bytes
    started_at: float
    updated_at: float
    last_seq: int
    run: str

    def decoded(self) -> RunListing:
        """Return it as views get it. Raises JournalError if it would have us act on another run, or move another branch."""
        row = decode_run_row(self.row)
        if row.run != self.run:
            raise JournalError(
                f"the journal has run {quoted(row.run)} in the place of {quoted(self.run)}", REBUILD
            )
        if row.branch != run_branch(row.run):
            raise JournalError(f"the journal says that run {row.run} lands on {quoted(row.branch)}", REBUILD)
        return RunListing(row, _credible(self.started_at), _credible(self.updated_at), self.last_seq)


class StoredBytes(NamedTuple):
    """One run as of one moment. `tasks` are in plan order. `first_plan` is empty if the plan was never amended."""

    listing: StoredListing
    plan: bytes
    tasks: Iterable[bytes]
    first_plan: bytes = b""


class StoredOverview(NamedTuple):
    """All plans by their hash, and the row of every task with the id of its run, as of one moment."""

    plans: Mapping[str, bytes]
    tasks: Iterable[tuple[str, bytes]]


class _TaskStatusOnly(msgspec.Struct):
    """Of the row of a task, its status: the rest is not decoded."""

    status: TaskStatus = TaskStatus.PENDING


class _StageTasks(msgspec.Struct):
    tasks: list[msgspec.Raw] = []


class _PlanTasks(msgspec.Struct):
    """Of a plan, how many tasks there are."""

    stages: list[_StageTasks] = []


class StoredEvents(NamedTuple):
    """The events of one append, in one body. `first` is the number of the first of them."""

    first: int
    at: float
    body: bytes


@dataclass(frozen=True, slots=True)
class StoreDurability:
    """What an acknowledged event survives in a server. None: nobody can tell."""

    server_killed: bool | None
    power_cut: bool | None
    failover: bool | None
    """Whether it is there when a replica takes the server's place."""
    is_volatile: bool
    """Whether the server may forget more than what it acknowledged last: only with the user's consent."""
    sentence: str
    """The same for people."""


class Watch(Protocol):
    """Waits for changes of a journal."""

    def wait(self, timeout_s: float) -> None:
        """Return as soon as something may have changed since the last call, or after a time. It may return for nothing."""

    def close(self) -> None:
        """Stop watching."""


_LOOK_S = 1.0
"""How often who follows a run looks for itself, even if nobody told of a change."""
_LAST_TIME = 253_402_300_800
"""The end of the year 9999, in seconds since 1970."""
_STATUS_DECODER = msgspec.json.Decoder(_TaskStatusOnly)
_PLAN_DECODER = msgspec.json.Decoder(_PlanTasks)


class JournalReader(ABC):
    """What views get: they can read but change nothing. `name` is what error messages call the journal."""

    name = "journal"

    def next_run_number(self) -> int:
        """Return the counter for the next run id. Two callers may get the same: `create_run` decides."""
        with decoding(self.name):
            return number_after(self._run_ids())

    def load(self, run: str) -> StoredRun:
        """Return the run as last written. Raises JournalError if there is none of that id."""
        with decoding(self.name), _collector_paused():
            stored = self._stored(run)
            listing = stored.listing.decoded()
            tasks = [decode_task_row(body) for body in stored.tasks]
            plan = decode_plan(stored.plan)
            first = decode_plan(stored.first_plan) if stored.first_plan else plan
            self._require_in_plan(run, plan, [task.id for task in tasks])
            times = (listing.started_at, listing.updated_at)
            return StoredRun(listing.row, *times, listing.last_seq, plan, tasks, first)

    def _require_in_plan(self, run: str, plan: Plan, names: Sequence[str]) -> None:
        """Raise JournalError if a row is of a task that the plan does not have, or there are two of one."""
        known = {task.id for _, task in plan.tasks()}
        if not known.issuperset(names) or len(set(names)) < len(names):
            raise JournalError(
                f"{self.name}: run {run} has rows of tasks that are not in its plan, or two of one", REBUILD
            )

    def events(self, run: str, *, after: int = 0, upto: int | None = None) -> Iterator[Recorded]:
        """Yield the run's events in order, numbered from 1, those after `after` up to and including `upto`.

        Raises JournalError where one is missing, or there twice.
        """
        expected = after + 1
        for stored in self._stored_events(run, after, upto):
            with decoding(self.name):
                events, at = decode_events(stored.body), _credible(stored.at)
            # The first append may begin earlier. Every other one follows the one before it.
            is_first = expected == after + 1
            if stored.first > expected or (stored.first < expected and not is_first):
                raise JournalError(
                    f"{self.name}: event {expected} of run {run} is missing, or there twice", REBUILD
                )
            for number, event in enumerate(events, stored.first):
                if after < number and (upto is None or number <= upto):
                    yield Recorded(number, at, event)
            expected = stored.first + len(events)

    def first_event(self, run: str) -> Recorded:
        """Return the event with which a run began. Raises JournalError if it is not there any more."""
        first = next(self.events(run, upto=1), None)
        if first is None or not isinstance(first.event, RunStarted):
            raise JournalError(f"{self.name} does not hold how run {run} began", REBUILD)
        return first

    def runs(self) -> list[RunListing]:
        """Return every run, oldest first."""
        with decoding(self.name):
            return [listing.decoded() for listing in self._listings()]

    def progress(self, runs: Sequence[RunListing]) -> dict[str, RunProgress]:
        """Return how far each of these runs is. One read for all of them, of which only what is counted is decoded."""
        landed: Counter[str] = Counter()
        tasks: dict[str, int] = {}
        with decoding(self.name):
            plans, rows = self._overview()
            for run, body in rows:
                landed[run] += _STATUS_DECODER.decode(body).status is TaskStatus.COMPLETED
            for plan_hash in {listing.row.plan_hash for listing in runs} & plans.keys():
                stages = _PLAN_DECODER.decode(plans[plan_hash]).stages
                tasks[plan_hash] = sum(len(stage.tasks) for stage in stages)
        return {
            listing.row.run: RunProgress(landed[listing.row.run], tasks.get(listing.row.plan_hash, 0))
            for listing in runs
        }

    def follow(self, run: str, after: int = 0) -> Generator[list[Recorded], None, None]:
        """Yield the events after `after` as they become durable, each once and in order, for ever.

        What is there already comes at once; new ones come as soon as they are acknowledged. From time to time an empty
        list comes, so that the caller can see whether the run is over. Close the iterator to end it. A lost connection
        raises JournalUnavailableError: who follows again after the last number it saw misses nothing.
        """
        with closing(self._watch()) as watch:
            while True:
                happened = list(self.events(run, after=after))
                after = happened[-1].seq if happened else after
                yield happened
                watch.wait(_LOOK_S)

    def changes(self) -> Generator[None, None, None]:
        """Yield at once, then whenever something of any run may have changed, and from time to time for nothing, for ever."""
        with closing(self._watch()) as watch:
            while True:
                yield
                watch.wait(_LOOK_S)

    def holder(self, run: str) -> Holder | None:  # noqa: ARG002 - a journal with leases of its own knows
        """Return who holds the run's lease in the store. Embedded journals have none: the lock in the run's folder tells."""
        return None

    @property
    def durability(self) -> StoreDurability | None:
        """What an acknowledged event survives; None where every append is synced to a disk of this machine."""
        return None

    def damage(self) -> str:
        """Return what is wrong with the storage below the records; empty if nothing is, or if the server sees to that."""
        return ""

    @abstractmethod
    def is_confirmed(self, plan_hash: str) -> bool:
        """Tell whether the user agreed to this plan before."""

    @abstractmethod
    def _watch(self) -> Watch:
        """Return what waits for changes of the journal from now on. The caller closes it."""

    @abstractmethod
    def close(self) -> None:
        """Release files and locks. Idempotent."""

    @abstractmethod
    def _run_ids(self) -> Iterable[str]:
        """Return the id of every run."""

    @abstractmethod
    def _listings(self) -> list[StoredListing]:
        """Return every run, oldest first."""

    @abstractmethod
    def _overview(self) -> StoredOverview:
        """Return all plans, and the rows of all tasks."""

    @abstractmethod
    def _stored(self, run: str) -> StoredBytes:
        """Return one run. Raises `no_such_run` if there is none of that id."""

    @abstractmethod
    def _stored_events(self, run: str, after: int, upto: int | None) -> Iterator[StoredEvents]:
        """Yield, in order, each append that has an event after `after` and up to `upto`. It may begin and end outside."""


class Journal(JournalReader):
    """Append-only events of many runs, with one writer per run at a time.

    Times (`at`) are wall-clock seconds for people to read; nothing is ever decided from them.
    """

    def __init__(self) -> None:
        self._places: dict[str, dict[str, int]] = {}

    @abstractmethod
    def reader(self) -> JournalReader:
        """Return a reader of this journal for another thread. The caller closes it."""

    def create_run(self, plan: Plan, row: RunRow, event: Event, at: float) -> None:
        """Make a run durable with its plan and its first event. Raises RunExistsError if the id is taken."""
        stored_plan = (row.plan_hash, encode_plan(plan))
        self._add_run(row.run, row.epoch, stored_plan, encode_row(row), encode_events([event]), at)

    @abstractmethod
    def take_epoch(self, run: str, by: Holder | None = None, *, hold: bool = False) -> int:
        """Raise the run's epoch and return it. Each call fences off all earlier ones: their writers are refused.

        Where the journal has leases of its own, raises LeaseHeldError if that of another is alive, unless our own lock (`by`)
        shows that it is gone. With `hold`, we hold the run for `lease_s` from now on.
        """

    lease_s: float | None = None
    """How long the run is held without being renewed; None where the lock in the run's folder is the lease."""

    def renew(self, run: str, epoch: int) -> None:
        """Hold the run for another `lease_s`. Raises LeaseLostError if another runner took it over."""

    def release(self, run: str, epoch: int) -> None:
        """End our lease, so that another runner need not wait. Does nothing if it is not ours any more."""

    def append(
        self, run: str, epoch: int, events: Sequence[Event], row: RunRow, tasks: Sequence[TaskRow], at: float
    ) -> int:
        """Make events and the projection rows they changed durable together; return the last event's number.

        One transaction and one sync, for any number of events. Raises LeaseLostError if `epoch` is not the run's
        present one, and JournalError if a task is not in the run's plan. Then nothing is recorded, and the
        journal can be used as before. An amended plan replaces the run's, and `tasks` all rows of its tasks. Appending
        the same events again records them again: the epoch, not the content, tells writers apart.
        """
        amended = next((event.plan for event in reversed(events) if isinstance(event, PlanAmended)), None)
        if amended is not None:
            self._places[row.plan_hash] = _places_of(amended)
        rows = self._placed(row, tasks) if tasks else ()
        plan = None if amended is None else (row.plan_hash, encode_plan(amended))
        return self._add(run, epoch, encode_events(events), len(events), encode_row(row), rows, at, plan)

    @abstractmethod
    def remove_run(self, run: str, epoch: int) -> None:
        """Forget a run: its events, its rows, and its plan unless another run has the same.

        All of it or nothing. Raises LeaseLostError, removing nothing, if `epoch` is not the run's present one, and
        JournalError if there is no such run. Consents stay: they are about plans, not runs.
        """

    @abstractmethod
    def confirm_plan(self, plan_hash: str, at: float) -> None:
        """Remember that the user agreed to run this plan's commands. Idempotent."""

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
        plan: tuple[str, bytes] | None,
    ) -> int:
        """Make `count` events and some rows durable together; return the last event's number.

        A task's row comes with its place in the plan. With a `plan`, by its hash, that is the run's from now on, and `tasks`
        are all rows there are. Raises `lease_lost`, writing nothing, if `epoch` is not the run's present one.
        """

    @abstractmethod
    def _plan(self, plan_hash: str) -> bytes:
        """Return a plan. Raises `no_plan` if it is missing."""

    def _placed(self, row: RunRow, tasks: Sequence[TaskRow]) -> list[tuple[int, bytes]]:
        """Return each task's row with its place in the plan. What a digest names never changes, so its order is read once."""
        places = self._places.get(row.plan_hash)
        if places is None:
            with decoding(self.name):
                plan = decode_plan(self._plan(row.plan_hash))
            places = self._places[row.plan_hash] = _places_of(plan)
        try:
            return [(places[task.id], encode_row(task)) for task in tasks]
        except KeyError as error:
            raise JournalError(
                f"run {row.run} has no task {error.args[0]}", "`holdfast doctor` looks into it"
            ) from error


def _places_of(plan: Plan) -> dict[str, int]:
    return {task.id: at for at, (_, task) in enumerate(plan.tasks())}


def number_after(runs: Iterable[str]) -> int:
    """Return a counter that no run id in `runs` starts with, even if some were lost or rebuilt."""
    return max((int(found[0]) for run in runs if (found := re.match(r"[0-9]+", run))), default=0) + 1


def plan_hash_of(row: bytes) -> str:
    """Return which plan the run of a stored row has."""
    return decode_run_row(row).plan_hash


def first_plan_of(row: bytes) -> str:
    """Return which plan the run of a stored row began with; empty if it has that still."""
    return decode_run_row(row).first_plan


def plan_hashes_of(row: bytes) -> set[str]:
    """Return the plans that the run of a stored row needs: the one that it has, and the one that it began with."""
    decoded = decode_run_row(row)
    return {decoded.plan_hash, decoded.first_plan or decoded.plan_hash}


def _credible(at: float) -> float:
    """Return a stored time. Raises ValueError for one that no clock shows and no calendar has."""
    if not 0 <= at < _LAST_TIME:
        raise ValueError(f"a time that cannot be: {at}")
    return at


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
