"""A run followed line by line: for pipes, CI logs and programs. One line per event, flushed at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Self, TextIO

from holdfast.core.events import AnyEvent, encode_event
from holdfast.core.state import RunState
from holdfast.views.sentences import sentence
from holdfast.views.streams import tell
from holdfast.views.times import time_of_day


class Lines:
    """An observer that writes each event as `render` words it; an event without words gets no line."""

    def __init__(self, out: TextIO, render: Callable[[AnyEvent], str]) -> None:
        self._out = out
        self._render = render

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        """Nothing is held; every line is out already."""

    def __call__(self, events: Sequence[AnyEvent], _state: RunState) -> None:
        """Write what happened. A reader that went away does not disturb the run."""
        for line in map(self._render, events):
            if line:
                tell(line, self._out)


def plain_lines(out: TextIO) -> Lines:
    """Return an observer that writes sentences with the time of day."""
    return Lines(out, _timed)


def json_lines(out: TextIO) -> Lines:
    """Return an observer that writes every event as the journal has it, one JSON object per line."""
    return Lines(out, lambda event: encode_event(event).decode())


def _timed(event: AnyEvent) -> str:
    words = sentence(event)
    return f"{time_of_day(time.time())}  {words}" if words else ""
