"""The tables of the SQLite journal, how a file is created, and how an older one is migrated.

A file is ours if its application id says so; its version is the number of migrations it has seen. Tables are
spelled here and in the queries of `sqlite.py`.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path

from holdfast.boot import is_alive, own_process
from holdfast.errors import JournalError
from holdfast.journal.journal_errors import REBUILD
from holdfast.journal.protocol import plan_hash_of
from holdfast.journal.sqlite_read import consistent_read

APPLICATION_ID = 0x486C6466
"""`Hldf`, at byte 68 of every journal."""

KEY_BITS = 32
"""Keys of tasks and events are `run key << KEY_BITS | number`: a run is a range, and neighbours share a page.

A task's number is its place in the plan. Events of one append are one row, under the number of the first of them.
"""


def key_range(key: int) -> tuple[int, int]:
    """Return the keys between which a run's tasks and events are."""
    return key << KEY_BITS, ((key + 1) << KEY_BITS) - 1


def has_old_tasks(db: sqlite3.Connection, tasks: Iterable[bytes]) -> bool:
    """Tell whether rows of tasks have the shape of version 1, in which attempts had no record of their own.

    A runner of that version that is still alive keeps writing such rows into a file that was migrated meanwhile.
    """
    return _pragma(db, "user_version") < _NESTED_ATTEMPTS or any(b'"latest":{' not in row for row in tasks)


def folded_tasks(db: sqlite3.Connection, key: int, plan: bytes) -> list[tuple[int, bytes]]:
    """Return the rows of a run's tasks with their places in the plan, folded from its events."""
    # Imported here because only a journal of an older version needs it.
    from holdfast.core.event_codec import decode_events
    from holdfast.core.plan import decode_plan
    from holdfast.core.projection import TaskRow, encode_row
    from holdfast.core.state import replay
    from holdfast.core.task_transitions import IllegalEventError

    stored = db.execute("SELECT body FROM events WHERE key BETWEEN ? AND ? ORDER BY key", key_range(key))
    events = (event for (body,) in stored for event in decode_events(body))
    try:
        tasks = enumerate(replay(decode_plan(plan), events).tasks.values())
    except IllegalEventError as error:
        raise JournalError(f"the journal's events contradict each other: {error}", REBUILD) from error
    return [(place, encode_row(task)) for place, task in tasks if task != TaskRow(id=task.id)]


def _fold_tasks_anew(db: sqlite3.Connection) -> None:
    """Replace the rows of all tasks by the fold of their events."""
    plans = dict(db.execute("SELECT hash, body FROM plans").fetchall())
    for key, row in db.execute("SELECT key, row FROM runs").fetchall():
        db.execute("DELETE FROM tasks WHERE key BETWEEN ? AND ?", key_range(key))
        base, _ = key_range(key)
        folded = folded_tasks(db, key, plans[plan_hash_of(row)])
        db.executemany("INSERT INTO tasks VALUES (?, ?)", [(base + place, body) for place, body in folded])


Migration = tuple[str | Callable[[sqlite3.Connection], None], ...]
_NESTED_ATTEMPTS = 2
"""The version in which rows of tasks got a record of the latest attempt."""

MIGRATIONS: tuple[Migration, ...] = (
    (
        "CREATE TABLE plans (hash TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID",
        "CREATE TABLE confirmed_plans (hash TEXT PRIMARY KEY, at REAL NOT NULL) WITHOUT ROWID",
        """CREATE TABLE runs (key INTEGER PRIMARY KEY, run TEXT NOT NULL UNIQUE, epoch INTEGER NOT NULL,
             started_at REAL NOT NULL, updated_at REAL NOT NULL, last_seq INTEGER NOT NULL, row BLOB NOT NULL)""",
        "CREATE TABLE tasks (key INTEGER PRIMARY KEY, row BLOB NOT NULL)",
        "CREATE TABLE events (key INTEGER PRIMARY KEY, at REAL NOT NULL, body BLOB NOT NULL)",
    ),
    (_fold_tasks_anew,),
)
"""Applied in order, never edited: a change is a new entry."""

_SMALLEST_DATABASE = 512
_FORMAT_BYTES = slice(18, 20)
_WAL_FORMAT = b"\x02\x02"


def check_identity(path: Path) -> None:
    """Raise JournalError unless the file is a journal this program understands. Changes nothing on disk.

    SQLite takes a file of a few bytes for an empty database and would write into it, hence the size check.
    """
    if path.is_dir():
        raise JournalError(f"{path} is a folder, not a journal", "move it away, then run the command again")
    if (size := path.stat().st_size) < _SMALLEST_DATABASE:
        raise JournalError(f"{path} is not a Holdfast journal: it is only {size} bytes long", REBUILD)
    consistent_read(path, lambda db: _check_program(db, path))


def _check_program(db: sqlite3.Connection, path: Path) -> None:
    if _pragma(db, "application_id") != APPLICATION_ID:
        raise JournalError(f"{path} is a database of another program", REBUILD)
    check_version(db, path)


def check_version(db: sqlite3.Connection, path: Path, migrations: Sequence[Migration] = MIGRATIONS) -> int:
    """Return the journal's version. Raises JournalError if a newer Holdfast wrote it."""
    version = _pragma(db, "user_version")
    if version > len(migrations):
        raise JournalError(
            f"{path} was written by a newer Holdfast (version {version}; this one knows {len(migrations)})",
            "upgrade Holdfast; or `holdfast rebuild` makes a journal of this version from git and keeps that file",
        )
    return version


def remove_drafts(path: Path) -> None:
    """Remove what a killed `create` left beside `path`. Drafts of a live process are left alone."""
    for draft in path.parent.glob(f"{path.name}.*.new"):
        if not is_alive(draft.name.split(".")[-2]):
            draft.unlink(missing_ok=True)


def create(path: Path) -> None:
    """Put an empty journal at `path`, whole from its first instant. The caller holds the lock of the folder.

    The lock, not a hard link, keeps two processes from replacing each other's: some file systems have no hard links.
    SQLite syncs the folder with the first write.
    """
    fresh = path.with_name(f"{path.name}.{own_process()}.new")
    try:
        with os.fdopen(
            os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb"
        ) as file:
            file.write(_empty_journal())
            file.flush()
            os.fsync(file.fileno())
        fresh.rename(path)
    finally:
        fresh.unlink(missing_ok=True)


def migrate(db: sqlite3.Connection, path: Path, migrations: Sequence[Migration] = MIGRATIONS) -> None:
    """Apply the migrations the journal has not seen, all or none. An up-to-date journal is not written to."""
    if check_version(db, path, migrations) == len(migrations):
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        for step in migrations[check_version(db, path, migrations) :]:
            for part in step:
                if isinstance(part, str):
                    db.execute(part)
                else:
                    part(db)
        db.execute(f"PRAGMA user_version = {len(migrations)}")
        db.execute("COMMIT")
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")


def _empty_journal() -> bytes:
    """Return the bytes of a journal without runs, already in WAL format so that it never needs a rollback file."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        migrate(db, Path(":memory:"))
        image = bytearray(db.serialize())
    image[_FORMAT_BYTES] = _WAL_FORMAT
    return bytes(image)


def _pragma(db: sqlite3.Connection, name: str) -> int:
    value: int = db.execute(f"PRAGMA {name}").fetchone()[0]
    return value
