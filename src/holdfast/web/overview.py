"""All repositories at one look: what waits for a person, and every run in one line, kept up to date without reading all anew."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from holdfast import __version__
from holdfast.boot import boot_id
from holdfast.core.facts import NOWHERE, ResultPlaces
from holdfast.core.status import RUN_IS_OVER, RunStatus, TaskStatus
from holdfast.errors import HoldfastError
from holdfast.journal.protocol import RunListing, RunProgress
from holdfast.reporting.spending import Spending
from holdfast.views.inbox import InboxItem, WaitTimes, inbox_of, needs_events
from holdfast.views.read_only_repo import ReadOnlyRepo
from holdfast.views.run_list import RunLine, places_of_results, run_line
from holdfast.views.status import StatusView, status_view
from holdfast.views.text import timestamp
from holdfast.web.repositories import ServedRepository

_PLACES_S = 5.0
"""How often git is asked where results are: no event tells that somebody landed one."""

StatusCounts = dict[TaskStatus, int]


class RepositoryView(msgspec.Struct, frozen=True, kw_only=True):
    """One repository with its runs, oldest first. `error` says why it cannot be read, with what to do.

    `counts` has, for each unfinished run, how many of its tasks are in which status.
    """

    id: str
    name: str
    path: str
    error: str | None
    runs: tuple[RunLine, ...]
    counts: dict[str, StatusCounts] = {}


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the first page shows; `inbox` is what waits for a person, oldest first."""

    now: str
    version: str
    read_only: bool
    repositories: tuple[RepositoryView, ...]
    inbox: tuple[InboxItem, ...]


@dataclass(frozen=True, slots=True)
class _KnownRun:
    """A run as it was read last, and what it was read from: if that is the same, so is the rest."""

    key: tuple[object, ...]
    line: RunLine
    last_seq: int
    inbox: tuple[InboxItem, ...] = ()
    status: StatusView | None = None


