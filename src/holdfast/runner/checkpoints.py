"""Saving all work under way at once, because somebody asks for it: each attempt saves its own, when it can."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class Checkpoints:
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
