"""Ticks the points of landed tasks in the list that a plan was made from. Never delays or fails the run.

The user's word for it is `tick` in the plan, `run --tick` or `holdfast tick`: else the checkout is not touched. A point that
was ticked is recorded, so that nobody's later decision about it is overruled. A kill before that only means that it is looked
at once more: a tick is done once, and finding it there is as good.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

from holdfast.core import events as ev
from holdfast.core.plan import ListKind, Task, TaskList
from holdfast.core.state import RunState
from holdfast.core.status import TaskStatus
from holdfast.errors import HoldfastError
from holdfast.formats.lists import tick
from holdfast.journal.lease import holder
from holdfast.journal.protocol import Journal
from holdfast.repo.repository import Repository
from holdfast.repo.shared_file import change_file
from holdfast.runner.context import RunContext
from holdfast.runner.effect_errors import error_text

_CAUSES = (ev.TaskLanded, ev.LandingReplaced, ev.RunnerAttached, ev.TickingStarted)
_FILES_MAX = 2_000
_POINT_CHARS = 60


def _landed_unticked(state: RunState) -> list[Task]:
    """Return the landed tasks whose points were not ticked yet."""
    landed = (row for row in state.tasks.values() if row.status is TaskStatus.COMPLETED and not row.ticked)
    return [state.specs[row.id] for row in landed if state.specs[row.id].points]


def tick_landed(repo: Repository, state: RunState, *, asked: bool = False) -> list[ev.Event]:
    """Tick what landed in a run without a runner; return an event for each task. Idempotent.

    `asked`: the user asks for it now, whatever the run's own setting is.
    """
    listed = state.plan.task_list if asked else state.plan.ticked_list(state.row.ticking)
    return _tick_points(repo, state.row.run, listed, _landed_unticked(state)) if listed else []


def make_up_ticks(repo: Repository, journal: Journal, run: str, *, asked: bool = False) -> list[ev.Event]:
    """Tick what a runner that was killed left unticked, and record it. The caller holds the run's lease."""
    state = journal.load(run).state()
    events = tick_landed(repo, state, asked=asked)
    if ticked := state.apply_all(event for event in events if isinstance(event, ev.PointsTicked)):
        epoch = journal.take_epoch(run, holder(repo.state_dir.run(run).lease))
        journal.append(run, epoch, ticked, state.row, state.take_changed(), time.time())
    return events


def _tick_points(repo: Repository, run: str, listed: TaskList, tasks: Sequence[Task]) -> list[ev.Event]:
    """Tick the points of these tasks in the files of a list. An error becomes an event: it must not reach the run."""
    if not tasks:
        return []
    problems = _tick_files(repo, run, listed, [point for task in tasks for point in task.points])
    events: list[ev.Event] = []
    for task in tasks:
        failed = [f"{_short(point)}: {problems[point]}" for point in task.points if problems[point]]
        events.append(
            ev.TickFailed(task=task.id, error="; ".join(failed)) if failed else ev.PointsTicked(task=task.id)
        )
    return events


def _short(point: str) -> str:
    return point if len(point) <= _POINT_CHARS else f"{point[:_POINT_CHARS].rstrip()}…"


def _tick_files(repo: Repository, run: str, listed: TaskList, points: list[str]) -> dict[str, str]:
    """Tick points wherever they are in a list, and return what prevented each: an empty text if nothing did."""
    missing = f"it is not in {listed.path} any more, or was changed"
    found: dict[str, str] = {}
    drafts = repo.state_dir.run(run).root
    for name in _files(repo.checkout, listed):
        wanted = [point for point in points if point not in found]
        there: dict[str, str] = {}
        try:
            change_file(repo.checkout, name, drafts, partial(_change, listed, wanted, there))
        except (HoldfastError, OSError) as error:
            why = error_text(error)
            there = dict.fromkeys(there, why)
            missing = missing if there else why
        found |= there
    return {point: found.get(point, missing) for point in points}


def _change(listed: TaskList, points: Iterable[str], found: dict[str, str], content: bytes) -> bytes:
    result = tick(listed.kind, listed.tag, content, list(points))
    found.clear()
    found.update(result.found)
    return result.content


def _files(checkout: Path, listed: TaskList) -> list[str]:
    """Return the files of a list: itself, or those of a folder with a file for each task."""
    folder = checkout / listed.path
    if listed.kind is not ListKind.BACKLOG or not folder.is_dir():
        return [listed.path]
    return [f"{listed.path}/{path.name}" for path in sorted(folder.glob("*.md"))[:_FILES_MAX]]


class TickWriter:
    """An observer that ticks points while the loop continues, and once more when the run rests."""

    def __init__(self, context: RunContext, paths: set[str]) -> None:
        """`paths` gets the files of the checkout that are written here."""
        self._context = context
        self._paths = paths
        self._done: set[str] = set()
        self._told: dict[str, str] = {}
        self._stale = False
        self._finished = False
        self._ticking: asyncio.Task[None] | None = None

    def __call__(self, events: Sequence[ev.Event], state: RunState) -> None:
        """Have the points of what landed ticked soon. Returns at once."""
        if self._finished or not any(isinstance(event, _CAUSES) for event in events):
            return
        if state.plan.ticked_list(state.row.ticking) is not None:
            self._stale = True
            if self._ticking is None or self._ticking.done():
                self._ticking = asyncio.ensure_future(self._keep_ticking())

    async def finish(self) -> list[ev.Event]:
        """Tick what is left when the run rests, and return what happened. Idempotent."""
        self._finished = True
        if self._ticking is not None:
            await self._ticking
        self._done.clear()  # what was delivered to the loop may have come too late for it
        return await self._tick()

    async def _keep_ticking(self) -> None:
        while self._stale:
            self._stale = False
            self._context.inbox.deliver(await self._tick())

    async def _tick(self) -> list[ev.Event]:
        """Tick what landed, and return what is new about it."""
        state = self._context.state
        listed = state.plan.ticked_list(state.row.ticking)
        tasks = [task for task in _landed_unticked(state) if task.id not in self._done]
        if listed is None or not tasks:
            return []
        self._paths.update(await asyncio.to_thread(_files, self._context.repo.checkout, listed))
        events = await asyncio.to_thread(_tick_points, self._context.repo, self._context.run, listed, tasks)
        return [event for event in events if self._is_new(event)]

    def _is_new(self, event: ev.Event) -> bool:
        if isinstance(event, ev.PointsTicked):
            self._done.add(event.task)
            return True
        assert isinstance(event, ev.TickFailed)
        is_new = self._told.get(event.task) != event.error
        self._told[event.task] = event.error
        return is_new
