"""Slots: places that checks share, such as the one test database. Who holds one is said by the kernel alone.

A place is a lock on a file, common to all runs of the repository. The lock goes along to the supervisors of the
checks that it is for: while one of those lives the place is taken, and once none does it is free, with no time-outs.
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
    """The slots of a plan as one run sees them: its own tasks queue up in order, other runs are met at the locks."""

    def __init__(self, state: StateDir, counts: Mapping[str, int]) -> None:
        self._state = state
        self._counts = counts
        self._turns = {name: asyncio.Semaphore(count) for name, count in counts.items()}

    @asynccontextmanager
    async def held(self, name: str, stop: asyncio.Event) -> AsyncIterator[int | None]:
        """Wait for a place of a slot, yield the descriptor that holds it, and let go of it afterwards.

        Yields None if `stop` was set before a place was free. What was handed the descriptor keeps the place.
        """
        if not await _acquired(self._turns[name], stop):
            yield None
            return
        try:
            fd = await self._take(name, stop)
            try:
                yield fd
            finally:
                if fd is not None:
                    os.close(fd)
        finally:
            self._turns[name].release()

    async def _take(self, name: str, stop: asyncio.Event) -> int | None:
        """Return a locked descriptor once another run, or a dead one's last check, leaves a place."""
        while (fd := self._try(name)) is None:
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), _LOOK_AGAIN_S)
                return None
        return fd

    def _try(self, name: str) -> int | None:
        for index in range(self._counts[name]):
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
