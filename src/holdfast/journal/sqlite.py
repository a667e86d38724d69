"""The embedded journal: one SQLite file per repository, many readers, one writer per run.

Every append is one transaction and one sync. Views use `SqliteReader`, which can only look.
"""

from __future__ import annotations

import gc
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self, TypeVar

from holdfast.core.event_codec import Recorded, decode_events, encode_events
from holdfast.core.events import Event
from holdfast.core.plan import Plan, decode_plan, encode_plan
from holdfast.core.projection import RunRow, TaskRow, decode_run_row, decode_task_row, encode_row
from holdfast.errors import JournalError, LeaseLostError
from holdfast.journal import sqlite_schema
from holdfast.journal.filesystem_checks import private_folder, refuse_network_filesystem
from holdfast.journal.protocol import RunListing, StoredRun, number_after, unplanned
from holdfast.journal.sqlite_read import REBUILD, consistent_read, explained

T = TypeVar("T")
_BUSY_S = 30.0
_PAGE = 200

_LISTING = "SELECT row, started_at, updated_at, last_seq FROM runs"
_PLAN = "SELECT body FROM plans WHERE hash = ?"
_TASKS = "SELECT row FROM tasks WHERE key BETWEEN ? AND ? ORDER BY key"
_RUN_KEY = "SELECT key FROM runs WHERE run = ?"
_EVENTS = """SELECT key, at, body FROM events
  WHERE key BETWEEN (SELECT max(key) FROM events WHERE key <= ?) AND ? ORDER BY key LIMIT ?"""
_CONFIRMED = "SELECT 1 FROM confirmed_plans WHERE hash = ?"
_ADD_CONFIRMED = "INSERT INTO confirmed_plans VALUES (?, ?) ON CONFLICT DO NOTHING"
_ADD_PLAN = "INSERT INTO plans VALUES (?, ?) ON CONFLICT DO NOTHING"
_ADD_RUN = "INSERT INTO runs (run, epoch, started_at, updated_at, last_seq, row) VALUES (?, ?, ?, ?, 1, ?)"
_ADD_EVENT = "INSERT INTO events VALUES (?, ?, ?)"
_RAISE_EPOCH = "UPDATE runs SET epoch = epoch + 1 WHERE run = ?"
_EPOCH = "SELECT epoch FROM runs WHERE run = ?"
_OWNED = "SELECT key, last_seq FROM runs WHERE run = ? AND epoch = ?"
_SET_RUN = "UPDATE runs SET row = ?, updated_at = ?, last_seq = ? WHERE key = ?"
_SET_TASK = "REPLACE INTO tasks VALUES (?, ?)"

_DROP_EVENTS = "DELETE FROM events WHERE key BETWEEN ? AND ?"
_DROP_TASKS = "DELETE FROM tasks WHERE key BETWEEN ? AND ?"
_DROP_RUN = "DELETE FROM runs WHERE key = ?"
_DROP_PLAN = "DELETE FROM plans WHERE hash = ?"


class SqliteReader:
    """The reading half. It holds nothing open between two questions, so it never stands in a writer's way."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def next_run_number(self) -> int:
        """Return the counter for the next run id."""
        return number_after(
            name for (name,) in self._ask(lambda db: db.execute("SELECT run FROM runs").fetchall())
        )

    def load(self, run: str) -> StoredRun:
        """Return the run as last written. Raises JournalError if there is none of that id."""
        return self._ask(lambda db: _load(db, run))

    def events(self, run: str, *, after: int = 0, upto: int | None = None) -> Iterator[Recorded]:
        """Yield the run's events in order; a page at a time, so that a slow reader holds back no writer."""
        base, end = _range(self._ask(lambda db: _run_key(db, run)))
        last = end if upto is None else base + upto
        seen = base + after
        while page := self._page(seen + 1, last):
            with explained(self._path):
                recorded = [item for batch in page for item in _unpacked(*batch, base)]
            yield from (item for item in recorded if seen < base + item.seq <= last)
            if len(page) < _PAGE:
                return
            seen = base + recorded[-1].seq

    def runs(self) -> list[RunListing]:
        """Return every run, oldest first."""
        rows = self._ask(lambda db: db.execute(f"{_LISTING} ORDER BY key").fetchall())
        with explained(self._path):
            return [RunListing(decode_run_row(row), *rest) for row, *rest in rows]

    def is_confirmed(self, plan_hash: str) -> bool:
        """Tell whether the user agreed to this plan before."""
        return self._ask(lambda db: db.execute(_CONFIRMED, (plan_hash,)).fetchone()) is not None

    def close(self) -> None:
        """Release files and locks. Repeating it changes nothing."""

    def _ask(self, query: Callable[[sqlite3.Connection], T]) -> T:
        with explained(self._path):
            return consistent_read(self._path, query)

    def _page(self, position: int, last: int) -> list[tuple[int, float, bytes]]:
        return self._ask(lambda db: db.execute(_EVENTS, (position, last, _PAGE)).fetchall())


