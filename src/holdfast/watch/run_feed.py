"""Follows a run by its journal, in a thread, and hands on how it stands: with each event, and when its runner is gone.

A runner that is killed writes nothing, so its lock is looked at as well. A store that is away is said, and tried again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

from holdfast.core.state import RunState
from holdfast.errors import HoldfastError
from holdfast.views.current_status import agent_signs, status_of
from holdfast.views.inbox import InboxItem, WaitTimes, inbox_of, needs_events
from holdfast.views.read_only_repo import ReadOnlyRepo, open_read_only
from holdfast.views.status import StatusView

_PAUSE_S, _PAUSE_MAX_S = 0.25, 2.0
"""Between two looks: however much happens, the screen changes four times a second at most."""
_SHARE = 0.02
"""What looking and drawing may take of one processor. Who draws a large run waits longer before the next look."""
_SIGNS_S = 5.0
"""How often the signs of agents are asked for while nothing happens."""
_AGAIN_S = 1.0


@dataclass(frozen=True, slots=True)
class ShownRun:
    """A run at one moment. `problem` says why it may be old: the store is away, or the run is gone."""

    status: StatusView
    state: RunState
    inbox: tuple[InboxItem, ...]
    problem: str = ""


class RunFeed(Thread):
    """Calls `publish` from its own thread, with how the run stands or with what is wrong."""

    def __init__(self, start: Path, run: str, publish: Callable[[ShownRun | HoldfastError], None]) -> None:
        super().__init__(daemon=True, name="holdfast-feed")
        self._start, self._run, self._publish = start, run, publish
        self._over = Event()
        self._times = WaitTimes()
        self._holder, self._looked = "", 0.0
        self._spent_s, self._costs = 0.0, (0.0, 0.0)

    def run(self) -> None:
        """Follow until told to end."""
        while not self._over.is_set():
            try:
                self._follow()
            except HoldfastError as error:
                self._publish(error)
                self._over.wait(_AGAIN_S)

    def end(self) -> None:
        """Have the thread end soon."""
        self._over.set()

    def _follow(self) -> None:
        opened = open_read_only(self._start)
        journal = opened.require_journal()
        with closing(journal):
            self._look(opened)
            with closing(journal.follow(self._run, self._times.seen)) as followed:
                for happened in followed:
                    self._times.take_in(happened)
                    if happened or self._is_due(opened):
                        self._look(opened)
                    if self._over.wait(self._pause_s()):
                        return

    def _pause_s(self) -> float:
        """Return how long to wait before the next look. The dearer of two looks does not count: it had to start, or keys were pressed."""
        return min(max(_PAUSE_S, min(self._costs) / _SHARE), _PAUSE_MAX_S)

    def _is_due(self, opened: ReadOnlyRepo) -> bool:
        """Tell whether to look although no event came."""
        return str(opened.holder(self._run)) != self._holder or time.monotonic() - self._looked >= _SIGNS_S

    def _look(self, opened: ReadOnlyRepo) -> None:
        spent_before, self._spent_s = self._spent_s, time.process_time()
        self._costs = (self._costs[1], self._spent_s - spent_before)
        held, journal = opened.holder(self._run), opened.require_journal()
        self._holder, self._looked = str(held), time.monotonic()
        stored = journal.load(self._run)
        state = stored.state()
        if not self._times.seen:
            # Of what happened before, only the times matter of what waits now.
            before = journal.events(self._run, upto=stored.last_seq) if needs_events(state) else ()
            self._times.take_in(before)
            self._times.seen = stored.last_seq
        status = status_of(opened, stored, str(held) if held else None, agent_signs(opened, stored))
        inbox = inbox_of(state, status, self._times, stored.updated_at)
        self._publish(ShownRun(status, state, tuple(inbox)))
