"""What a failure below the journal means to a person, and the way out of it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from holdfast.errors import JournalError

REBUILD = "the file is kept as it is; `holdfast rebuild` restores the state from git"

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
    sqlite3.SQLITE_CANTOPEN: ("it cannot be opened", "check the permissions of the file and its folder"),
}
_PRIMARY_CODE = 0xFF
_UNKNOWN = ("SQLite refused it", "`holdfast doctor` looks into it")


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn what the system, SQLite or the codecs raise about the journal at `path` into a JournalError with a hint."""
    try:
        yield
    except FileNotFoundError as error:
        raise JournalError(f"there is no journal at {path}", "`holdfast run` starts the first run") from error
    except OSError as error:
        raise JournalError(
            f"journal {path}: {error.strerror}", "check the disk and its permissions"
        ) from error
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE
        meaning, hint = _MEANINGS.get(code, _UNKNOWN)
        raise JournalError(f"journal {path}: {meaning} ({error})", hint) from error
    except msgspec.DecodeError as error:
        raise JournalError(
            f"journal {path}: it holds a record that cannot be read ({error})", REBUILD
        ) from error
