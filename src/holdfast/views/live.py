"""A run followed on a terminal: a table of what runs now, below the lines that say what happened.

A separate thread draws the picture, at most four times a second, from a frozen copy of its data.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Self, cast

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from holdfast.core.events import AttemptStarted, Event
from holdfast.core.state import RunState
from holdfast.core.status import TaskStatus
from holdfast.reporting.displayed_status import reported_progress
from holdfast.views.event_text import event_sentence
from holdfast.views.status import agent_of
from holdfast.views.terminal import DrawingOutput
from holdfast.views.text import duration, one_line, percent, time_of_day

_FRAMES_PER_SECOND = 4


@dataclass(frozen=True, slots=True)
class _Working:
    task: str
    status: str
    attempt: int
    agent: str
    reported: float | None
    since: float


@dataclass(frozen=True, slots=True)
class _Picture:
    """What one frame shows. It never changes."""

    head: str = ""
    working: tuple[_Working, ...] = ()
    queue: tuple[str, ...] = ()


class LiveTable:
    """An observer that draws. Enter it first, and leave it before anything else is printed."""

    def __init__(self) -> None:
        self._picture = _Picture()
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
        now, at = time.monotonic(), time_of_day(time.time())
        self._since.update({event.task: now for event in events if isinstance(event, AttemptStarted)})
        self._picture = _picture(state, self._since, now)
        # One print for all of them: each print draws the whole picture again.
        if said := [f"{at}  {words}" for event in events if (words := event_sentence(event))]:
            self._console.print(Text("\n".join(said)))

    def _draw(self) -> RenderableType:
        picture = self._picture
        parts: list[RenderableType] = [Text(picture.head, style="bold")] if picture.head else []
        if picture.working:
            parts.append(_table(picture.working, time.monotonic()))
        if picture.queue:
            parts.append(Text("merge queue: " + ", ".join(picture.queue), style="dim"))
        return Group(*parts)


def _picture(state: RunState, since: dict[str, float], now: float) -> _Picture:
    failed = len(state.failed) + sum(state.abandoned.values())
    done = f"{one_line(state.plan.goal)}: {state.settled_count} of {len(state.tasks)} done"
    return _Picture(
        head=f"{done}, {failed} failed" if failed else done,
        working=tuple(
            _Working(
                task=task.id,
                status="checking" if task.status is TaskStatus.VERIFYING else "working",
                attempt=task.attempt,
                agent=agent_of(state.plan, state.specs[task.id]),
                reported=reported_progress(task),
                since=since.setdefault(task.id, now),
            )
            for task in state.active.values()
        ),
        queue=(*(f"{name} merging" for name in state.landing), *(f"{name} ready" for name in _ready(state))),
    )


def _ready(state: RunState) -> Iterator[str]:
    """Yield the verified tasks in their order. Only the queue is read, so the cost does not grow with the plan."""
    for number, name in sorted(set(state.merge_queue)):
        task = state.tasks[name]
        # The queue drops stale entries later.
        if task.status is TaskStatus.VERIFIED and task.queue_number == number:
            yield name


def _table(working: Sequence[_Working], now: float) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    reports = any(row.reported is not None for row in working)
    for heading in ("task", "", "attempt", "agent", "for", *(["progress"] if reports else [])):
        table.add_column(heading, no_wrap=True)
    for row in working:
        progress = [percent(row.reported)] if reports else []
        table.add_row(row.task, row.status, str(row.attempt), row.agent, duration(now - row.since), *progress)
    return table
