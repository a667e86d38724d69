"""What SQLite's errors about a journal mean to a person, and what to do about each."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from holdfast.errors import JournalError, JournalUnavailableError
from holdfast.journal.filesystem_checks import refusal
from holdfast.journal.journal_errors import REBUILD, unreadable
from holdfast.journal.sqlite_read import PRIMARY_CODE
from holdfast.system_errors import kind_at, machine_error

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


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn an error of the system or SQLite about the journal at `path` into a JournalError with a hint."""
    try:
        yield
    except msgspec.DecodeError as error:
        raise unreadable(f"journal {path}", error) from error
    except FileNotFoundError as error:
        checkout = path.parent.parent
        if not checkout.exists():
            gone = f"{checkout} was moved or deleted"
            raise JournalError(gone, "its runs are where it is now: give the command there") from error
        raise JournalError(f"there is no journal at {path}", "`holdfast run` starts the first run") from error
    except OSError as error:
        refused = machine_error(error, "run the command again", "use the journal", path)
        raise JournalUnavailableError(refused.message, refused.hint) from error
    except sqlite3.Error as error:
        raise _explanation(path, error) from error


def _explanation(path: Path, error: sqlite3.Error) -> JournalError:
    code = getattr(error, "sqlite_errorcode", 0)
    meaning, hint = _MEANINGS.get(code) or _MEANINGS.get(code & PRIMARY_CODE, _UNKNOWN)
    said = f"could not use the journal {path}: {meaning.format(kind=kind_at(path))} ({error})"
    if code & PRIMARY_CODE in _BROKEN_FILE:
        return JournalError(said, hint)
    # SQLite has few words for many causes. The system tells what it has against any file in that folder.
    if code & PRIMARY_CODE in _VAGUE and code not in _EXACT and (cause := refusal(path.parent)) is not None:
        cause.filename = str(path)
        found = machine_error(cause, "run the command again", "use the journal")
        said, hint = found.message, found.hint
    return JournalUnavailableError(said, hint)
