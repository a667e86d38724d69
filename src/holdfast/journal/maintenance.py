"""The journal as a file: check it, copy it whole, keep a damaged one aside and put a new one in its place.

No byte of a journal is ever deleted here. Its content is in `sqlite.py`.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from itertools import count
from pathlib import Path

from holdfast.disk_sync import PRIVATE, make_folder, sync
from holdfast.errors import JournalError, JournalUnavailableError
from holdfast.journal.sqlite import SqliteJournal
from holdfast.journal.sqlite_errors import explained
from holdfast.journal.sqlite_read import beside, consistent_read
from holdfast.locks import folder_locked

_LOG, _LOG_INDEX = "-wal", "-shm"
_BESIDE = ("", _LOG, _LOG_INDEX)
_DRAFT = ".rebuilt"


def diagnose(path: Path) -> str:
    """Return what is wrong with the journal at `path`, as a sentence; empty if all of it can be read."""
    try:
        journal = SqliteJournal.open_read_only(path)
        with explained(path):
            said: str = consistent_read(path, lambda db: db.execute("PRAGMA quick_check(1)").fetchone()[0])
        if said != "ok":
            return f"journal {path}: {said}"
        for listing in journal.runs():
            journal.load(listing.row.run)
            for _ in journal.events(listing.row.run):
                continue
    except JournalError as error:
        return error.message
    return ""


def back_up(path: Path, target: Path) -> None:
    """Put a consistent copy of the journal at `target`, durable when this returns. A live writer may continue.

    The copy appears whole or not at all; it replaces an earlier one.
    """
    make_folder(target.parent, PRIVATE)
    draft = target.with_name(f"{target.name}.draft")
    with explained(path):
        draft.unlink(missing_ok=True)
        consistent_read(path, lambda db: _copy(db, draft))
        draft.replace(target)
        sync(target.parent)


def open_draft(path: Path) -> SqliteJournal:
    """Open an empty journal that will replace the one at `path`. A draft from an earlier try is dropped."""
    draft = _draft(path)
    for suffix in _BESIDE:
        beside(draft, suffix).unlink(missing_ok=True)
    return SqliteJournal.open(draft)


def put_in_place(path: Path) -> Path | None:
    """Make the closed draft the journal; return where the old file is kept now, if there was one.

    Safe to repeat after a crash: then there is no journal at `path`.
    """
    if os.path.lexists(beside(_draft(path), _LOG)):
        raise JournalUnavailableError(
            f"the new journal {_draft(path)} is still in use", "run the command again"
        )
    beside(_draft(path), _LOG_INDEX).unlink(missing_ok=True)  # SQLite says nothing if it could not
    # Who opens a journal meanwhile waits, and gets the new one.
    with folder_locked(path.parent):
        kept = _set_aside(path)
        _draft(path).rename(path)
        sync(path.parent)
    return kept


def _set_aside(path: Path) -> Path | None:
    """Move a journal and the files beside it to the first free name.

    The main file goes first: without its log it would look like an older state, but a log alone is refused.
    """
    present = [suffix for suffix in _BESIDE if os.path.lexists(beside(path, suffix))]
    if not present:
        return None
    kept = next(
        name
        for number in count(1)
        if not any(
            os.path.lexists(beside(name := path.with_name(f"{path.name}.damaged-{number}"), suffix))
            for suffix in _BESIDE
        )
    )
    for suffix in present:
        beside(path, suffix).rename(beside(kept, suffix))
    return kept


def _copy(db: sqlite3.Connection, draft: Path) -> None:
    with closing(sqlite3.connect(draft, isolation_level=None)) as copy:
        db.backup(copy)
    sync(draft)


def _draft(path: Path) -> Path:
    return path.with_name(path.name + _DRAFT)
