"""Slots: places that checks share, such as the one test database. The kernel alone says who holds one.

A place is a lock on a file, common to all runs of the repository. The supervisors of the checks inherit the lock:
while one of them lives the place is taken, and once none does it is free, with no time-outs.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress

from holdfast.locks import open_lockable, try_lock
from holdfast.paths import StateDir

_LOOK_AGAIN_S = 0.1


class CheckSlots:
    """The slots of a plan for one run: its own tasks queue up in order; with other runs the locks decide."""

    def __init__(self, state: StateDir, counts: Mapping[str, int]) -> None:
        self._state = state
        self._counts: dict[str, int] = {}
        self._turns: dict[str, asyncio.Semaphore] = {}
        self.set_counts(counts)

    def set_counts(self, counts: Mapping[str, int]) -> None:
        """Take the slots of a plan. Where a number changed, who waits already waits by the old one."""
        before, self._counts = self._counts, dict(counts)
        for name, count in counts.items():
            if before.get(name) != count:
                self._turns[name] = asyncio.Semaphore(count)

    @asynccontextmanager
    async def held(self, name: str, stop: asyncio.Event) -> AsyncIterator[tuple[int, ...] | None]:
        """Wait for a place of a slot, yield the descriptor that holds it, and close that afterwards.

        Yields None if `stop` was set before a place was free. A process that was given the descriptor keeps the place.
        Without a name there is nothing to wait for or to hold.
        """
        if not name:
            yield ()
            return
        turns = self._turns[name]
        if not await _acquired(turns, stop):
            yield None
            return
        try:
            fd = await self._take(name, stop)
            try:
                yield None if fd is None else (fd,)
            finally:
                if fd is not None:
                    os.close(fd)
        finally:
            turns.release()

    async def _take(self, name: str, stop: asyncio.Event) -> int | None:
        """Return a locked descriptor once another run, or a dead one's last check, leaves a place."""
        while (fd := self._try(name)) is None:
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_AGAIN_S):
                    await stop.wait()
                    return None
        return fd

    def _try(self, name: str) -> int | None:
        for index in range(self._counts.get(name, 1)):
            path = self._state.slot(name, index)
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            fd = open_lockable(path)
            if try_lock(fd):
                return fd
            os.close(fd)
        return None


async def _acquired(turns: asyncio.Semaphore, stop: asyncio.Event) -> bool:
    """Wait for our turn, first come first served; return whether it came before `stop`."""
    turn, stopped = asyncio.ensure_future(turns.acquire()), asyncio.ensure_future(stop.wait())
    await asyncio.wait({turn, stopped}, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    turn.cancel()
    with suppress(asyncio.CancelledError):
        return await turn
    return False
