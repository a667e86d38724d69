"""Durable truth: append-only events, a projection beside them, and the lease that says who may write.

`open_journal` and `open_reader` are the only places that know which journals exist. To add one, write a
module with a class on top of `protocol.py`, with `open` and `open_read_only`, and add its rows to `JOURNALS`.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from holdfast.journal.address import JournalAddress
    from holdfast.journal.protocol import Journal, JournalReader

JOURNALS = {
    "sqlite": "holdfast.journal.sqlite:SqliteJournal",
    "memory": "holdfast.journal.memory:MemoryJournal",
    "redis": "holdfast.journal.redis:RedisJournal",
    "rediss": "holdfast.journal.redis:RedisJournal",
    "redis+unix": "holdfast.journal.redis:RedisJournal",
    "redis+sentinel": "holdfast.journal.redis:RedisJournal",
    "valkey": "holdfast.journal.redis:RedisJournal",
    "valkeys": "holdfast.journal.redis:RedisJournal",
    "postgresql": "holdfast.journal.postgres:PostgresJournal",
    "postgres": "holdfast.journal.postgres:PostgresJournal",
}
"""The scheme of a journal's address, and its class. A plain path is a SQLite file."""
SERVERS = tuple(scheme for scheme in JOURNALS if scheme not in ("sqlite", "memory"))
"""The schemes of journals that are in a server."""


JournalLocation: TypeAlias = "str | Path | JournalAddress"
"""A file, or a server with the id of a repository."""


def open_journal(where: JournalLocation) -> Journal:
    """Open a journal for writing; create or migrate it if needed. Raises JournalError if that fails."""
    journal, address = implementation(where)
    opened: Journal = journal.open(address)
    return opened


def open_reader(where: JournalLocation) -> JournalReader:
    """Open a journal read-only; this changes nothing. Raises JournalError if none can be read."""
    journal, address = implementation(where)
    opened: JournalReader = journal.open_read_only(address)
    return opened


def implementation(where: JournalLocation) -> tuple[Any, Any]:
    """Return the class of a journal, and what it is opened with: a file for an embedded one, else the address."""
    scheme, separator, rest = str(where).partition("://")
    if isinstance(where, Path) or not separator:
        scheme, rest = "sqlite", str(where)
    if scheme not in JOURNALS:
        from holdfast.errors import JournalError

        raise JournalError(f"there is no journal of kind {scheme}", f"known kinds: {', '.join(JOURNALS)}")
    module, name = JOURNALS[scheme].split(":")
    is_file = isinstance(where, str | Path)
    return getattr(import_module(module), name), rest if is_file else where