@dataclass(slots=True)
class RepositoryOverview:
    """One repository at one look. It keeps what it read; only runs in which something changed are read again."""

    served: ServedRepository
    view: RepositoryView | None = None
    inbox: tuple[InboxItem, ...] = ()
    _known: dict[str, _KnownRun] = field(default_factory=dict)
    _times: dict[str, WaitTimes] = field(default_factory=dict)
    _places: dict[str, ResultPlaces] = field(default_factory=dict)
    _places_of: tuple[object, ...] = ()
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def refresh(self) -> None:
        """Look again. A repository that cannot be read says why."""
        with self._lock:
            try:
                with self.served.opened() as opened:
                    self._look(opened)
            except HoldfastError as error:
                said = ". ".join(part for part in (error.message, error.hint) if part)
                self.view, self.inbox = self._view((), said), ()
                self._known.clear()

    def statuses(self) -> list[tuple[RunLine, StatusView | None]]:
        """Return every run, with the status of those that are not over."""
        return [(one.line, one.status) for one in list(self._known.values())]

    def last_seq(self, run: str) -> int:
        """Return the number of the newest event of a run that is known."""
        return self._known[run].last_seq

    def _look(self, opened: ReadOnlyRepo) -> None:
        runs, boot = opened.runs(), boot_id()
        self._find_places(opened, runs)
        keys = {listing.row.run: self._key(opened, listing, boot) for listing in runs}
        stale = [
            listing
            for listing in runs
            if (known := self._known.get(listing.row.run)) is None or known.key != keys[listing.row.run]
        ]
        over = [listing for listing in stale if listing.row.status in RUN_IS_OVER]
        progress = opened.require_journal().progress(over) if over else {}
        for listing in stale:
            run = listing.row.run
            self._known[run] = self._read(opened, listing, keys[run], progress.get(run), boot)
        self._known = {run: self._known[run] for run in keys}
        self._times = {run: times for run, times in self._times.items() if run in keys}
        self.view = self._view(tuple(one.line for one in self._known.values()), None)
        self.inbox = tuple(item for one in self._known.values() for item in one.inbox)

    def _key(self, opened: ReadOnlyRepo, listing: RunListing, boot: str) -> tuple[object, ...]:
        row = listing.row
        held = None if row.status in RUN_IS_OVER else opened.holder(row.run)
        due = sum(parked.until <= time.time() for parked in row.parked.values())
        return listing.last_seq, listing.updated_at, str(held or ""), boot, due, self._places.get(row.run)

    def _find_places(self, opened: ReadOnlyRepo, runs: Iterable[RunListing]) -> None:
        completed = [listing.row for listing in runs if listing.row.status is RunStatus.COMPLETED]
        wanted = (tuple(row.run for row in completed), int(time.monotonic() / _PLACES_S))
        if wanted != self._places_of:
            self._places, self._places_of = places_of_results(opened.checkout, completed), wanted

    def forget_places(self) -> None:
        """Ask git again where results are: somebody landed or discarded one."""
        self._places_of = ()

    def _read(
        self,
        opened: ReadOnlyRepo,
        listing: RunListing,
        key: tuple[object, ...],
        progress: RunProgress | None,
        boot: str,
    ) -> _KnownRun:
        """Read one run. Of one that is over the tasks are not read, unless its result waits to be landed."""
        run, places = listing.row.run, self._places.get(listing.row.run, NOWHERE)
        if progress is not None and (listing.row.status is not RunStatus.COMPLETED or places != NOWHERE):
            line = run_line(listing, progress, None, time.time(), held=False, boot_id=boot, places=places)
            return _KnownRun(key, line, listing.last_seq)
        stored = opened.require_journal().load(run)
        state, held = stored.state(), key[2] or None
        status = status_view(stored, str(held) if held else None, time.time(), boot_id=boot, places=places)
        times = self._times.setdefault(run, WaitTimes())
        if needs_events(state):
            times.take_in(opened.require_journal().events(run, after=times.seen, upto=stored.last_seq))
        is_over = listing.row.status in RUN_IS_OVER
        counted = RunProgress(status.metrics.completed, status.metrics.tasks)
        line = run_line(
            stored,
            counted,
            None if is_over else state,
            time.time(),
            held=held is not None,
            boot_id=boot,
            places=places,
        )
        items = inbox_of(state, status, times, stored.updated_at)
        inbox = tuple(msgspec.structs.replace(item, repository=self.served.id) for item in items)
        return _KnownRun(key, line, stored.last_seq, inbox, None if is_over else status)

    def _view(self, lines: tuple[RunLine, ...], error: str | None) -> RepositoryView:
        counts = {
            run: dict(Counter(task.status for task in one.status.tasks))
            for run, one in self._known.items()
            if one.status is not None
        }
        return RepositoryView(
            id=self.served.id,
            name=self.served.name,
            path=str(self.served.checkout),
            error=error,
            runs=lines,
            counts={} if error else counts,
        )


def overview_of(parts: Iterable[RepositoryOverview], *, read_only: bool) -> Overview:
    """Return all repositories as they were looked at last."""
    looked = [part for part in parts if part.view is not None]
    items = (item for part in looked for item in part.inbox)
    return Overview(
        now=timestamp(time.time()),
        version=__version__,
        read_only=read_only,
        repositories=tuple(part.view for part in looked if part.view is not None),
        inbox=tuple(sorted(items, key=lambda item: item.since)),
    )


def without_clock(view: Overview) -> Overview:
    """Return an overview without what changes with every sign of an agent: when it was written, and what was spent."""
    return msgspec.structs.replace(
        view,
        now="",
        repositories=tuple(
            msgspec.structs.replace(
                one,
                runs=tuple(
                    msgspec.structs.replace(line, updated_at="", spending=Spending()) for line in one.runs
                ),
            )
            for one in view.repositories
        ),
    )
