"""The overview as it is watched: one thread per repository looks for changes as long as somebody watches."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import closing, suppress

from starlette.concurrency import run_in_threadpool

from holdfast.errors import HoldfastError
from holdfast.web.event_stream import HEARTBEAT, Viewer, message
from holdfast.web.overview import Overview, RepositoryOverview, RepositoryView, overview_of, without_clock

_APART_S = 0.25
_QUIET_APART_S = 2.0
"""How far apart those overviews are in which only times and spending changed."""
_SHARE = 8
_LOOK_S = 1.0


class RepositoryFollower:
    """A thread that looks at one repository whenever its journal changes, and once a second for what no event tells."""

    def __init__(self, part: RepositoryOverview, publish: Callable[[], None]) -> None:
        self._part, self._publish = part, publish
        self._ended = threading.Event()

    def start(self) -> None:
        """Begin to follow."""
        threading.Thread(target=self._follow, name=f"look at {self._part.served.id}", daemon=True).start()

    def end(self) -> None:
        """Stop following, soon."""
        self._ended.set()

    def _follow(self) -> None:
        while not self._ended.is_set():
            with suppress(HoldfastError):  # the overview itself says what is wrong
                self._watch()
            self._look()
            self._ended.wait(_LOOK_S)

    def _watch(self) -> None:
        """Look after each change, until the journal cannot be read, or there is none yet."""
        with self._part.served.opened() as opened:
            if opened.journal is None:
                return
            with closing(opened.journal.changes()) as changes:
                for _ in changes:
                    took = self._look()
                    if self._ended.wait(max(_APART_S, _SHARE * took)) or self._has_error():
                        return

    def _has_error(self) -> bool:
        view = self._part.view
        return view is not None and view.error is not None

    def _look(self) -> float:
        began = time.monotonic()
        self._part.refresh()
        self._publish()
        return time.monotonic() - began


class LiveOverview:
    """The overview for everybody who watches it. It lives in the event loop."""

    def __init__(self, parts: Sequence[RepositoryOverview], *, read_only: bool) -> None:
        self.parts, self._read_only = parts, read_only
        self._followers: list[RepositoryFollower] = []
        self._viewers: set[Viewer] = set()
        self._shown: Overview | None = None
        self._last: tuple[RepositoryView, ...] = ()
        self._told_at = 0.0
        self._closing = False

    async def now(self) -> Overview:
        """Return the overview as it is at this moment."""
        for part in self.parts:
            await run_in_threadpool(part.refresh)
        return overview_of(self.parts, read_only=self._read_only)

    def close(self) -> None:
        """End all streams and their followers."""
        self._closing = True
        self._end_followers()
        for viewer in self._viewers:
            viewer.wake()

    async def messages(self) -> AsyncIterator[bytes]:
        """Yield the overview as it is, and again whenever something in it changed."""
        viewer = Viewer()
        self._join(viewer)
        try:
            yield message("overview", await self.now())
            while not self._closing:
                if viewer.is_behind:
                    viewer.start_over()
                    yield message("overview", overview_of(self.parts, read_only=self._read_only))
                elif (text := viewer.take()) is not None:
                    yield text
                elif not await viewer.wait():
                    yield HEARTBEAT
        finally:
            self._viewers.discard(viewer)
            if not self._viewers:
                self._end_followers()

    def _join(self, viewer: Viewer) -> None:
        self._viewers.add(viewer)
        if self._followers:
            return
        loop = asyncio.get_running_loop()

        def publish() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._tell)

        self._followers = [RepositoryFollower(part, publish) for part in self.parts]
        for follower in self._followers:
            follower.start()

    def _tell(self) -> None:
        """Send the overview to everybody if it changed; if only its times did, not too often."""
        view = overview_of(self.parts, read_only=self._read_only)
        shown, quiet = without_clock(view), time.monotonic() - self._told_at < _QUIET_APART_S
        if shown == self._shown and (quiet or not self._has_new_times(view)):
            return
        self._shown, self._last, self._told_at = shown, view.repositories, time.monotonic()
        text = message("overview", view)
        for viewer in self._viewers:
            viewer.put(text)

    def _has_new_times(self, view: Overview) -> bool:
        return view.repositories != self._last

    def _end_followers(self) -> None:
        for follower in self._followers:
            follower.end()
        self._followers, self._shown = [], None
