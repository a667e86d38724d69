"""Runs as they are watched: one thread follows the journal of each run that somebody looks at, for all who look at it.

What a change means is worked out once and sent to every viewer. The first change goes out at once, later ones a little apart.
Without events a runner can die and an agent fall silent: once a second that is looked for, too. With its last
viewer, the thread ends.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from dataclasses import dataclass, field

import msgspec
from starlette.concurrency import run_in_threadpool

from holdfast.core.status import RunStatus
from holdfast.errors import HoldfastError
from holdfast.journal.protocol import StoredRun
from holdfast.reporting.displayed_status import AgentSign, liveness
from holdfast.views.current_status import agent_signs, status_of
from holdfast.views.inbox import WaitTimes
from holdfast.views.read_only_repo import ReadOnlyRepo
from holdfast.views.told_events import ToldEvent, told_events
from holdfast.web.answers import ErrorAnswer, RefusedRequestError
from holdfast.web.event_stream import HEARTBEAT, Viewer, message
from holdfast.web.repositories import ServedRepository, is_known, load_run
from holdfast.web.run_now import RunNow, change_between, run_now

_APART_S = 0.2
_SHARE = 4
"""Changes are so many times as far apart as one of them takes to work out: a huge run must not occupy a processor."""
_PLACES_S = 5.0
"""How often git is asked whether a completed run has landed since: no event tells."""
_RETRY_S = 1.0
_EVENTS_MAX = 1000
"""How many events a viewer gets who comes back. Older ones are asked for by their numbers."""

_Signature = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class RunUpdate:
    """What a follower found: the run as it is now, and the message for those who knew it before; `gone`: there is none."""

    now: RunNow | None
    text: bytes
    is_gone: bool = False


class RunFollower:
    """A thread that follows one run and hands each change on. It reads; nothing of the run waits for it."""

    def __init__(self, served: ServedRepository, run: str, publish: Callable[[RunUpdate], None]) -> None:
        self._served, self._run, self._publish = served, run, publish
        self._ended, self._poked = threading.Event(), threading.Event()
        self._times = WaitTimes()
        self._now: RunNow | None = None
        self._stored: StoredRun | None = None
        self._signature: _Signature = ()
        self._is_in_trouble = False
        self._seen_there = time.monotonic()

    def start(self) -> None:
        """Begin to follow."""
        threading.Thread(target=self._follow, name=f"follow {self._run}", daemon=True).start()

    def end(self) -> None:
        """Stop following, soon."""
        self._ended.set()

    def poke(self) -> None:
        """Look again soon, though no event may have happened."""
        self._poked.set()

    def _follow(self) -> None:
        """Follow until it is enough. A store that is out of reach is tried again, and goes on where it was."""
        while not self._ended.is_set():
            try:
                with self._served.opened() as opened:
                    self._watch(opened)
            except RefusedRequestError:
                self._publish(RunUpdate(None, message("gone", {"run": self._run}), is_gone=True))
                return
            except HoldfastError as error:
                if not self._is_in_trouble:
                    said = ErrorAnswer(error=error.message, hint=error.hint)
                    self._publish(RunUpdate(self._now, message("trouble", said)))
                self._is_in_trouble = True
                self._ended.wait(_RETRY_S)

    def _watch(self, opened: ReadOnlyRepo) -> None:
        load_run(opened, self._run)
        journal = opened.require_journal()
        with closing(journal.follow(self._run, self._times.seen)) as followed:
            for happened in followed:
                if self._ended.is_set():
                    return
                began = time.monotonic()
                self._require_there(opened)
                is_new = bool(happened) and happened[-1].seq > self._times.seen
                if is_new or self._now is None or self._poked.is_set() or self._looks_different(opened):
                    self._poked.clear()
                    self._update(opened)
                    took = time.monotonic() - began
                    self._ended.wait(max(_APART_S, _SHARE * took) - took)

    def _require_there(self, opened: ReadOnlyRepo) -> None:
        """Raise RefusedRequestError if the run was removed. Not every journal tells who follows one."""
        if time.monotonic() - self._seen_there > _PLACES_S:
            self._seen_there = time.monotonic()
            if not is_known(opened, self._run):
                load_run(opened, self._run)

    def _looks_different(self, opened: ReadOnlyRepo) -> bool:
        """Tell whether something is to be told although nothing was recorded: who runs it, or how its agents are."""
        assert self._stored is not None
        held = opened.holder(self._run)
        signs = agent_signs(opened, self._stored)
        return self._signature != _signature(self._stored, str(held) if held else None, signs)

    def _update(self, opened: ReadOnlyRepo) -> None:
        stored = load_run(opened, self._run)
        held = opened.holder(self._run)
        holder, signs = str(held) if held else None, agent_signs(opened, stored)
        # Exactly the events that the rows know, so that the number of the message stands for both.
        recorded = list(
            opened.require_journal().events(self._run, after=self._times.seen, upto=stored.last_seq)
        )
        self._times.take_in(recorded)
        now = run_now(stored, status_of(opened, stored, holder, signs), self._times, self._served.id)
        self._stored, self._signature = stored, _signature(stored, holder, signs)
        before, self._now = self._now, now
        events = () if before is None else told_events(recorded)
        change = None if before is None or self._is_in_trouble else change_between(before, now, events)
        self._is_in_trouble = False
        if change is None:
            told = msgspec.structs.replace(now, events=events)
            self._publish(RunUpdate(now, message("status", told, now.seq)))
        else:
            self._publish(RunUpdate(now, message("change", change, now.seq)))


def _signature(stored: StoredRun, holder: str | None, signs: dict[str, AgentSign]) -> _Signature:
    """Return what a page shows of a run that changes without events."""
    now = time.time()
    rows = {row.id: row for row in stored.tasks}
    alive = tuple((name, sign.presence, liveness(rows[name], sign, now)) for name, sign in signs.items())
    due = sum(parked.until <= now for parked in stored.row.parked.values())
    is_completed = stored.row.status is RunStatus.COMPLETED
    return holder, alive, due, int(now / _PLACES_S) if is_completed else 0


@dataclass(slots=True)
class _WatchedRun:
    """A run that somebody looks at: its follower, who looks, and how it was told last."""

    served: ServedRepository
    run: str
    viewers: set[Viewer] = field(default_factory=set)
    now: RunNow | None = None
    is_gone: bool = False
    follower: RunFollower = field(init=False)

    def take(self, update: RunUpdate) -> None:
        """Hand a change to everybody. Called in the event loop, so that who comes meanwhile gets all of it or nothing."""
        self.now, self.is_gone = update.now, update.is_gone
        for viewer in self.viewers:
            viewer.put(update.text)


class LiveRuns:
    """All runs that somebody looks at. It lives in the event loop; followers report to it from their threads."""

    def __init__(self) -> None:
        self._watched: dict[tuple[str, str], _WatchedRun] = {}
        self._closing = False

    def close(self) -> None:
        """End all streams and their followers."""
        self._closing = True
        for watched in self._watched.values():
            watched.follower.end()
            for viewer in watched.viewers:
                viewer.wake()

    def poke(self, served: ServedRepository, run: str) -> None:
        """Let a run be looked at again: somebody did something to it."""
        if (watched := self._watched.get((served.id, run))) is not None:
            watched.follower.poke()

    async def messages(self, served: ServedRepository, run: str, after: int | None) -> AsyncIterator[bytes]:
        """Yield the run as it is, then every change. With `after`, the events since that one come with the first.

        A viewer who is too slow gets the whole once more, with the events that it missed.
        """
        viewer = Viewer()
        watched = self._join(served, run, viewer)
        try:
            while watched.now is None and not watched.is_gone and not self._closing:
                if (text := viewer.take()) is not None:
                    yield text
                elif not await viewer.wait():
                    yield HEARTBEAT
            seen, starting = after, True
            while not self._closing:
                if starting or viewer.is_behind:
                    now, starting = watched.now, False
                    viewer.start_over()
                    if watched.is_gone or now is None:
                        yield message("gone", {"run": run})
                        return
                    events = await run_in_threadpool(_events_between, served, run, seen, now.seq)
                    yield message("status", msgspec.structs.replace(now, events=events), now.seq)
                    seen = now.seq
                elif (text := viewer.take()) is not None:
                    yield text
                    seen = max(seen or 0, number_of(text))
                    if watched.is_gone:
                        return
                elif not await viewer.wait():
                    yield HEARTBEAT
        finally:
            self._leave(watched, viewer)

    def _join(self, served: ServedRepository, run: str, viewer: Viewer) -> _WatchedRun:
        watched = self._watched.get((served.id, run))
        if watched is None or watched.is_gone:
            watched = self._watched[served.id, run] = _WatchedRun(served, run)
            loop, take = asyncio.get_running_loop(), watched.take

            def publish(update: RunUpdate) -> None:
                if not loop.is_closed():
                    loop.call_soon_threadsafe(take, update)

            watched.follower = RunFollower(served, run, publish)
            watched.follower.start()
        watched.viewers.add(viewer)
        return watched

    def _leave(self, watched: _WatchedRun, viewer: Viewer) -> None:
        watched.viewers.discard(viewer)
        if not watched.viewers:
            watched.follower.end()
            key = watched.served.id, watched.run
            if self._watched.get(key) is watched:
                del self._watched[key]


def number_of(text: bytes) -> int:
    """Return the number of a message; 0 if it has none."""
    first, _, _ = text.partition(b"\n")
    return int(first[4:]) if first.startswith(b"id: ") else 0


def _events_between(
    served: ServedRepository, run: str, after: int | None, upto: int
) -> tuple[ToldEvent, ...]:
    """Return the events that a viewer has missed; none if it knew nothing before. Of very many, the newest."""
    if after is None or after >= upto:
        return ()
    with served.opened() as opened:
        return told_events(opened.require_journal().events(run, after=after, upto=upto))[-_EVENTS_MAX:]