class SqliteJournal(SqliteReader):
    """The journal opened for writing. One connection; each process that writes has its own."""

    def __init__(self, path: Path, db: sqlite3.Connection) -> None:
        super().__init__(path)
        self._db = db
        self._file = path.stat()
        self._places: dict[str, dict[str, int]] = {}

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open the journal for writing, made or brought up to date if need be.

        Raises JournalError, and leaves the bytes as they are, if the file is not a journal this program knows,
        or would be on a network file system.
        """
        path = path.resolve()
        refuse_network_filesystem(path)
        with explained(path):
            private_folder(path.parent)
            if not path.exists():
                _refuse_stray_log(path)
                sqlite_schema.create(path)
            sqlite_schema.remove_drafts(path)
            sqlite_schema.check_identity(path)
            return cls(path, _connect(path))

    @staticmethod
    def open_read_only(path: Path) -> SqliteReader:
        """Open the journal for looking: beside a live writer, after a crash, in a read-only folder, on a full disk."""
        path = path.resolve()
        with explained(path):
            sqlite_schema.check_identity(path)
        return SqliteReader(path)

    def create_run(self, plan: Plan, row: RunRow, event: Event, at: float) -> None:
        """Make a run durable with its plan and its first event. Raises JournalError if the id is taken."""
        with self._transaction() as db:
            if db.execute(_RUN_KEY, (row.run,)).fetchone():
                raise JournalError(f"run {row.run} exists already", "`holdfast resume` carries it on")
            db.execute(_ADD_PLAN, (row.plan_hash, encode_plan(plan)))
            db.execute(_ADD_RUN, (row.run, row.epoch, at, at, encode_row(row)))
            base, _ = _range(_run_key(db, row.run))
            db.execute(_ADD_EVENT, (base + 1, at, encode_events([event])))

    def take_epoch(self, run: str) -> int:
        """Raise the run's epoch and return it. Each call fences off all earlier ones."""
        with self._transaction() as db:
            _run_key(db, run)
            db.execute(_RAISE_EPOCH, (run,))
            epoch: int = db.execute(_EPOCH, (run,)).fetchone()[0]
        return epoch

    def append(
        self,
        run: str,
        epoch: int,
        events: Sequence[Event],
        row: RunRow,
        tasks: Sequence[TaskRow],
        at: float,
    ) -> int:
        """Make events and the rows they changed durable together; return the last event's number.

        Appending the same events again records them again: the epoch, not the content, tells writers apart.
        After a JournalError nothing of it is recorded, and the journal can be used as before.
        """
        with self._transaction() as db:
            key, last = _owned(db, run, epoch)
            base, _ = _range(key)
            db.execute(_SET_RUN, (encode_row(row), at, last + len(events), key))
            if events:
                db.execute(_ADD_EVENT, (base + last + 1, at, encode_events(events)))
            if tasks:
                db.executemany(_SET_TASK, self._keyed(db, base, row, tasks))
        return last + len(events)

    def remove_run(self, run: str, epoch: int) -> None:
        """Forget a run: its events, its rows, and its plan unless another run has the same.

        Raises LeaseLostError if `epoch` is not its present one, JournalError if there is no such run (any more).
        """
        with self._transaction() as db:
            key, _ = _owned(db, run, epoch)
            row = decode_run_row(db.execute(f"{_LISTING} WHERE key = ?", (key,)).fetchone()[0])
            db.execute(_DROP_EVENTS, _range(key))
            db.execute(_DROP_TASKS, _range(key))
            db.execute(_DROP_RUN, (key,))
            rest = (decode_run_row(body) for body, *_ in db.execute(_LISTING).fetchall())
            if all(other.plan_hash != row.plan_hash for other in rest):
                db.execute(_DROP_PLAN, (row.plan_hash,))

    def confirm_plan(self, plan_hash: str, at: float) -> None:
        """Remember that the user agreed to run this plan's commands. Repeating it changes nothing."""
        with self._transaction() as db:
            db.execute(_ADD_CONFIRMED, (plan_hash, at))

    def close(self) -> None:
        """Fold the log into the main file if nobody else is reading, and let go. Repeating it changes nothing."""
        self._db.close()

    def _ask(self, query: Callable[[sqlite3.Connection], T]) -> T:
        with explained(self._path):
            return query(self._db)

    def _keyed(
        self, db: sqlite3.Cursor, base: int, row: RunRow, tasks: Sequence[TaskRow]
    ) -> list[tuple[int, bytes]]:
        """Return each task's row with its key. A plan never changes, so its order is read once."""
        places = self._places.get(row.plan_hash)
        if places is None:
            names = (task.id for _, task in _plan(db, row).tasks())
            places = self._places[row.plan_hash] = {name: place for place, name in enumerate(names)}
        try:
            return [(base + places[task.id], encode_row(task)) for task in tasks]
        except KeyError as error:
            raise unplanned(row.run, error.args[0]) from error

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Cursor]:
        """Everything inside becomes durable together, or none of it."""
        with explained(self._path):
            self._require_same_file()
            cursor = self._db.cursor()
            cursor.execute("BEGIN IMMEDIATE")
            try:
                yield cursor
                cursor.execute("COMMIT")
            finally:
                if self._db.in_transaction:
                    cursor.execute("ROLLBACK")

    def _require_same_file(self) -> None:
        """Raise JournalError if the file was taken away: what is written to it then is lost, and must not be promised."""
        if self._path.exists() and os.path.samestat(self._file, self._path.stat()):
            return
        raise JournalError(f"{self._path} was deleted or replaced while it was in use", REBUILD)


