"""The files of the embedded journal: a draft that takes its place, a damaged one that is kept aside, a copy.

No byte of a journal is ever deleted here, except of a draft. The content is in `sqlite.py`.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from itertools import count
from pathlib import Path

from holdfast.disk_sync import sync
from holdfast.errors import JournalUnavailableError
from holdfast.journal.sqlite_errors import explained
from holdfast.journal.sqlite_read import beside, consistent_read
from holdfast.locks import folder_locked

_LOG, _LOG_INDEX = "-wal", "-shm"
_BESIDE = ("", _LOG, _LOG_INDEX)
_DRAFT = ".rebuilt"


def draft_of(path: Path) -> Path:
    """Return where the draft of a journal is, which will replace it."""
    return path.with_name(path.name + _DRAFT)


def remove_files(path: Path) -> None:
    """Remove a draft and the files beside it. Idempotent."""
    for suffix in _BESIDE:
        beside(path, suffix).unlink(missing_ok=True)


def put_draft_in_place(path: Path) -> Path | None:
    """Make the closed draft the journal; return where the old file is kept now, if there was one.

    Safe to repeat after a crash: then there is no journal at `path`.
    """
    draft = draft_of(path)
    if os.path.lexists(beside(draft, _LOG)):
        raise JournalUnavailableError(f"the new journal {draft} is still in use", "run the command again")
    beside(draft, _LOG_INDEX).unlink(missing_ok=True)  # SQLite says nothing if it could not
    # Who opens a journal meanwhile waits, and gets the new one.
    with folder_locked(path.parent):
        kept = _set_aside(path)
        draft.rename(path)
        sync(path.parent)
    return kept


def copy_file(path: Path, target: Path) -> None:
    """Copy a journal as of one moment into a file that does not exist yet."""
    with explained(path):
        consistent_read(path, lambda db: _copy(db, target))


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


def _copy(db: sqlite3.Connection, target: Path) -> None:
    with closing(sqlite3.connect(target, isolation_level=None)) as copy:
        db.backup(copy)
