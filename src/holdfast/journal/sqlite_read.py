"""Reads of a SQLite file that leave no trace, and what its errors mean to a person.

No file is made or changed, and no writer waits. The files beside the journal tell three situations apart; each
works in a read-only folder and on a full disk.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from holdfast.errors import JournalError, JournalUnavailableError
from holdfast.journal.filesystem_checks import refusal
from holdfast.journal.protocol import REBUILD, unreadable
from holdfast.system_errors import doing, kind_at, machine_error

_MOVE = "keep the repository on an ordinary disk (ext4, xfs, btrfs)"
_MEANINGS = {
    sqlite3.SQLITE_FULL: (
        "the disk is full",
        "free some space, then `holdfast resume`; nothing recorded is lost",
    ),
    sqlite3.SQLITE_IOERR: ("the disk reported an error", "check the disk, then `holdfast resume`"),
    sqlite3.SQLITE_NOTADB: ("it is not a Holdfast journal", REBUILD),
    sqlite3.SQLITE_CORRUPT: ("it is damaged", REBUILD),
    sqlite3.SQLITE_BUSY: (
        "another process keeps it locked",
        "look for a stopped `holdfast` process and end it",
    ),
    sqlite3.SQLITE_READONLY: ("it cannot be written", "check the permissions of the file and its folder"),
    sqlite3.SQLITE_CANTOPEN: (
        "it cannot be opened",
        "check the permissions of the file and its folder, and how many files may be open (`ulimit -n`)",
    ),
    sqlite3.SQLITE_IOERR_SHMMAP: ("its file system ({kind}) cannot share memory between processes", _MOVE),
}
_UNKNOWN = ("SQLite refused it", "`holdfast doctor` looks into it")
_BROKEN_FILE = (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)
_VAGUE = (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_BUSY)
_EXACT = (sqlite3.SQLITE_IOERR_SHMMAP,)
_PRIMARY_CODE = 0xFF


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn an error of the system or SQLite about the journal at `path` into a JournalError with a hint."""
    try:
        yield
    except msgspec.DecodeError as error:
        raise unreadable(f"journal {path}", error) from error
    except FileNotFoundError as error:
        raise JournalError(f"there is no journal at {path}", "`holdfast run` starts the first run") from error
    except OSError as error:
        refused = machine_error(error, "run the command again", "use the journal", path)
        raise JournalUnavailableError(refused.message, refused.hint) from error
    except sqlite3.Error as error:
        raise _explanation(path, error) from error


def _explanation(path: Path, error: sqlite3.Error) -> JournalError:
    code = getattr(error, "sqlite_errorcode", 0)
    meaning, hint = _MEANINGS.get(code) or _MEANINGS.get(code & _PRIMARY_CODE, _UNKNOWN)
    said = f"could not use the journal {path}: {meaning.format(kind=kind_at(path))} ({error})"
    if code & _PRIMARY_CODE in _BROKEN_FILE:
        return JournalError(said, hint)
    # SQLite has few words for many causes. The system tells what it has against any file in that folder.
    if code & _PRIMARY_CODE in _VAGUE and code not in _EXACT and (cause := refusal(path.parent)) is not None:
        cause.filename = str(path)
        found = machine_error(cause, "run the command again", "use the journal")
        said, hint = found.message, found.hint
    return JournalUnavailableError(said, hint)


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
    return getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE == sqlite3.SQLITE_READONLY


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
