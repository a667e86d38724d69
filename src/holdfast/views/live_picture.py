"""One frame of the live view: what it shows, as a frozen copy of a run's state, and its lines for a screen of any size.

Who draws it, and when, is in `live.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rich.text import Text

from holdfast.core.accounts import money
from holdfast.core.projection import Parked, TaskRow
from holdfast.core.state import RunState
from holdfast.core.status import TASK_IS_OVER, TaskStatus
from holdfast.reporting.displayed_status import reported_progress
from holdfast.reporting.estimates import time_to_finish
from holdfast.views.providers import outage_words, outages
from holdfast.views.status import agent_of
from holdfast.views.text import count, duration, one_line, percent, shortened

_NARROW, _WIDE = 60, 110
_NAME_MAX = 30
_SURE_MAX = 0.95
"""A bar that is only an estimate never gets full: the agent says when it is done."""
_TROUBLES = {
    "limit": "at its provider's limit",
    "outage": "does not reach its provider",
    "permission": "waits for permission",
    "auth": "its key is refused",
    "credit": "its account has no credit",
    "model": "its model is refused",
}


@dataclass(frozen=True, slots=True)
class WorkingTask:
    """A task at work. `share` is what its agent reports; None if it reports nothing."""

    task: str
    checking: bool
    attempt: int
    agent: str
    share: float | None
    since: float
    doing: str
    trouble: str
    tokens: int
    cost_usd: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """What finished tasks tell about the others: how long one takes, and all that are left. None if nothing was measured.

    `made` is when it was made, on the drawing clock.
    """

    task_s: float | None = None
    left_s: float | None = None
    made: float = 0.0


@dataclass(frozen=True, slots=True)
class Picture:
    """What one frame shows. It never changes."""

    goal: str = ""
    done: int = 0
    tasks: int = 0
    failed: int = 0
    working: tuple[WorkingTask, ...] = ()
    queue: tuple[str, ...] = ()
    tokens: int = 0
    cost_usd: float = 0.0
    estimate: Estimate = Estimate()
    outages: tuple[tuple[str, Parked, str], ...] = ()
    wall_offset: float = 0.0
    """What the wall clock is ahead of the drawing clock."""


def picture_of(
    state: RunState, since: Mapping[str, float], estimate: Estimate, now: float, wall: float = 0.0
) -> Picture:
    """Return what to draw of a run; `since` is when each task was begun, on the same clock as `now`; `wall` is the time of day."""
    return Picture(
        goal=state.plan.goal,
        done=state.settled_count,
        tasks=len(state.tasks),
        failed=len(state.failed) + sum(state.abandoned.values()),
        working=tuple(_working(state, task, since.get(task.id, now)) for task in state.active.values()),
        queue=(*(f"{name} merging" for name in state.landing), *(f"{name} ready" for name in _ready(state))),
        tokens=state.row.tokens,
        cost_usd=state.row.cost_usd,
        estimate=estimate,
        outages=tuple(outages(state)),
        wall_offset=wall - now,
    )


def estimate_of(state: RunState, now: float) -> Estimate:
    """Return what the finished tasks of a run tell about the others. The cost grows with the plan."""
    rows = state.tasks.values()
    measured = [row.worked_s for row in rows if row.merge_commit and row.worked_s > 0]
    left = {
        row.id: 1.0 - (reported_progress(row) or 0.0) / 100
        for row in rows
        if row.status not in TASK_IS_OVER and not row.latest.head
    }
    typical = sum(measured) / len(measured) if measured else None
    return Estimate(typical, time_to_finish(state.plan, state.jobs, left, measured), now)


def picture_lines(picture: Picture, width: int, height: int, now: float) -> Iterator[Text]:
    """Yield the lines of a frame. They leave the other half of the screen to what happened."""
    if not picture.tasks:
        return
    yield Text(one_line(picture.goal, width), style="bold")
    yield _run_line(picture, width, now)
    for name, parked, probe in picture.outages:
        words = outage_words(name, parked, now + picture.wall_offset, probe)
        yield Text(one_line(words, width), style="yellow")
    room = max(1, height // 2 - 2 - bool(picture.queue) - len(picture.outages))
    shown = len(picture.working) if len(picture.working) <= room else max(room - 1, 0)
    name_width = min(_NAME_MAX, width // 3, max((len(one.task) for one in picture.working), default=0))
    told = any(one.share is not None for one in picture.working)
    for one in picture.working[:shown]:
        yield _task_line(one, picture.estimate, name_width, width, now, told=told)
    if hidden := len(picture.working) - shown:
        yield Text(f"+ {hidden} more at work" if shown else f"{count(hidden, 'task')} at work", style="dim")
    if picture.queue:
        yield Text(one_line("merge queue: " + ", ".join(picture.queue), width), style="dim")


def _run_line(picture: Picture, width: int, now: float) -> Text:
    line = progress_bar(picture.done / picture.tasks, 10 if width < _NARROW else 24, "green")
    line.append(f" {picture.done} of {picture.tasks} done")
    if picture.failed:
        line.append(f", {picture.failed} failed", style="red")
    if picture.estimate.left_s is not None:
        left = picture.estimate.left_s - (now - picture.estimate.made)
        # An estimate that has passed was wrong; nothing is better than "0s left" for an hour.
        line.append(f", about {_whole(left)} left" if left >= 1 else "")
    if used := used_words(picture.tokens, picture.cost_usd):
        line.append(f", {used}", style="dim")
    return _fitted(line, width)


def _task_line(
    one: WorkingTask, estimate: Estimate, name_width: int, width: int, now: float, *, told: bool
) -> Text:
    """Return a task's name, bar, time and what it does now. A narrow screen shows no agent, a wide one the cost.

    `told`: some task's agent reports how far it is, so there is a column for that.
    """
    lasted = max(0.0, now - one.since)
    line = Text(f"{shortened(one.task, name_width):<{name_width}} ")
    line.append_text(progress_bar(_share(one, estimate, lasted), 6 if width < _NARROW else 10, "cyan"))
    if told and width >= _NARROW:
        line.append(f" {percent(None if one.share is None else round(one.share * 100)):>5}")
    line.append(f" {_whole(lasted):>6} ", style="dim")
    if width >= _NARROW:
        line.append(f"{one_line(one.agent, 12)}{f' #{one.attempt}' if one.attempt > 1 else ''} ", style="dim")
    if width >= _WIDE and (used := used_words(one.tokens, one.cost_usd)):
        line.append(f"{used} ", style="dim")
    doing = "checking" if one.checking else one.trouble or one.doing or "working"
    line.append(one_line(doing), style="yellow" if one.trouble and not one.checking else "")
    return _fitted(line, width)


def _share(one: WorkingTask, estimate: Estimate, lasted: float) -> float:
    """Return how far a task is: as its agent says, else by its time against that of a finished task."""
    if one.checking:
        return 1.0
    if one.share is not None:
        return one.share
    return min(lasted / estimate.task_s, _SURE_MAX) if estimate.task_s else 0.0


def progress_bar(share: float, width: int, style: str) -> Text:
    """Return a bar that is full to a share between 0 and 1."""
    full = round(max(0.0, min(share, 1.0)) * width)
    return Text.assemble(("━" * full, style), ("╌" * (width - full), "bright_black"))


def _fitted(line: Text, width: int) -> Text:
    line.truncate(width, overflow="ellipsis")
    return line


def _whole(seconds: float) -> str:
    return duration(max(1.0, seconds)) if seconds >= 0.5 else "0s"


def used_words(tokens: int, cost_usd: float) -> str:
    """Return what was used, as far as agents say: `12.3k tokens, $0.42`."""
    short = next(
        (f"{tokens / size:.3g}{unit}" for size, unit in ((1e6, "M"), (1e3, "k")) if tokens >= size),
        str(tokens),
    )
    parts = (f"{short} tokens" if tokens else "", money(cost_usd) if cost_usd else "")
    return ", ".join(part for part in parts if part)


def _working(state: RunState, task: TaskRow, since: float) -> WorkingTask:
    reported = reported_progress(task)
    return WorkingTask(
        task=task.id,
        checking=task.status is TaskStatus.VERIFYING,
        attempt=task.attempt,
        agent=task.latest.agent or agent_of(state.plan, state.specs[task.id]),
        share=None if reported is None else reported / 100,
        since=since,
        doing=task.latest.activity,
        trouble=_TROUBLES.get(task.latest.trouble, ""),
        tokens=task.tokens,
        cost_usd=task.cost_usd,
    )


def _ready(state: RunState) -> Iterator[str]:
    """Yield the verified tasks in their order. Only the queue is read, so the cost does not grow with the plan."""
    for number, name in sorted(set(state.merge_queue)):
        task = state.tasks[name]
        # The queue drops stale entries later.
        if task.status is TaskStatus.VERIFIED and task.queue_number == number:
            yield name
