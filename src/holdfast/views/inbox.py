"""What waits for a person in a run, oldest first: questions, tasks taken, what is blocked, failed, or ready to land."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec

from holdfast.core import events as ev
from holdfast.core.budgets import run_overrun
from holdfast.core.event_codec import Recorded
from holdfast.core.people import waits_for_person
from holdfast.core.state import RunState
from holdfast.core.status import RUN_IS_OVER, RunStatus, TaskStatus
from holdfast.reporting.run_ending import INTERRUPTED
from holdfast.views.actions import ActionView, run_actions, task_actions
from holdfast.views.status import StatusView, TaskView
from holdfast.views.text import one_line, timestamp

_WORDS_CHARS = 300
_BEGINS_WAIT = (
    ev.QuestionAsked,
    ev.TaskTaken,
    ev.TaskHandedOver,
    ev.AttemptBlocked,
    ev.VerificationBlocked,
    ev.TaskAbandoned,
)
"""The events after which a task may wait for a person."""

NeedKind = Literal["question", "taken", "interrupted", "blocked", "gate", "budget", "failed", "land"]


class InboxItem(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that waits for a person, and what can be done about it. `task` is null if it is about the whole run.

    `repository` is the name under which it is served; empty where there is only one.
    """

    run: str
    goal: str
    kind: NeedKind
    since: str
    words: str
    actions: tuple[ActionView, ...]
    task: str | None = None
    repository: str = ""


class WaitTimes:
    """Since when each task and stage of a run has waited, by its events. It takes them in as they come."""

    def __init__(self) -> None:
        self.seen = 0
        self._since: dict[str, float] = {}

    def take_in(self, recorded: Iterable[Recorded]) -> None:
        """Note what events say; those that were taken in before are skipped."""
        for record in recorded:
            if record.seq <= self.seen:
                continue
            self.seen = record.seq
            if isinstance(record.event, _BEGINS_WAIT):
                self._since[record.event.task] = record.at
            elif isinstance(record.event, ev.StageGateFailed):
                self._since[f"@{record.event.stage}"] = record.at

    def of_task(self, task: str, otherwise: float) -> str:
        """Return since when a task has waited."""
        return timestamp(self._since.get(task, otherwise))

    def of_stage(self, stage: str, otherwise: float) -> str:
        """Return since when a stage has waited. No task has a name that begins like its key."""
        return timestamp(self._since.get(f"@{stage}", otherwise))


def needs_events(state: RunState) -> bool:
    """Tell whether something of a run waits whose time only the events know."""
    return any(row.status in (TaskStatus.BLOCKED, TaskStatus.ABANDONED) for row in state.tasks.values())


def inbox_of(state: RunState, view: StatusView, times: WaitTimes, updated_at: float) -> list[InboxItem]:
    """Return what waits for a person in a run, oldest first. `updated_at` is when something happened last in it."""
    return sorted(_items(state, view, times, updated_at), key=lambda item: item.since)


def _items(state: RunState, view: StatusView, times: WaitTimes, updated_at: float) -> Iterator[InboxItem]:
    run = view.run
    if run.status in RUN_IS_OVER:
        yield from _result(state, view)
        return
    for task in view.tasks:
        if (kind := _kind_of(state, task)) is not None:
            yield InboxItem(
                run=run.id,
                goal=run.goal,
                task=task.id,
                kind=kind,
                since=times.of_task(task.id, updated_at),
                words=one_line(task.question or task.error or task.status, _WORDS_CHARS),
                actions=task_actions(state, task.id, run),
            )
    for stage in view.stages:
        if stage.gate:
            words = f"the {stage.gate} check of stage {stage.id} failed: {stage.error}"
            yield _of_run(state, view, "gate", times.of_stage(stage.id, updated_at), words)
    yield from _rest(state, view)


def _kind_of(state: RunState, task: TaskView) -> NeedKind | None:
    row = state.tasks[task.id]
    if task.question:
        return "question"
    if row.status is TaskStatus.ABANDONED:
        return "failed"
    if row.status is not TaskStatus.BLOCKED or (row.taken is not None and row.taken.given):
        return None
    return "taken" if waits_for_person(row) else "blocked"


def _rest(state: RunState, view: StatusView) -> Iterator[InboxItem]:
    """Yield what a run at rest waits for as a whole. Who stopped or paused it knows that."""
    run = view.run
    if run.held_by:
        return
    if run.ending in INTERRUPTED:
        yield _of_run(state, view, "interrupted", run.last_sign_at, run.detail)
    elif run.status is RunStatus.BLOCKED and run_overrun(state):
        yield _of_run(state, view, "budget", run.updated_at, run.detail)
    elif run.status is RunStatus.BLOCKED and not _is_told(state, view):
        words = run.detail or "nothing is in its way any more; it waits to be resumed"
        yield _of_run(state, view, "blocked", run.updated_at, words)


def _is_told(state: RunState, view: StatusView) -> bool:
    """Tell whether something of the run is an item by itself, which says more than that it is blocked."""
    return any(_kind_of(state, task) for task in view.tasks) or any(stage.gate for stage in view.stages)


def _result(state: RunState, view: StatusView) -> Iterator[InboxItem]:
    run, row = view.run, state.row
    waits = run.status is RunStatus.COMPLETED and not (run.landed_in or run.archived_at or run.branch_removed)
    if waits and row.tip != row.base:
        landed = f"{view.metrics.completed} of {view.metrics.tasks} landed on {run.branch}"
        yield _of_run(state, view, "land", run.updated_at, f"completed: {landed}")


def _of_run(state: RunState, view: StatusView, kind: NeedKind, since: str, words: str) -> InboxItem:
    return InboxItem(
        run=view.run.id,
        goal=view.run.goal,
        kind=kind,
        since=since,
        words=one_line(words or view.run.status, _WORDS_CHARS),
        actions=run_actions(state, view),
    )
