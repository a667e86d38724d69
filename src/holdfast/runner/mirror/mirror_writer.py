"""Keeps native files, or records in a server, up to date beside a run. Never delays or fails the run: an error becomes one event."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence

import msgspec

from holdfast.core import events as ev
from holdfast.core.state import RunState
from holdfast.formats.exported_run import NativeFile
from holdfast.formats.registry import System
from holdfast.journal.protocol import JournalReader
from holdfast.repo.repository import Repository
from holdfast.runner.context import RunContext
from holdfast.runner.effect_errors import error_text
from holdfast.runner.mirror.mirror_files import MirrorFiles, is_in_ledger
from holdfast.runner.mirror.mirror_records import check_records, is_server, put_records
from holdfast.runner.mirror.renderer import RunRenderer
from holdfast.runner.mirror.staging_worktree import update_staging_worktree

PAUSE_S = 1.0
"""How long files are left alone after a write, even if much happens in the run."""
HEARTBEAT_S = 5.0
"""How often records in a server are written if nothing happens in the run: readers take an old heartbeat for a crash."""
_IDLE = 9.0
"""The wait before the next write, as a multiple of how long the last one took."""
_WAIT_MAX_S = 20.0
"""The longest wait: the records in a server are at most half a minute old."""


def check_mirror(repo: Repository, journal: JournalReader, run: str, system: System, folder: str) -> None:
    """Raise HoldfastError if the native files or records of a run cannot be kept there. Writes nothing."""
    renderer = RunRenderer(repo, journal, run)
    if is_server(folder):
        check_records(renderer, system, folder)
    else:
        place, files = _render(renderer, system, folder, live=False)
        place.changes(files)


def write_mirrors(repo: Repository, journal: JournalReader, run: str) -> list[ev.Event]:
    """Bring the native files of a run that rests up to date; return an event for each system that could not be."""
    row = journal.load(run).row
    renderer = RunRenderer(repo, journal, run)
    written = [
        event
        for system, folder in row.mirrors.items()
        for event in _write(renderer, system, folder, set(), live=False)
    ]
    return [*written, *update_staging_worktree(repo, row)]


def export_run(repo: Repository, journal: JournalReader, run: str, system: System, folder: str) -> list[str]:
    """Write the native files of a run as it is now, and return the paths that changed; or the keys, in a server."""
    renderer = RunRenderer(repo, journal, run)
    if is_server(folder):
        return put_records(renderer, system, folder, live=False)
    place, files = _render(renderer, system, folder, live=False)
    return place.put(files)


def mirror_owner(repo: Repository, system: str, name: str, content: bytes) -> str:
    """Return the run that keeps this very file as its mirror, or an empty string."""
    ledgers = ((run, repo.state_dir.run(run).mirror_ledger(system)) for run in repo.state_dir.runs())
    return next((run for run, ledger in ledgers if is_in_ledger(ledger, name, content)), "")


class MirrorWriter:
    """An observer that writes the mirrors of a live run, at intervals and once more when it rests.

    `paths` are the files below the checkout that it writes.
    """

    def __init__(self, context: RunContext) -> None:
        self._context = context
        # Another thread than the loop's reads the journal.
        self._renderer = RunRenderer(context.repo, context.journal.reader(), context.run)
        self.paths: set[str] = set()
        self._one_at_a_time = threading.Lock()
        self._stale = False
        self._finished = False
        self._broken: set[str] = set()
        self._told: set[str] = set()
        self._unrecorded: list[ev.Event] = []
        self._writing: asyncio.Task[None] | None = None
        self._beating: asyncio.Task[None] | None = None

    def __call__(self, events: Sequence[ev.Event], state: RunState) -> None:
        """Have the mirrors written soon. Returns at once."""
        for event in events:
            if isinstance(event, ev.MirrorKept):
                self._broken.discard(event.system)
                self._told.discard(event.system)
        if state.row.mirrors and not self._finished:
            self._begin()
            if self._beating is None and any(map(is_server, state.row.mirrors.values())):
                self._beating = asyncio.ensure_future(self._keep_beating())

    def _begin(self) -> None:
        self._stale = True
        if self._writing is None or self._writing.done():
            self._writing = asyncio.ensure_future(self._keep_writing())

    async def finish(self) -> list[ev.Event]:
        """Write the run as it rests and return what went wrong. Idempotent."""
        self._finished = True
        for task in filter(None, (self._beating, self._writing)):
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        if self._context.state.row.mirrors:
            await asyncio.to_thread(self._write, live=False)
        failures, self._unrecorded = self._unrecorded, []
        return failures

    async def _keep_writing(self) -> None:
        while self._stale:
            self._stale = False
            began = time.monotonic()
            await asyncio.to_thread(self._write, live=True)
            if self._unrecorded:
                await self._context.record(self._unrecorded)
                self._unrecorded = []
            # Mirrors take a small part of the machine, even for a large run.
            await asyncio.sleep(min(_WAIT_MAX_S, max(PAUSE_S, _IDLE * (time.monotonic() - began))))

    async def _keep_beating(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            if any(map(is_server, self._context.state.row.mirrors.values())):
                self._begin()

    def _write(self, *, live: bool) -> None:
        """Write every mirror. One thread at a time: one whose waiter was cancelled may still write."""
        with self._one_at_a_time:
            row = self._context.state.row
            for system, folder in dict(row.mirrors).items():
                if system not in self._broken:
                    failures = _write(self._renderer, system, folder, self.paths, live=live)
                    self._unrecorded += [each for each in failures if each.system not in self._told]
                    # A server may come back, so it is tried again, and said once. A file stays as it is.
                    broken = self._told if is_server(folder) else self._broken
                    broken |= {failure.system for failure in failures}
            self._unrecorded += update_staging_worktree(self._context.repo, row)


def _write(
    renderer: RunRenderer, system: str, folder: str, paths: set[str], *, live: bool
) -> list[ev.MirrorFailed]:
    """Write one mirror. An error becomes an event: it must not reach the run."""
    try:
        if is_server(folder):
            put_records(renderer, System(system), folder, live=live)
            return []
        place, files = _render(renderer, System(system), folder, live=live)
        paths.update(file.path for file in files)
        place.put(files)
    except Exception as error:  # noqa: BLE001 - a writer's mistake must not end a run
        return [ev.MirrorFailed(system=system, error=error_text(error))]
    return []


def _render(
    renderer: RunRenderer, system: System, folder: str, *, live: bool
) -> tuple[MirrorFiles, list[NativeFile]]:
    """Return the place of a mirror and the files that belong there, with their paths from the project."""
    files = [
        msgspec.structs.replace(file, path=f"{folder}/{file.path}".lstrip("/"))
        for file in renderer.native_files(system, live=live)
    ]
    ledger = renderer.repo.state_dir.run(renderer.run).mirror_ledger(system)
    originals = {} if folder else renderer.originals(system)
    return MirrorFiles(renderer.repo.checkout, ledger, originals), files