def _refuse_stray_log(path: Path) -> None:
    """Raise JournalError if the log of a journal that is gone lies here: SQLite would play it into a new one."""
    if path.with_name(f"{path.name}-wal").exists():
        raise JournalError(f"the journal {path} is gone, only its log is left", REBUILD)


def _connect(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, isolation_level=None, timeout=_BUSY_S)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        sqlite_schema.migrate(db, path)
    except BaseException:
        db.close()
        raise
    return db


def _run_key(db: sqlite3.Connection | sqlite3.Cursor, run: str) -> int:
    found = db.execute(_RUN_KEY, (run,)).fetchone()
    if found is None:
        raise JournalError(f"there is no run {run}", "`holdfast list` shows the runs there are")
    key: int = found[0]
    return key


def _range(key: int) -> tuple[int, int]:
    """Return the keys between which a run's tasks and events are."""
    return key << sqlite_schema.KEY_BITS, ((key + 1) << sqlite_schema.KEY_BITS) - 1


def _unpacked(key: int, at: float, body: bytes, base: int) -> Iterator[Recorded]:
    """Yield the events of one append, numbered from `base`."""
    return (Recorded(number, at, event) for number, event in enumerate(decode_events(body), key - base))


def _owned(db: sqlite3.Cursor, run: str, epoch: int) -> tuple[int, int]:
    """Return the run's key and last event number, if `epoch` is its present one."""
    found: tuple[int, int] | None = db.execute(_OWNED, (run, epoch)).fetchone()
    if found is None:
        _run_key(db, run)
        raise LeaseLostError(
            f"another runner took over run {run}", "`holdfast status` shows how it goes on there"
        )
    return found


def _load(db: sqlite3.Connection, run: str) -> StoredRun:
    """Read run, plan and tasks as of one moment."""
    db.execute("BEGIN")
    try:
        key = _run_key(db, run)
        row_body, *rest = db.execute(f"{_LISTING} WHERE run = ?", (run,)).fetchone()
        row = decode_run_row(row_body)
        plan = _plan(db, row)
        with _collector_paused():
            tasks = [decode_task_row(body) for (body,) in db.execute(_TASKS, _range(key))]
        return StoredRun(plan, row, tasks, *rest)
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")


def _plan(db: sqlite3.Connection | sqlite3.Cursor, row: RunRow) -> Plan:
    found = db.execute(_PLAN, (row.plan_hash,)).fetchone()
    if found is None:
        raise JournalError(f"the plan of run {row.run} is missing from the journal", REBUILD)
    return decode_plan(found[0])


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
