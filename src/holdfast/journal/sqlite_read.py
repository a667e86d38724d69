"""Reads of a SQLite file that leave no trace.

No file is made or changed, and no writer waits. The files beside the journal tell three situations apart; each
works in a read-only folder and on a full disk. What an error means is in `sqlite_errors.py`: a shell that completes reads
names with this module, and must not wait for more to be loaded.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from holdfast.errors import JournalError
from holdfast.system_errors import doing

PRIMARY_CODE = 0xFF
"""The bits of an error code of SQLite that say its kind; the others say more about it."""
T = TypeVar("T")
_TRIES = 10
_PAUSE_S = 0.02
_LOG_HEADER_BYTES = 32
"""A log this short holds no change, and SQLite cannot read one whose writer was killed before its first change."""
_MEMORY = Path("/dev/shm")  # noqa: S108 - a private folder is made inside it


@dataclass(frozen=True, slots=True)
class _Files:
    """The files of a journal at one moment; if two are equal, the main file did not change in between."""

    main: tuple[int, int, int]
    pending: bool
    shared: bool

    @property
    def guarded(self) -> bool:
        """Whether SQLite's own locks keep the view consistent."""
        return self.pending and self.shared


def consistent_read(path: Path, query: Callable[[sqlite3.Connection], T]) -> T:
    """Run `query` on a consistent view of the journal and return its answer. Leaves everything as it was.

    A writer that comes or goes meanwhile changes which way is right, so an answer that might be torn is
    discarded and the query repeated. One that has just made its shared index and not filled it is given time to.
    """
    for number in range(_TRIES):
        files = _files(path)
        try:
            answer = _ask(path, files, query)
        except (sqlite3.Error, FileNotFoundError) as error:
            if _files(path) == files and (number == _TRIES - 1 or not _is_unfilled_index(error)):
                raise
            time.sleep(_PAUSE_S)
            continue
        if files.guarded or _files(path) == files:
            return answer
    raise JournalError(f"journal {path} keeps changing hands", "try again in a moment")


def _is_unfilled_index(error: Exception) -> bool:
    """Tell whether SQLite would have to fill the shared index, which whoever only looks may not."""
    return getattr(error, "sqlite_errorcode", 0) & PRIMARY_CODE == sqlite3.SQLITE_READONLY


def _files(path: Path) -> _Files:
    main = path.stat()
    try:
        pending = beside(path, "-wal").stat().st_size > _LOG_HEADER_BYTES
    except FileNotFoundError:
        pending = False
    return _Files((main.st_ino, main.st_size, main.st_mtime_ns), pending, beside(path, "-shm").exists())


def _ask(path: Path, files: _Files, query: Callable[[sqlite3.Connection], T]) -> T:
    """Choose how to open it. Without a log of pending changes the main file is complete and does not change.

    With one, its shared index is read but never written: SQLite takes part in a live writer's locking through
    it, and indexes the log privately when the writer is dead. Without an index there is no writer either, and
    SQLite would have to make one: it gets a copy in memory to do so. (Only there may we open the file ourselves:
    closing a descriptor of it would drop the locks of a writer in this very process.)
    """
    if not files.pending:
        return _query(f"{path.as_uri()}?mode=ro&immutable=1", query)
    if files.shared:
        return _query(f"{path.as_uri()}?mode=ro&readonly_shm=1", query)
    return _query_copy(path, query)


def _query_copy(path: Path, query: Callable[[sqlite3.Connection], T]) -> T:
    try:
        return _query_copy_in(str(_MEMORY), path, query)
    except OSError:  # there is no such folder, or it is full
        return _query_copy_in(None, path, query)


def _query_copy_in(place: str | None, path: Path, query: Callable[[sqlite3.Connection], T]) -> T:
    # Imported here because this case is rare and the module slow to load, which every command would pay for.
    import tempfile

    with tempfile.TemporaryDirectory(dir=place) as folder:
        copy = Path(folder, path.name)
        with doing("copy it to look at it", copy):
            copy.write_bytes(path.read_bytes())
            beside(copy, "-wal").write_bytes(beside(path, "-wal").read_bytes())
        return _query(copy.as_uri(), query)


def _query(uri: str, query: Callable[[sqlite3.Connection], T]) -> T:
    with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as db:
        return query(db)


def beside(path: Path, suffix: str) -> Path:
    """Return a file that SQLite keeps beside a journal, such as its log."""
    return path.with_name(path.name + suffix)
