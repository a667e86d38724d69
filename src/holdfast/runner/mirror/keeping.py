"""Keeping native files up to date beside a run. It never holds the run up nor fails it: trouble is one event."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from holdfast.core import events as ev
from holdfast.core.projection import RunRow
from holdfast.core.state import RunState
from holdfast.errors import HoldfastError, JournalError, LeaseLostError
from holdfast.formats.model import NativeFile, System
from holdfast.journal.protocol import JournalReader
from holdfast.journal.sqlite import SqliteJournal
from holdfast.repo.repository import Repository
from holdfast.runner.loop import Observer
from holdfast.runner.mirror.chronicle import Chronicle
from holdfast.runner.mirror.files import Shelf
from holdfast.runner.workshop import Workshop

PAUSE_S = 1.0
"""How long files are left alone after they were written, however much happens in the run."""


def check_mirror(repo: Repository, journal: JournalReader, run: str, system: System, folder: str) -> None:
    """Raise OccupiedError if the native files of a run cannot be kept there. Writes nothing."""
    chronicle = Chronicle(repo, journal, run)
    files = _below(folder, chronicle.native_files(system, live=False))
    _shelf(repo, chronicle, journal.load(run).row, system, folder).changes(files)


def write_mirrors(repo: Repository, journal: JournalReader, run: str) -> list[ev.AnyEvent]:
    """Bring the native files of a run that rests up to date; return an event for each system that could not be."""
    row = journal.load(run).row
    chronicle = Chronicle(repo, journal, run)
    return [
        event for system in row.mirrors for event in _write(repo, chronicle, row, system, set(), live=False)
    ]


def write_once(repo: Repository, journal: JournalReader, run: str, system: System, folder: str) -> list[str]:
    """Write the native files of a run as it is now, and return the paths that changed."""
    chronicle, row = Chronicle(repo, journal, run), journal.load(run).row
    files = _below(folder, chronicle.native_files(system, live=False))
    return _shelf(repo, chronicle, row, system, folder).put(files)


class Mirrors:
    """Writes the mirrors of a live run, at most once in a while and once more when it rests. One per runner."""

    def __init__(self, shop: Workshop, observer: Observer) -> None:
        self._shop = shop
        self._observer = observer
        self._chronicle: Chronicle | None = None
        self._stale = False
        self._broken: set[str] = set()
        self._writing: asyncio.Task[None] | None = None

    def __call__(self, events: Sequence[ev.AnyEvent], state: RunState) -> None:
        """Let the observer see the events, and have the mirrors written soon. Returns at once."""
        self._observer(events, state)
        for event in events:
            if isinstance(event, ev.MirrorKept):
                self._broken.discard(event.system)
        if state.row.mirrors:
            self._stale = True
            if self._writing is None or self._writing.done():
                self._writing = asyncio.ensure_future(self._keep_writing())

    async def finish(self) -> None:
        """Write the run as it rests, and record what went wrong. Repeated, nothing is left to write."""
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.gather(self._writing, return_exceptions=True)
        troubles = await asyncio.to_thread(self._write, live=False)
        if troubles:
            shop = self._shop
            # The run rests and that is durable: a journal that fails now must not spoil it.
            with suppress(JournalError, LeaseLostError):
                shop.journal.append(shop.run, shop.epoch, troubles, shop.state.row, (), time.time())
            self._observer(troubles, shop.state)

    async def _keep_writing(self) -> None:
        while self._stale:
            self._stale = False
            troubles = await asyncio.to_thread(self._write, live=True)
            if troubles:
                await self._shop.record(troubles)
            await asyncio.sleep(PAUSE_S)

    def _write(self, *, live: bool) -> list[ev.AnyEvent]:
        row, shop = self._shop.state.row, self._shop
        wanted = [system for system in dict(row.mirrors) if system not in self._broken]
        if not wanted:
            return []
        if self._chronicle is None:
            # Another thread than the loop's reads the journal here, so it gets a reader of its own.
            reader = SqliteJournal.open_read_only(shop.repo.state.journal)
            self._chronicle = Chronicle(shop.repo, reader, shop.run)
        chronicle = self._chronicle
        troubles = [
            event
            for system in wanted
            for event in _write(shop.repo, chronicle, row, system, shop.mirrored, live=live)
        ]
        self._broken |= {event.system for event in troubles}
        return list(troubles)


def _write(
    repo: Repository, chronicle: Chronicle, row: RunRow, system: str, mirrored: set[str], *, live: bool
) -> list[ev.MirrorFailed]:
    """Write one mirror. Whatever goes wrong becomes an event: it must not reach the run."""
    try:
        known, folder = System(system), row.mirrors[system]
        files = _below(folder, chronicle.native_files(known, live=live))
        mirrored.update(file.path for file in files)
        _shelf(repo, chronicle, row, known, folder).put(files)
    except HoldfastError as error:
        return [ev.MirrorFailed(system=system, error=error.message)]
    except Exception as error:  # noqa: BLE001 - a writer's mistake must not end a run
        return [ev.MirrorFailed(system=system, error=f"{type(error).__name__}: {error}")]
    return []


def _below(folder: str, files: Sequence[NativeFile]) -> list[NativeFile]:
    """Return the files with their paths told from the project, of which `folder` is a part."""
    return [msgspec.structs.replace(file, path=f"{folder}/{file.path}".lstrip("/")) for file in files]


def _shelf(repo: Repository, chronicle: Chronicle, row: RunRow, system: System, folder: str) -> Shelf:
    ledger = repo.state.run(row.run).mirror_ledger(system)
    originals = {} if folder else chronicle.originals(row, system)
    return Shelf(repo.checkout, ledger, originals)
