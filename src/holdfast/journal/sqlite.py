"""The embedded journal: one SQLite file per repository, many readers, one writer per run.

Every append is one transaction and one sync. Views use `SqliteReader`, which can only read.
`sqlite_schema.py` explains the tables and the keys.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self, TypeVar

from holdfast.disk_sync import PRIVATE, make_folder
from holdfast.errors import JournalError
from holdfast.journal import sqlite_schema
from holdfast.journal.filesystem_checks import refuse_network_filesystem
from holdfast.journal.journal_errors import REBUILD, lease_lost, no_plan, no_such_run, run_exists
from holdfast.journal.lease import Holder
from holdfast.journal.protocol import (
    Journal,
    JournalReader,
    StoredBytes,
    StoredEvents,
    StoredListing,
    StoredOverview,
    Watch,
    first_plan_of,
    plan_hash_of,
    plan_hashes_of,
)
from holdfast.journal.sqlite_errors import explained
from holdfast.journal.sqlite_files import draft_of, put_draft_in_place, remove_files
from holdfast.journal.sqlite_read import consistent_read
from holdfast.locks import folder_locked

T = TypeVar("T")
_BUSY_S = 30.0
_PAGE = 200

_LISTING = "SELECT row, started_at, updated_at, last_seq, run FROM runs"
_PLAN = "SELECT body FROM plans WHERE hash = ?"
_TASKS = "SELECT row FROM tasks WHERE key BETWEEN ? AND ? ORDER BY key"
_ALL_TASKS = f"SELECT run, tasks.row FROM tasks JOIN runs ON runs.key = tasks.key >> {sqlite_schema.KEY_BITS}"
_RUN_KEY = "SELECT key FROM runs WHERE run = ?"
_EVENTS = """SELECT key, at, body FROM events
  WHERE key BETWEEN (SELECT max(key) FROM events WHERE key <= ?) AND ? ORDER BY key LIMIT ?"""
_MORE_EVENTS = "SELECT key, at, body FROM events WHERE key > ? AND key <= ? ORDER BY key LIMIT ?"
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


class SqliteReader(JournalReader):
    """The reading half. It holds nothing open between two queries, so it never blocks a writer."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.name = f"journal {path}"

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    def damage(self) -> str:
        """Return what SQLite finds wrong with the file; empty if nothing is."""
        with explained(self._path):
            said: str = consistent_read(
                self._path, lambda db: db.execute("PRAGMA quick_check(1)").fetchone()[0]
            )
        return "" if said == "ok" else said

    def is_confirmed(self, plan_hash: str) -> bool:
        """Tell whether the user agreed to this plan before."""
        return self._ask(lambda db: db.execute(_CONFIRMED, (plan_hash,)).fetchone()) is not None

    def close(self) -> None:
        """Release files and locks. Idempotent."""

    def _watch(self) -> Watch:
        # Imported here because only who follows a run needs it.
        from holdfast.journal.file_watch import FileWatch

        return FileWatch(self._path)

    def _run_ids(self) -> Iterable[str]:
        return [run for (run,) in self._ask(lambda db: db.execute("SELECT run FROM runs").fetchall())]

    def _listings(self) -> list[StoredListing]:
        return [
            StoredListing(*found)
            for found in self._ask(lambda db: db.execute(f"{_LISTING} ORDER BY key").fetchall())
        ]

    def _overview(self) -> StoredOverview:
        return self._ask(_read_overview)

    def _stored(self, run: str) -> StoredBytes:
        return self._ask(lambda db: _stored_run(db, run))

    def _stored_events(self, run: str, after: int, upto: int | None) -> Iterator[StoredEvents]:
        """Yield a page at a time, so that a slow reader holds back no writer."""
        base, end = sqlite_schema.key_range(self._ask(lambda db: _run_key(db, run)))
        last = end if upto is None else base + upto
        page = self._page(_EVENTS, base + after + 1, last)
        while page:
            yield from (StoredEvents(key - base, at, body) for key, at, body in page)
            page = self._page(_MORE_EVENTS, page[-1][0], last) if len(page) == _PAGE else []

    def _page(self, query: str, position: int, last: int) -> list[tuple[int, float, bytes]]:
        return self._ask(lambda db: db.execute(query, (position, last, _PAGE)).fetchall())

    def _ask(self, query: Callable[[sqlite3.Connection], T]) -> T:
        with explained(self._path):
            return consistent_read(self._path, query)


