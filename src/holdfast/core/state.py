"""The state of a run: a fold over its events, with indexes that keep every decision cheap.

`apply` is the only way state changes. What is stored (`RunRow`, `TaskRow`) lives in `projection.py`; the queues
here are derived from it and never stored. The law of task statuses is the table in `status.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from heapq import heappop, heappush

import msgspec

from holdfast.core import events as ev
from holdfast.core.plan import AgentProvider, Limits, Plan, Stage, Task
from holdfast.core.projection import RunRow, StageRow, TaskRow
from holdfast.core.run_transitions import apply_to_run, apply_to_stage, first_row
from holdfast.core.status import TASK_IS_SETTLED, StageStatus, TaskStatus
from holdfast.core.transitions import TASK_EVENTS, IllegalEventError, allowed_move

_IN_WORKSPACE = frozenset({TaskStatus.RUNNING, TaskStatus.VERIFYING})
_HELD = frozenset({TaskStatus.WAITING_LIMIT, TaskStatus.BLOCKED})


class RunState:
    """One run in memory. Cost per event does not depend on how many tasks are finished."""

    def __init__(self, plan: Plan, row: RunRow, tasks: Iterable[TaskRow] = ()) -> None:
        self.plan = plan
        self.row = row
        self.jobs = plan.limits.jobs
        self.tokens_max = plan.limits.tokens
        self.cost_max = plan.limits.cost_usd
        self.selected: frozenset[str] | None = None
        self.providers: Mapping[str, AgentProvider] = {}
        self.native_resume = False
        self.specs: dict[str, Task] = {}
        self.stage_of: dict[str, str] = {}
        self.stages: dict[str, Stage] = {stage.id: stage for stage in plan.stages}
        self.order: dict[str, int] = {}
        self.names: list[str] = []
        self.tasks: dict[str, TaskRow] = {}
        self.changed: dict[str, TaskRow] = {}
        self._index_plan()
        for task in tasks:
            self.tasks[task.id] = task
        self._index_state()

    def _index_plan(self) -> None:
        self.dependents: dict[str, list[str]] = {}
        self.interface_dependents: dict[str, list[str]] = {}
        for stage, task in self.plan.tasks():
            self.order[task.id] = len(self.names)
            self.names.append(task.id)
            self.specs[task.id] = task
            self.stage_of[task.id] = stage.id
            self.tasks[task.id] = TaskRow(id=task.id)
            for need in task.needs:
                self.dependents.setdefault(need, []).append(task.id)
            for need in task.needs_interface:
                self.interface_dependents.setdefault(need, []).append(task.id)
        for stage in self.plan.stages:
            self.row.stages.setdefault(stage.id, StageRow(id=stage.id))

    def _index_state(self) -> None:
        """Build every queue from the rows; the same queues that `apply` keeps up to date."""
        self.active: dict[str, TaskRow] = {}
        self.awaiting_checks: dict[str, TaskRow] = {}
        self.failed: dict[str, TaskRow] = {}
        self.on_hold: dict[str, TaskRow] = {}
        self.tried_before: dict[str, TaskRow] = {}
        self.landing: dict[str, TaskRow] = {}
        self.merge_queue: list[tuple[int, str]] = []
        self.ready: dict[str, list[int]] = {stage.id: [] for stage in self.plan.stages}
        self.open_needs: dict[str, int] = {
            name: len(spec.needs) + len(spec.needs_interface) for name, spec in self.specs.items()
        }
        self.released: set[str] = set()
        self.unsettled: dict[str, int] = {stage.id: 0 for stage in self.plan.stages}
        self.abandoned: dict[str, int] = {stage.id: 0 for stage in self.plan.stages}
        self.settled_count = 0
        self._index_stages()
        for name, task in self.tasks.items():
            self.unsettled[self.stage_of[name]] += 1
            self._enter(task)
            if name in self.interface_dependents:
                self._note_interface(task)

    # -- what may be asked ----------------------------------------------------------------------------------

    def stage(self, stage: str) -> StageRow:
        """Return the row of a stage."""
        return self.row.stages[stage]

    def checks_of(self, task: str) -> tuple[str, ...]:
        """Return the commands that verify a task, the plan's own first."""
        return self.plan.verify + self.specs[task].verify

    def limits_of(self, task: str) -> Limits:
        """Return the bounds of a task: the run's, with the task's own number of attempts if it has one."""
        attempts = self.specs[task].attempts
        limits = self.plan.limits
        return limits if attempts is None else msgspec.structs.replace(limits, attempts=attempts)

    def is_startable(self, task: TaskRow) -> bool:
        """Tell whether an attempt at the task may begin: its stage is open and its needs are met."""
        open_now = self.row.stages[self.stage_of[task.id]].status is StageStatus.RUNNING
        return open_now and self.needs_met(task)

    def needs_met(self, task: TaskRow) -> bool:
        """Tell whether all that must land before the task did: the tasks and the stages that it builds on."""
        return self.open_needs[task.id] == 0 and self.stage_of[task.id] in self.current_stages

    def may_land(self, task: TaskRow) -> bool:
        """Tell whether everything below the task has landed: also those whose interface was enough to start."""
        providers = self.specs[task.id].needs_interface
        landed = all(self.tasks[name].status in TASK_IS_SETTLED for name in providers)
        return landed and self.needs_met(task)

    def take_changed(self) -> list[TaskRow]:
        """Return the rows that events changed since the last call: what the journal must store."""
        changed = list(self.changed.values())
        self.changed.clear()
        return changed

    # -- applying events ------------------------------------------------------------------------------------

    def apply(self, event: ev.Event) -> None:
        """Change the state by one event; raise IllegalEventError, changing nothing, if it may not happen now."""
        if isinstance(event, ev.TaskEvent):
            self._apply_to_task(event)
        elif isinstance(event, ev.StageEvent):
            apply_to_stage(self.row, event)
            self._index_stages()
        else:
            apply_to_run(self.row, event)

    def _apply_to_task(self, event: ev.TaskEvent) -> None:
        task = self.tasks.get(event.task)
        if task is None:
            raise IllegalEventError(f"{type(event).__name__}: task {event.task} is not in the plan")
        status = allowed_move(task, event)
        if isinstance(event, ev.AttemptStarted) and not self.is_startable(task):
            raise IllegalEventError(f"AttemptStarted: the needs of task {task.id} are not met")
        self._leave(task)
        task.status = status
        TASK_EVENTS[type(event)].fold(self.row, self.plan.limits, task, event)
        self._enter(task)
        if task.id in self.interface_dependents:
            self._note_interface(task)
        self.changed[task.id] = task

    def _leave(self, task: TaskRow) -> None:
        name, status = task.id, task.status
        if status in _IN_WORKSPACE:
            del self.active[name]
            self.awaiting_checks.pop(name, None)
        elif status is TaskStatus.MERGING:
            del self.landing[name]
        elif status is TaskStatus.FAILED:
            del self.failed[name]
        elif status in _HELD:
            del self.on_hold[name]
        elif status is TaskStatus.PENDING:
            self.tried_before.pop(name, None)
        elif status is TaskStatus.ABANDONED:
            self.abandoned[self.stage_of[name]] -= 1
        elif status in TASK_IS_SETTLED:
            self._unsettle(name)

    def _enter(self, task: TaskRow) -> None:
        name, status = task.id, task.status
        if status in _IN_WORKSPACE:
            self.active[name] = task
            if status is TaskStatus.VERIFYING and not task.latest.checking:
                self.awaiting_checks[name] = task
        elif status is TaskStatus.VERIFIED:
            heappush(self.merge_queue, (task.queue_number, name))
        elif status is TaskStatus.MERGING:
            self.landing[name] = task
        elif status is TaskStatus.FAILED:
            self.failed[name] = task
        elif status in _HELD:
            self.on_hold[name] = task
        elif status is TaskStatus.ABANDONED:
            self.abandoned[self.stage_of[name]] += 1
        elif status in TASK_IS_SETTLED:
            self._settle(name)
        elif status is TaskStatus.PENDING:
            if task.crash_count or task.charged:
                self.tried_before[name] = task
            if self.open_needs[name] == 0:
                self._push_ready(name)

    def _settle(self, name: str) -> None:
        self.unsettled[self.stage_of[name]] -= 1
        self.settled_count += 1
        for dependent in self.dependents.get(name, ()):
            self.open_needs[dependent] -= 1
            if self.open_needs[dependent] == 0 and self.tasks[dependent].status is TaskStatus.PENDING:
                self._push_ready(dependent)

    def _unsettle(self, name: str) -> None:
        self.unsettled[self.stage_of[name]] += 1
        self.settled_count -= 1
        for dependent in self.dependents.get(name, ()):
            self.open_needs[dependent] += 1
        self._reopen(self.row.stages[self.stage_of[name]])

    def _note_interface(self, task: TaskRow) -> None:
        """Release, or hold back again, the tasks that wait for this one's interface rather than its landing."""
        known = bool(task.interfaces) or task.status in TASK_IS_SETTLED
        if known == (task.id in self.released):
            return
        (self.released.add if known else self.released.discard)(task.id)
        for dependent in self.interface_dependents[task.id]:
            self.open_needs[dependent] += -1 if known else 1
            if self.open_needs[dependent] == 0 and self.tasks[dependent].status is TaskStatus.PENDING:
                self._push_ready(dependent)

    def _reopen(self, stage: StageRow) -> None:
        """A stage is only as complete as its tasks: whatever its exit gate said is no longer true."""
        if stage.status in (StageStatus.CLOSING, StageStatus.COMPLETED):
            stage.status = StageStatus.RUNNING
            stage.waived = tuple(gate for gate in stage.waived if gate != "exit")
            self._index_stages()

    # -- the queues that decisions read ---------------------------------------------------------------------

    def select(self, only: frozenset[str]) -> None:
        """Start attempts at these tasks only; the rest of the run stays as it is."""
        self.selected = only
        self.ready = {
            stage: sorted(i for i in heap if self.names[i] in only) for stage, heap in self.ready.items()
        }

    def ready_tasks(
        self, stage: str, most: int, may: Callable[[TaskRow], bool] | None = None
    ) -> list[TaskRow]:
        """Return up to `most` tasks of a stage that may start, in plan order; drop entries gone stale.

        Those that `may` refuses keep their place.
        """
        heap = self.ready[stage]
        chosen: dict[int, TaskRow] = {}
        refused: set[int] = set()
        while heap and len(chosen) < most:
            index = heappop(heap)
            task = self.tasks[self.names[index]]
            if task.status is not TaskStatus.PENDING or self.open_needs[task.id]:
                continue
            if may is None or may(task):
                chosen[index] = task
            else:
                refused.add(index)
        for index in (*chosen, *refused):
            heappush(heap, index)
        return list(chosen.values())

    def next_to_land(self, most: int) -> list[TaskRow]:
        """Return up to `most` verified tasks in the order in which they were verified; drop stale entries.

        A task whose needs were taken back meanwhile keeps its place and waits.
        """
        chosen: dict[str, TaskRow] = {}
        waiting: dict[str, TaskRow] = {}
        while self.merge_queue and len(chosen) < most:
            queued, name = heappop(self.merge_queue)
            task = self.tasks[name]
            if task.status is TaskStatus.VERIFIED and task.queue_number == queued:
                (chosen if self.may_land(task) else waiting)[name] = task
        for task in (*chosen.values(), *waiting.values()):
            heappush(self.merge_queue, (task.queue_number, task.id))
        return list(chosen.values())

    def _push_ready(self, name: str) -> None:
        if self.selected is None or name in self.selected:
            heappush(self.ready[self.stage_of[name]], self.order[name])

    def _index_stages(self) -> None:
        """Recompute which stages are in play: not complete, and everything they need is."""
        stages = self.row.stages
        done = {name for name, row in stages.items() if row.status is StageStatus.COMPLETED}
        self.current_stages = {
            stage.id: None
            for stage in self.plan.stages
            if stage.id not in done and done.issuperset(stage.needs)
        }


def replay(plan: Plan, events: Iterable[ev.Event]) -> RunState:
    """Fold a run's whole history. What the journal stores beside the events must equal this."""
    remaining = iter(events)
    first = next(remaining, None)
    if not isinstance(first, ev.RunStarted):
        raise IllegalEventError("a run's history begins with RunStarted")
    state = RunState(plan, first_row(first))
    for event in remaining:
        state.apply(event)
    return state
