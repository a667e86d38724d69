"""A run as its page shows it: the status, what can be done, what waits, how long it may take, and what changed since before."""

from __future__ import annotations

import msgspec

from holdfast.core.state import RunState
from holdfast.core.status import TASK_IS_OVER
from holdfast.journal.protocol import StoredRun
from holdfast.reporting.displayed_status import reported_progress
from holdfast.reporting.estimates import time_to_finish
from holdfast.reporting.needs_you import NeedOfTask
from holdfast.reporting.spending import AgentSpending
from holdfast.views.actions import ActionView, next_action, run_actions
from holdfast.views.inbox import InboxItem, WaitTimes, inbox_of
from holdfast.views.providers import ProviderView
from holdfast.views.status import MetricsView, QueueView, RunView, StageView, StatusView, TaskView
from holdfast.views.told_events import ToldEvent


class TimeLeft(msgspec.Struct, frozen=True, kw_only=True):
    """How long the agents of a run may still need; null if nothing was measured yet."""

    left_s: float | None


class RunNow(msgspec.Struct, frozen=True, kw_only=True):
    """A run as of event `seq`; `last_seq` is its newest. `events` are those since the event that was asked for, if one was."""

    seq: int
    last_seq: int
    status: StatusView
    actions: tuple[ActionView, ...]
    next: ActionView | None
    estimate: TimeLeft
    inbox: tuple[InboxItem, ...] = ()
    events: tuple[ToldEvent, ...] = ()


class RunChange(msgspec.Struct, frozen=True, kw_only=True):
    """What changed up to event `seq`: of stages and tasks only those that did, of everything else all; and the new events."""

    seq: int
    run: RunView
    stages: tuple[StageView, ...]
    tasks: tuple[TaskView, ...]
    merge_queue: tuple[QueueView, ...]
    metrics: MetricsView
    needs_you: tuple[NeedOfTask, ...]
    agents: tuple[AgentSpending, ...]
    way_out: str | None
    providers: tuple[ProviderView, ...]
    actions: tuple[ActionView, ...]
    next: ActionView | None
    estimate: TimeLeft
    inbox: tuple[InboxItem, ...]
    events: tuple[ToldEvent, ...]


def run_now(stored: StoredRun, status: StatusView, times: WaitTimes, repository: str) -> RunNow:
    """Return a run as its page shows it."""
    state = stored.state()
    waiting = inbox_of(state, status, times, stored.updated_at)
    return RunNow(
        seq=stored.last_seq,
        last_seq=stored.last_seq,
        status=status,
        actions=run_actions(state, status),
        next=next_action(state, status),
        estimate=TimeLeft(left_s=_time_left(state)),
        inbox=tuple(msgspec.structs.replace(item, repository=repository) for item in waiting),
    )


def run_then(now: StoredRun, status: StatusView, last_seq: int) -> RunNow:
    """Return a run as it was at an earlier event: nothing can be done about that any more."""
    return RunNow(
        seq=now.last_seq,
        last_seq=last_seq,
        status=status,
        actions=(),
        next=None,
        estimate=TimeLeft(left_s=_time_left(now.state())),
    )


def change_between(before: RunNow, after: RunNow, events: tuple[ToldEvent, ...]) -> RunChange | None:
    """Return what changed; None if the plan did, so that the whole is to be told again."""
    old, new = before.status, after.status
    if [task.id for task in old.tasks] != [task.id for task in new.tasks]:
        return None
    if [stage.id for stage in old.stages] != [stage.id for stage in new.stages]:
        return None
    return RunChange(
        seq=after.seq,
        run=new.run,
        stages=tuple(now for was, now in zip(old.stages, new.stages, strict=True) if was != now),
        tasks=tuple(now for was, now in zip(old.tasks, new.tasks, strict=True) if was != now),
        merge_queue=new.merge_queue,
        metrics=new.metrics,
        needs_you=new.needs_you,
        agents=new.agents,
        way_out=new.way_out,
        providers=new.providers,
        actions=after.actions,
        next=after.next,
        estimate=after.estimate,
        inbox=after.inbox,
        events=events,
    )


def _time_left(state: RunState) -> float | None:
    """Return how long agents may still need, by the tasks that have landed in this run."""
    open_tasks = [row for row in state.tasks.values() if row.status not in TASK_IS_OVER]
    left = {row.id: 1.0 - (reported_progress(row) or 0.0) / 100 for row in open_tasks if not row.latest.head}
    measured = [row.worked_s for row in state.tasks.values() if row.merge_commit and row.worked_s > 0]
    return time_to_finish(state.plan, state.jobs, left, measured)
