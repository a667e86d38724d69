"""What other processes ask of a live runner: a durable spool of files, and a bell to wake it.

The bell is a FIFO, so no pid has to be trusted. A request is removed only after its event is durable.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

import msgspec

from holdfast.core.status import Gate
from holdfast.paths import RunDir


class SaveRequests:
    """The attempts that are being watched, each with what it is asked and who waits for that."""

    def __init__(self) -> None:
        self._wanted: dict[str, asyncio.Event] = {}
        self._waiting: dict[str, list[asyncio.Future[None]]] = {}

    @contextmanager
    def open_for(self, task: str) -> Iterator[asyncio.Event]:
        """Count a task among those that can save their work; yield the event that asks it to."""
        self._wanted[task], self._waiting[task] = asyncio.Event(), []
        try:
            yield self._wanted[task]
        finally:
            # Whoever waits need not any more: what an attempt leaves at its end is kept anyway.
            with self.taking(task):
                del self._wanted[task], self._waiting[task]

    @contextmanager
    def taking(self, task: str) -> Iterator[None]:
        """Save the work of a task inside of this, for whoever waits by now. Who asks meanwhile waits for the next time."""
        self._wanted[task].clear()
        waiting, self._waiting[task] = self._waiting[task], []
        try:
            yield
        finally:
            for waiter in waiting:
                if not waiter.done():
                    waiter.set_result(None)

    async def take(self) -> None:
        """Ask every attempt to save its work and return when all have."""
        waiters = [asyncio.get_running_loop().create_future() for _ in self._wanted]
        for (task, wanted), waiter in zip(self._wanted.items(), waiters, strict=True):
            self._waiting[task].append(waiter)
            wanted.set()
        await asyncio.gather(*waiters)


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One thing asked: to stop, to pause, to give a task another chance or none, to waive a gate, to save all work now,
    to keep or no longer keep the native files of a system.

    `now` belongs to a pause: it does not wait for the agents.
    """

    action: Literal["stop", "pause", "retry", "skip", "accept", "save", "mirror", "unmirror"]
    task: str = ""
    stage: str = ""
    gate: Gate = "entry"
    now: bool = False
    system: str = ""
    folder: str = ""


def send_request(directory: RunDir, request: Request) -> Path:
    """Put a request where the runner finds it and ring; return its file, which is gone once the request is durable.

    Asking twice for the same has the effect of once.
    """
    directory.requests.mkdir(parents=True, exist_ok=True)
    name = secrets.token_hex(8)
    draft = directory.requests / f".{name}"
    draft.write_bytes(msgspec.json.encode(request))
    path = draft.rename(directory.requests / f"{name}.json")
    # ENXIO and ENOENT mean that nobody listens; the spooled file then waits for the next runner.
    with suppress(OSError):
        bell = os.open(directory.wake_pipe, os.O_WRONLY | os.O_NONBLOCK)
        os.write(bell, b"!")
        os.close(bell)
    return path


def open_bell(directory: RunDir) -> int:
    """Return a file descriptor that becomes readable whenever a request was left or an agent reported."""
    directory.requests.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        os.mkfifo(directory.wake_pipe, 0o600)
    return os.open(directory.wake_pipe, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)


def pending_requests(directory: RunDir) -> Iterator[tuple[Path, Request | None]]:
    """Yield the spooled requests, oldest first; None stands for one that cannot be read."""
    paths = sorted(directory.requests.glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
    for path in paths:
        try:
            yield path, msgspec.json.decode(path.read_bytes(), type=Request)
        except msgspec.MsgspecError:
            yield path, None