class SqliteJournal(SqliteReader, Journal):
    """The journal opened for writing. One connection; each process that writes has its own."""

    def __init__(self, path: Path, db: sqlite3.Connection) -> None:
        Journal.__init__(self)
        SqliteReader.__init__(self, path)
        self._db = db
        self._file = path.stat()
        self._is_migrated = False

    @classmethod
    def open(cls, where: str | Path) -> Self:
        """Open the journal for writing; create it if there is none. The first write brings an older one up to date.

        Raises JournalError, and leaves the bytes as they are, if the file is not a journal this program knows,
        or would be on a network file system.
        """
        path = Path(where).resolve()
        refuse_network_filesystem(path)
        with explained(path):
            make_folder(path.parent, PRIVATE)
            # Nobody puts another file there meanwhile: we would write to one that nobody reads any more.
            with folder_locked(path.parent):
                if not path.exists():
                    _refuse_stray_log(path)
                    sqlite_schema.create(path)
                sqlite_schema.remove_drafts(path)
                sqlite_schema.check_identity(path)
                return cls(path, _connect(path))

    @staticmethod
    def open_read_only(where: str | Path) -> SqliteReader:
        """Open it read-only: beside a live writer, after a crash, in a read-only folder, on a full disk."""
        path = Path(where).resolve()
        with explained(path):
            sqlite_schema.check_identity(path)
        return SqliteReader(path)

    @classmethod
    def open_draft(cls, where: str | Path) -> Self:
        """Open an empty journal that will replace the one there. A draft from an earlier try is dropped."""
        draft = draft_of(Path(where).resolve())
        remove_files(draft)
        return cls.open(draft)

    @staticmethod
    def put_in_place(where: str | Path) -> str | None:
        """Make the closed draft the journal; return where the old file is kept now, if there was one."""
        kept = put_draft_in_place(Path(where).resolve())
        return None if kept is None else str(kept)

    def reader(self) -> SqliteReader:
        """Return a reader of this journal for another thread."""
        return SqliteReader(self._path)

    def take_epoch(self, run: str, by: Holder | None = None, *, hold: bool = False) -> int:  # noqa: ARG002 - the lock is the lease
        """Raise the run's epoch and return it. Each call fences off all earlier ones."""
        with self._transaction() as db:
            _run_key(db, run)
            db.execute(_RAISE_EPOCH, (run,))
            epoch: int = db.execute(_EPOCH, (run,)).fetchone()[0]
        return epoch

    def remove_run(self, run: str, epoch: int) -> None:
        """Forget a run: its events, its rows, and its plan unless another run has the same.

        Raises LeaseLostError if `epoch` is not its present one, JournalError if there is no such run (any more).
        """
        with self._transaction() as db:
            key, _ = _owned(db, run, epoch)
            plans = plan_hashes_of(db.execute(f"{_LISTING} WHERE key = ?", (key,)).fetchone()[0])
            db.execute(_DROP_EVENTS, sqlite_schema.key_range(key))
            db.execute(_DROP_TASKS, sqlite_schema.key_range(key))
            db.execute(_DROP_RUN, (key,))
            _drop_unused(db, plans)

    def confirm_plan(self, plan_hash: str, at: float) -> None:
        """Remember that the user agreed to run this plan's commands. Idempotent."""
        with self._transaction() as db:
            db.execute(_ADD_CONFIRMED, (plan_hash, at))

    def close(self) -> None:
        """Fold the log into the main file if nobody else is reading, and close it. Idempotent."""
        self._db.close()

    def _ask(self, query: Callable[[sqlite3.Connection], T]) -> T:
        with explained(self._path):
            return query(self._db)

    def _plan(self, plan_hash: str) -> bytes:
        return self._ask(lambda db: _plan_body(db, plan_hash))

    def _add_run(
        self, run: str, epoch: int, plan: tuple[str, bytes], row: bytes, events: bytes, at: float
    ) -> None:
        with self._transaction() as db:
            if db.execute(_RUN_KEY, (run,)).fetchone():
                raise run_exists(run)
            db.execute(_ADD_PLAN, plan)
            db.execute(_ADD_RUN, (run, epoch, at, at, row))
            base, _ = sqlite_schema.key_range(_run_key(db, run))
            db.execute(_ADD_EVENT, (base + 1, at, events))

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
        with self._transaction() as db:
            key, last = _owned(db, run, epoch)
            base, _ = sqlite_schema.key_range(key)
            before = _take_plan(db, key, plan) if plan is not None else set()
            db.execute(_SET_RUN, (row, at, last + count, key))
            if count:
                db.execute(_ADD_EVENT, (base + last + 1, at, events))
            if tasks:
                db.executemany(_SET_TASK, [(base + place, body) for place, body in tasks])
            _drop_unused(db, before)
        return last + count

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Cursor]:
        """Everything inside becomes durable together, or none of it."""
        with explained(self._path):
            self._require_same_file()
            if not self._is_migrated:
                sqlite_schema.migrate(self._db, self._path)
                self._is_migrated = True
            cursor = self._db.cursor()
            cursor.execute("BEGIN IMMEDIATE")
            try:
                yield cursor
                cursor.execute("COMMIT")
            finally:
                if self._db.in_transaction:
                    cursor.execute("ROLLBACK")

    def _require_same_file(self) -> None:
        """Raise JournalError if the file was removed: we must not promise writes that would be lost."""
        if self._path.exists() and os.path.samestat(self._file, self._path.stat()):
            return
        raise JournalError(
            f"{self._path} was deleted or replaced while it was in use",
            f"run the command again; if there is none any more, {REBUILD}",
        )


