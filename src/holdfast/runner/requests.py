"""What other processes ask of a live runner: a durable spool of files, and a bell to wake it.

The bell is a FIFO, so no pid has to be trusted. A request is removed only after its event is durable.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec

from holdfast.core.events import Gate
from holdfast.paths import RunDir


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


def leave_request(directory: RunDir, request: Request) -> Path:
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
        bell = os.open(directory.bell, os.O_WRONLY | os.O_NONBLOCK)
        os.write(bell, b"!")
        os.close(bell)
    return path


def open_bell(directory: RunDir) -> int:
    """Return a file descriptor that becomes readable whenever a request was left or an agent reported."""
    directory.requests.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        os.mkfifo(directory.bell, 0o600)
    return os.open(directory.bell, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)


def pending_requests(directory: RunDir) -> Iterator[tuple[Path, Request | None]]:
    """Yield the spooled requests, oldest first; None stands for one that cannot be read."""
    paths = sorted(directory.requests.glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
    for path in paths:
        try:
            yield path, msgspec.json.decode(path.read_bytes(), type=Request)
        except msgspec.MsgspecError:
            yield path, None
