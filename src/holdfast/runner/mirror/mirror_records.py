"""Writes the records of a run into a server, for a system that keeps its state there. They are never read back as truth.

Each carries the mark of the run, so that a run writes over no one else's, and finds its own again. No password is written down.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager

from holdfast.errors import HoldfastError
from holdfast.formats.exported_run import NativeRecord
from holdfast.formats.model import format_of
from holdfast.formats.registry import System
from holdfast.journal.address import JournalAddress, password_of, with_password
from holdfast.journal.records_server import RecordsServer, RecordWrite, holds_records, place_of
from holdfast.repo.repository import Repository
from holdfast.runner.mirror.renderer import RunRenderer
from holdfast.runner.store_choice import RECORDS_PASSWORD_VARIABLE, chosen_store


def is_server(place: str) -> bool:
    """Tell whether the place of a mirror is a server, not a folder."""
    return "://" in place


def place_of_store(repo: Repository) -> str:
    """Return the server of the repository's store, if it is one that can hold records; else an empty string."""
    store = chosen_store(repo.state_dir, repo.id)
    return place_of(store.url) if isinstance(store, JournalAddress) and holds_records(store.url) else ""


def require_keepable(url: str) -> str:
    """Return the place that a user named for a mirror. Raises HoldfastError if it cannot be written down."""
    if password_of(url):
        raise HoldfastError(
            "a password in the address of a mirror is lost: Holdfast writes none down",
            f"give it in {RECORDS_PASSWORD_VARIABLE} to this command and to each runner of the run",
        )
    return place_of(url)


def open_server(url: str) -> RecordsServer:
    """Return the server at an address. A password that is not in it may be in the environment."""
    password = os.environ.get(RECORDS_PASSWORD_VARIABLE, "")
    return RecordsServer(with_password(url, password) if password and not password_of(url) else url)


@contextmanager
def _server_at(repo: Repository, place: str) -> Iterator[RecordsServer]:
    """Open the server at a place that was written down. That of the store has the store's password."""
    store = chosen_store(repo.state_dir, repo.id)
    if isinstance(store, JournalAddress) and place_of(store.url) == place:
        place = store.url
    with closing(open_server(place)) as server:
        yield server


def mark_of_run(repo: Repository, run: str) -> str:
    """Return the mark of a run in its records. Runs of different repositories may have the same id."""
    return f"{repo.id()}/{run}"


def records_owner(repo: Repository, runs: Iterable[str], system: System, document: bytes) -> str:
    """Return the run that writes the records of which a document was made, or an empty string."""
    server = format_of(system).server
    mark = server.owner(document) if server is not None else ""
    return next((run for run in runs if mark and mark_of_run(repo, run) == mark), "")


def check_records(renderer: RunRenderer, system: System, place: str) -> None:
    """Raise HoldfastError if the records of a run cannot be kept there. Writes nothing."""
    owner = mark_of_run(renderer.repo, renderer.run)
    records = renderer.native_records(system, owner, live=False)
    with _server_at(renderer.repo, place) as server:
        server.check(list(map(_write, records)), owner)


def put_records(renderer: RunRenderer, system: System, place: str, *, live: bool) -> list[str]:
    """Write the records of a run as it is now, and return their keys. Raises HoldfastError if that fails."""
    owner = mark_of_run(renderer.repo, renderer.run)
    records = renderer.native_records(system, owner, live=live)
    with _server_at(renderer.repo, place) as server:
        server.put(list(map(_write, records)), owner)
    return [record.key for record in records if not record.gone]


def _write(record: NativeRecord) -> RecordWrite:
    how = "gone" if record.gone else "continued" if record.continued else "new"
    return RecordWrite(record.key, how, record.content)