def _refuse_stray_log(path: Path) -> None:
    """Raise JournalError if a removed journal left its log: SQLite would apply it to a new one."""
    if path.with_name(f"{path.name}-wal").exists():
        raise JournalError(f"the journal {path} is gone, only its log is left", REBUILD)


def _connect(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, isolation_level=None, timeout=_BUSY_S)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
    except BaseException:
        db.close()
        raise
    return db


def _take_plan(db: sqlite3.Cursor, key: int, plan: tuple[str, bytes]) -> set[str]:
    """Store an amended plan and make room for the rows of all its tasks; return the plans that the run needed before."""
    before = plan_hashes_of(db.execute(f"{_LISTING} WHERE key = ?", (key,)).fetchone()[0])
    db.execute(_ADD_PLAN, plan)
    db.execute(_DROP_TASKS, sqlite_schema.key_range(key))
    return before


def _drop_unused(db: sqlite3.Cursor, plans: set[str]) -> None:
    """Forget those plans that no run needs any more."""
    if not plans:
        return
    needed = {plan for row, *_ in db.execute(_LISTING).fetchall() for plan in plan_hashes_of(row)}
    db.executemany(_DROP_PLAN, [(plan,) for plan in plans - needed])


def _run_key(db: sqlite3.Connection | sqlite3.Cursor, run: str) -> int:
    found = db.execute(_RUN_KEY, (run,)).fetchone()
    if found is None:
        raise no_such_run(run)
    key: int = found[0]
    return key


def _owned(db: sqlite3.Cursor, run: str, epoch: int) -> tuple[int, int]:
    """Return the run's key and last event number, if `epoch` is its present one."""
    found: tuple[int, int] | None = db.execute(_OWNED, (run, epoch)).fetchone()
    if found is None:
        _run_key(db, run)
        raise lease_lost(run)
    return found


def _stored_run(db: sqlite3.Connection, run: str) -> StoredBytes:
    """Read run, plan and tasks as of one moment."""
    db.execute("BEGIN")
    try:
        key = _run_key(db, run)
        listing = StoredListing(*db.execute(f"{_LISTING} WHERE key = ?", (key,)).fetchone())
        plan = _plan_body(db, plan_hash_of(listing.row))
        tasks = [body for (body,) in db.execute(_TASKS, sqlite_schema.key_range(key))]
        if sqlite_schema.has_old_tasks(db, tasks):
            tasks = [body for _, body in sqlite_schema.folded_tasks(db, key, plan)]
        began_with = first_plan_of(listing.row)
        return StoredBytes(listing, plan, tasks, _plan_body(db, began_with) if began_with else b"")
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")


def _read_overview(db: sqlite3.Connection) -> StoredOverview:
    db.execute("BEGIN")
    try:
        plans = dict(db.execute("SELECT hash, body FROM plans").fetchall())
        return StoredOverview(plans, db.execute(_ALL_TASKS).fetchall())
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")


def _plan_body(db: sqlite3.Connection, plan_hash: str) -> bytes:
    found = db.execute(_PLAN, (plan_hash,)).fetchone()
    if found is None:
        raise no_plan(plan_hash)
    body: bytes = found[0]
    return body
