"""A run followed on a terminal: a table of what runs now, below the lines that say what happened.

A separate thread draws the picture, at most four times a second, from a frozen copy of its data (`live_picture.py`).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from textwrap import wrap
from typing import IO, Self, cast

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from holdfast.core.events import AttemptStarted, Event
from holdfast.core.state import RunState
from holdfast.views.event_text import event_sentence
from holdfast.views.live_picture import Estimate, Picture, estimate_of, picture_lines, picture_of
from holdfast.views.terminal import DrawingOutput
from holdfast.views.text import time_of_day
from holdfast.views.told_events import Tone, tone_of

_FRAMES_PER_SECOND = 4
_ESTIMATE_EVERY_S = 1.0
_WORDS_MIN = 20
_STYLES: dict[Tone, str] = {"bad": "red", "warn": "yellow", "good": "green", "dim": "dim", "": ""}


class LiveTable:
    """An observer that draws. Enter it first, and leave it before anything else is printed."""

    def __init__(self) -> None:
        self._picture, self._estimate = Picture(), Estimate()
        self._since: dict[str, float] = {}
        self._console = Console(highlight=False, file=cast("IO[str]", DrawingOutput(sys.stdout)))
        self._live = Live(
            get_renderable=self._draw,
            console=self._console,
            refresh_per_second=_FRAMES_PER_SECOND,
            transient=True,
        )

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._live.stop()

    def __call__(self, events: Sequence[Event], state: RunState) -> None:
        """Print what happened and take a new copy of the data to draw."""
        self.show([(time.time(), event) for event in events], state)

    def show(self, happened: Sequence[tuple[float, Event]], state: RunState) -> None:
        """Print what happened at which time of day, and take a new copy of the data to draw."""
        now = time.monotonic()
        self.remember(happened)
        for name in state.active:
            self._since.setdefault(name, now)
        if now - self._estimate.made >= _ESTIMATE_EVERY_S:
            self._estimate = estimate_of(state, now)
        self._picture = picture_of(state, self._since, self._estimate, now, time.time())
        # One print for all of them: each print draws the whole picture again.
        width = self._console.size.width
        told = [(at, event, words) for at, event in happened if (words := event_sentence(event))]
        if said := [_line(at, event, words, width) for at, event, words in told]:
            self._console.print(Text("\n").join(said))

    def remember(self, happened: Sequence[tuple[float, Event]]) -> None:
        """Take in when attempts began, without printing anything."""
        offset = time.monotonic() - time.time()
        self._since.update({e.task: at + offset for at, e in happened if isinstance(e, AttemptStarted)})

    def _draw(self) -> RenderableType:
        size = self._console.size
        return Group(*picture_lines(self._picture, size.width, size.height, time.monotonic()))


def _line(at: float, event: Event, words: str, width: int) -> Text:
    """Return what happened, with its time; what does not fit goes below the words, not below the time."""
    clock = f"{time_of_day(at)}  "
    room = max(width - len(clock), _WORDS_MIN)
    below = "\n" + " " * len(clock)
    told = below.join(wrap(words, room, break_on_hyphens=False))
    return Text.assemble((clock, "dim"), (told, _STYLES[tone_of(event)]))
