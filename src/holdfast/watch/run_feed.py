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
from holdfast.views.current_status import current_status
from holdfast.views.inbox import InboxItem, WaitTimes, inbox_of
from holdfast.views.read_only_repo import ReadOnlyRepo, open_read_only
from holdfast.views.status import StatusView

_PAUSE_S = 0.25
"""Between two looks: however much happens, the screen changes four times a second at most."""
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
        with closing(journal), closing(journal.follow(self._run, self._times.seen)) as followed:
            for happened in followed:
                self._times.take_in(happened)
                if happened or self._is_due(opened):
                    self._look(opened)
                if self._over.wait(_PAUSE_S):
                    return

    def _is_due(self, opened: ReadOnlyRepo) -> bool:
        """Tell whether to look although no event came."""
        return str(opened.holder(self._run)) != self._holder or time.monotonic() - self._looked >= _SIGNS_S

    def _look(self, opened: ReadOnlyRepo) -> None:
        self._holder, self._looked = str(opened.holder(self._run)), time.monotonic()
        stored = opened.require_journal().load(self._run)
        state, status = stored.state(), current_status(opened, self._run)
        inbox = inbox_of(state, status, self._times, stored.updated_at)
        self._publish(ShownRun(status, state, tuple(inbox)))
