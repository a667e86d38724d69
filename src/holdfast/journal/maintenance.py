"""A journal as a whole: check it, copy it, keep a damaged one aside and put a new one in its place.

No record of a journal is ever deleted here. The files of the embedded one are in `sqlite_files.py`.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from holdfast.disk_sync import PRIVATE, make_folder, sync
from holdfast.errors import JournalError, StoreUnavailableError
from holdfast.journal import JournalLocation, implementation, open_reader
from holdfast.journal.protocol import Journal
from holdfast.journal.sqlite import SqliteJournal, SqliteReader
from holdfast.journal.sqlite_files import copy_file, remove_files
from holdfast.journal.transfer import copy_run


def diagnose(where: JournalLocation) -> str:
    """Return what is wrong with a journal, as a sentence; empty if all of it can be read.

    Raises StoreUnavailableError if a server does not answer: nobody can tell then.
    """
    try:
        with closing(open_reader(where)) as journal:
            if damage := journal.damage():
                return f"{journal.name}: {damage}"
            for listing in journal.runs():
                journal.load(listing.row.run)
                for _ in journal.events(listing.row.run):
                    continue
    except StoreUnavailableError:
        raise
    except JournalError as error:
        return error.message
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

    The copy appears whole or not at all; it replaces an earlier one.
    """
    make_folder(target.parent, PRIVATE)
    draft = target.with_name(f"{target.name}.draft")
    remove_files(draft)
    with closing(open_reader(where)) as source:
        if isinstance(source, SqliteReader):
            copy_file(source.path, draft)
        else:
            with closing(SqliteJournal.open(draft)) as copy:
                for listing in source.runs():
                    copy_run(source, copy, listing.row.run)
    sync(draft)
    draft.replace(target)
    sync(target.parent)
