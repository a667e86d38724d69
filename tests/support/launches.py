"""A workspace, a fleet and FIFOs: what the tests of supervised processes use. Agents block on FIFOs, never sleep."""

from __future__ import annotations

import asyncio
import os
import select
from collections.abc import Awaitable
from dataclasses import dataclass
from pathlib import Path

from holdfast import locks
from holdfast.core.facts import Exit, ExitReason
from holdfast.fleet.local import LocalFleet
from holdfast.fleet.protocol import Fleet, LaunchKey, LaunchSpec
from holdfast.paths import StateDir
from holdfast.process import procfs

PATH = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
RUN = "01-run"


@dataclass
class FleetSetup:
    """One test's place: `state` belongs to the fleet, `work` is the agents' working folder."""

    state: StateDir
    work: Path
    fleet: Fleet
    files: Path
    """What a launch works in: the same folder, unless it is sent elsewhere."""

    def another(self) -> Fleet:
        """Return the fleet of another runner in the same place."""
        return LocalFleet(self.state)

    def sh(self, script: str, attempt: int = 1, **limits: float) -> LaunchSpec:
        """Return a launch of a shell script; FIFOs are named relative to the working folder."""
        return self.spec("/bin/sh", "-c", script, attempt=attempt, **limits)

    def spec(self, *argv: str, attempt: int = 1, **limits: float) -> LaunchSpec:
        """Return a launch with a secret of its own, the same one each time."""
        key = LaunchKey(RUN, "T1", attempt, "agent")
        secret = f"{self.work.parent.name}-{attempt}"
        return LaunchSpec(key, argv, self.work, PATH, secret, **limits)  # type: ignore[arg-type]

    def fifo(self, name: str) -> None:
        """Make a FIFO in the working folder. One nobody writes to blocks its reader for ever."""
        os.mkfifo(self.work / name)

    def heard(self, name: str) -> str:
        """Wait for the line that an agent writes to a FIFO."""
        fd = os.open(self.work / name, os.O_RDONLY | os.O_NONBLOCK)
        try:
            poll = select.poll()
            poll.register(fd, select.POLLIN)
            assert poll.poll(20_000), f"nothing was written to {name}"
            return os.read(fd, 4096).decode().strip()
        finally:
            os.close(fd)

    def folder(self, key: LaunchKey) -> Path:
        """Return the folder of a launch."""
        return self.state.run(key.run).attempts / key.owner / str(key.attempt) / key.step

    def supervisor(self, key: LaunchKey) -> int:
        """Return the pid of a launch's live supervisor."""
        pid = locks.record_lock_holder(str(self.folder(key) / "supervisor.json"))
        assert pid is not None
        return pid

    async def finish(self, spec: LaunchSpec) -> Exit:
        """Launch, wait for the end, and return its record."""
        await self.fleet.launch(spec)
        return await ended(self.fleet.wait(spec.key))


async def ended(sighting: Awaitable[object]) -> Exit:
    """Return the exit record of what a fleet's `wait` or `cancel` gives."""
    record = getattr(await sighting, "exit", None)
    assert isinstance(record, Exit)
    return record


SAVES_AT_STOP = "trap 'echo saved > saved; exit 0' TERM; echo there > up; while :; do read x < gate; done"
"""A script that says when it is at work, and saves it when it is stopped."""


def require_grace(setup: FleetSetup, spec: LaunchSpec) -> None:
    """Fail unless a launch of that script, when it is cancelled, has the time to save its work."""
    asyncio.run(setup.fleet.launch(spec))
    setup.heard("up")
    record = asyncio.run(ended(setup.fleet.cancel(spec.key)))
    assert record.reason is ExitReason.CANCELLED
    assert (setup.work / "saved").read_text() == "saved\n"


def alive(pid: int | str) -> bool:
    """Say whether a process runs; a zombie does not."""
    entry = procfs.stat(int(pid))
    return entry is not None and entry.alive
