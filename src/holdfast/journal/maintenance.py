"""A journal as a whole: check it, copy it, keep a damaged one aside and put a new one in its place.

No record of a journal is ever deleted here. The files of the embedded one are in `sqlite_files.py`.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from holdfast.disk_sync import PRIVATE, make_folder, sync
from holdfast.errors import JournalError, StoreUnavailableError
from holdfast.journal import JournalLocation, implementation, open_reader
from holdfast.journal.protocol import Journal, JournalReader
from holdfast.journal.sqlite import SqliteJournal, SqliteReader
from holdfast.journal.sqlite_files import copy_file
from holdfast.journal.transfer import copy_run

_OWNER_ONLY = 0o600
_NAME_MAX = 64


def diagnose(where: JournalLocation) -> str:
    """Return what is wrong with a journal, as a sentence; empty if all of it can be read.

    Raises StoreUnavailableError if a server does not answer: nobody can tell then.
    """
    try:
        with closing(open_reader(where)) as journal:
            if damage := journal.damage():
                return f"{journal.name}: {damage}"
            for listing in journal.runs():
                if found := _contradiction(journal, listing.row.run):
                    return f"{journal.name}: {found}"
    except StoreUnavailableError:
        raise
    except JournalError as error:
        return error.message
    return ""


def _contradiction(journal: JournalReader, run: str) -> str:
    """Return how the events of a run contradict what is said about them; empty if they do not. A live writer may continue."""
    stored, last = journal.load(run), 0
    for recorded in journal.events(run):
        last = recorded.seq
    if last < stored.last_seq:
        return f"run {run} has {last} events of the {stored.last_seq} that it had"
    if last > stored.last_seq and journal.load(run).last_seq < last:
        return f"run {run} has events after number {stored.last_seq}, its last one"
    return ""


def open_draft(where: JournalLocation) -> Journal:
    """Open an empty journal that will replace the one there. A draft from an earlier try is dropped."""
    journal, address = implementation(where)
    draft: Journal = journal.open_draft(address)
    return draft


def put_in_place(where: JournalLocation) -> str | None:
    """Make the closed draft the journal; return where the old one is kept now, if there was one.

    Safe to repeat after a crash: then there is no journal, or no draft.
    """
    journal, address = implementation(where)
    kept: str | None = journal.put_in_place(address)
    return kept


def back_up(where: JournalLocation, target: Path) -> None:
    """Put a consistent copy of a journal into the file `target`, durable when this returns. A live writer may continue.

    The copy appears whole or not at all; it replaces an earlier one. Only its owner can read it: plans and outputs are in it.
    """
    # Imported here because only who copies a journal needs it.
    from tempfile import TemporaryDirectory

    make_folder(target.parent, PRIVATE)
    # A folder of its own: a file of any other name there may be the user's, or that of another backup at the same time.
    with TemporaryDirectory(prefix=f".{target.name[:_NAME_MAX]}.", dir=target.parent) as folder:
        draft = Path(folder, "draft.db")
        with closing(open_reader(where)) as source:
            if isinstance(source, SqliteReader):
                copy_file(source.path, draft)
            else:
                with closing(SqliteJournal.open(draft)) as copy:
                    for listing in source.runs():
                        copy_run(source, copy, listing.row.run)
        draft.chmod(_OWNER_ONLY)
        sync(draft)
        draft.replace(target)
    sync(target.parent)
