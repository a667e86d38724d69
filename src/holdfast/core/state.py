"""The state of a run: a fold over its events, with indexes that keep every decision cheap.

`apply` is the only way state changes. The stored rows are in `projection.py`. `task_transitions.py` and
`run_transitions.py` say which event may happen in which status and what it changes. The queues here follow
from the rows and are never stored; `decide.py` explains them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from heapq import heappop, heappush
from typing import Any

import msgspec

from holdfast.core import events as ev
from holdfast.core.amended_rows import amend_stages, amend_task, require_amendable, terms_of
from holdfast.core.people import waits_for_person
from holdfast.core.plan import AgentProvider, Limits, Plan, Stage, Task
from holdfast.core.projection import RunRow, StageRow, TaskRow
from holdfast.core.run_transitions import apply_to_run, apply_to_stage, first_row
from holdfast.core.status import TASK_IS_SETTLED, StageStatus, TaskStatus
from holdfast.core.task_transitions import (
    TASK_EVENTS,
    IllegalEventError,
    TaskRule,
    allowed_move,
    began_too_recently,
    first_task_row,
)

_MOVES_COMPLETION = frozenset({ev.StageClosed, ev.StageGateWaived, ev.StageRewound})
"""The events after which other stages may be complete: only then the stages are indexed again."""
_ENDS_EXIT_GATE = frozenset({ev.StageClosed, ev.StageGateFailed, ev.StageGateWaived})
"""The events after which a stage is looked at again: a task of it may have been reset while its gate was checked."""
_TAKES_WORKSPACE = frozenset({ev.AttemptStarted, ev.VerificationRestarted})
"""The events by which a task gets a workspace: only if it may start."""
_WORK_MAY_WAIT = frozenset(TASK_EVENTS[ev.VerificationRestarted].moves)

_RESTS = frozenset({TaskStatus.PENDING, TaskStatus.FAILED, TaskStatus.WAITING_LIMIT})
"""In these statuses a task would be tried again. One that needs a person is blocked instead."""


class RunState:
    """One run in memory. Cost per event does not depend on how many tasks are finished.

    The runner may change `jobs`, the budgets, `providers`, `native_resume` and what to do about the base; none of these is stored.
    """

    def __init__(self, plan: Plan, row: RunRow, tasks: Iterable[TaskRow] = ()) -> None:
        self.row = row
        self.jobs = plan.limits.jobs
        self.tokens_max = plan.limits.tokens
        self.cost_max = plan.limits.cost_usd
        self.selected: frozenset[str] | None = None
        self.providers: Mapping[str, AgentProvider] = {}
        self.native_resume = False
        self.accepts_base = False
        self.skips_base_check = False
        self._take_plan(plan)
        self.tasks: dict[str, TaskRow] = {name: first_task_row(row, name) for name in self.names}
        self.tasks.update((task.id, task) for task in tasks)
        self.changed: dict[str, TaskRow] = {}
        self._index_plan()
        self._index_state()

    def _take_plan(self, plan: Plan) -> None:
        self.plan = plan
        self.stages: dict[str, Stage] = {stage.id: stage for stage in plan.stages}
        self.specs: dict[str, Task] = {task.id: task for _, task in plan.tasks()}
        self.stage_of: dict[str, str] = {task.id: stage.id for stage, task in plan.tasks()}
        self.names = list(self.specs)
        self.order: dict[str, int] = {name: place for place, name in enumerate(self.names)}

    def _index_plan(self) -> None:
        self.dependents: dict[str, list[str]] = {}
        self.interface_dependents: dict[str, list[str]] = {}
        for task in self.specs.values():
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
        self.awaiting_restart: dict[str, TaskRow] = {}
        self.landing: dict[str, TaskRow] = {}
        self._queues = {
            TaskStatus.RUNNING: self.active,
            TaskStatus.VERIFYING: self.active,
            TaskStatus.WAITING_LIMIT: self.on_hold,
            TaskStatus.BLOCKED: self.on_hold,
            TaskStatus.FAILED: self.failed,
            TaskStatus.MERGING: self.landing,
        }
        self.merge_queue: list[tuple[int, str]] = []
        self.ready: dict[str, list[int]] = {stage: [] for stage in self.stages}
        self.open_needs: dict[str, int] = {
            name: len(spec.needs) + len(spec.needs_interface) for name, spec in self.specs.items()
        }
        self.released: set[str] = set()
        self.unsettled: dict[str, int] = dict.fromkeys(self.stages, 0)
        self.abandoned: dict[str, int] = dict.fromkeys(self.stages, 0)
        self.settled_count = 0
        self._index_stages()
        for name, task in self.tasks.items():
            self.unsettled[self.stage_of[name]] += 1
            self._enter(task)

    # -- queries --------------------------------------------------------------------------------------------

    def stage(self, stage: str) -> StageRow:
        """Return the row of a stage."""
        return self.row.stages[stage]

    def checks_of(self, task: str) -> tuple[str, ...]:
        """Return the commands that verify a task, the plan's own first."""
        return self.plan.verify + self.specs[task].verify

    def plan_as_run(self, plan: Plan | None = None) -> Plan:
        """Return the plan, or one that it would get, with the agents that people chose for single tasks.

        This is what the user agrees to.
        """
        plan = plan or self.plan
        chosen = {name: row.agent for name, row in self.tasks.items() if row.agent}
        if not chosen:
            return plan
        stages = tuple(
            msgspec.structs.replace(
                stage,
                tasks=tuple(
                    task if task.run else msgspec.structs.replace(task, agent=chosen.get(task.id, task.agent))
                    for task in stage.tasks
                ),
            )
            for stage in plan.stages
        )
        return msgspec.structs.replace(plan, stages=stages)

    def limits_of(self, task: str) -> Limits:
        """Return the bounds of a task: the run's, with the task's own number of attempts if it has one."""
        attempts = self.specs[task].attempts
        limits = self.plan.limits
        return limits if attempts is None else msgspec.structs.replace(limits, attempts=attempts)

    def starts_clean(self, task: TaskRow) -> bool:
        """Tell whether the attempt after a task's latest one starts without its work, if that one is cut short."""
        return self.plan.resume_mode(self.specs[task.id], task.latest.agent) == "clean"

    def starts_clean_if_lost(self, task: TaskRow) -> bool:
        """Tell the same for an attempt that is lost by accident: one that has only begun is not continued, either."""
        return self.starts_clean(task) or began_too_recently(task, self.plan.limits)

    def carry_or_set_aside(self, task: TaskRow, commit: str, *, lost: bool = False) -> tuple[str, str]:
        """Return what the next attempt continues from, and what it starts without: one is `commit`, one is empty.

        `commit` has the work of the task's latest attempt, which was cut short, or whose landing is gone: with that work
        in place, a command would have its effect twice.
        """
        clean = self.starts_clean_if_lost(task) if lost else self.starts_clean(task)
        return ("", commit) if clean else (commit, "")

    def is_startable(self, task: TaskRow) -> bool:
        """Tell whether an attempt at the task may begin: its stage is open and its needs are met."""
        return self.stage(self.stage_of[task.id]).status is StageStatus.RUNNING and self.needs_met(task)

    def needs_met(self, task: TaskRow) -> bool:
        """Tell whether the tasks and the stages that the task builds on have landed."""
        return self.open_needs[task.id] == 0 and self.stage_of[task.id] in self.current_stages

    def may_land(self, task: TaskRow) -> bool:
        """Tell whether all tasks below it have landed, even those whose interface was enough to start."""
        below = self.specs[task.id].needs_interface
        return self.needs_met(task) and all(self.tasks[name].status in TASK_IS_SETTLED for name in below)

    def take_changed(self) -> list[TaskRow]:
        """Return the rows that events changed since the last call: what the journal must store."""
        changed = list(self.changed.values())
        self.changed.clear()
        return changed

    # -- applying events ------------------------------------------------------------------------------------

    def apply(self, event: ev.Event) -> None:
        """Change the state by one event; raise IllegalEventError, changing nothing, if it may not happen now."""
        rule = TASK_EVENTS.get(type(event))
        if rule is not None:
            self._apply_to_task(rule, event)
        elif isinstance(event, ev.StageEvent):
            self._apply_to_stage(event)
        elif type(event) is ev.PlanAmended:
            self._amend(event)
        else:
            apply_to_run(self.row, event)

    def apply_all(self, events: Iterable[ev.Event]) -> list[ev.Event]:
        """Apply events one by one and return them. Later ones may be computed from the new state."""
        applied = []
        for event in events:
            self.apply(event)
            applied.append(event)
        return applied

    def apply_possible(self, events: Iterable[ev.Event]) -> tuple[list[ev.Event], IllegalEventError | None]:
        """Apply those that may still happen; return them, and the last error if there are others."""
        applied, refused = [], None
        for event in events:
            try:
                self.apply(event)
            except IllegalEventError as error:
                refused = error
            else:
                applied.append(event)
        return applied, refused

    def _amend(self, event: ev.PlanAmended) -> None:
        """Take another plan. Rows of tasks that stay are kept; all queues are built anew."""
        before, plan = self.plan, event.plan
        dropped = require_amendable(self.tasks, plan)
        terms = {name: terms_of(before, spec) for name, spec in self.specs.items()}
        apply_to_run(self.row, event)
        numbers = {**self.row.dropped, **{row.id: row.attempt for row in dropped if row.attempt}}
        self._take_plan(plan)
        known = self.tasks
        self.tasks = {
            name: known.get(name) or TaskRow(id=name, attempt=numbers.pop(name, 0)) for name in self.names
        }
        self.row.dropped = numbers
        self.selected = None if self.selected is None else self.selected.intersection(self.names)
        for name in self.names:
            if name in terms:
                now = terms_of(plan, self.specs[name])
                amend_task(self.tasks[name], terms[name], now, restart=name in event.restarted)
        amend_stages(self.row, before, plan)
        self._take_limits(before.limits, plan.limits)
        self._index_plan()
        self._index_state()
        for name, stage in self.row.stages.items():
            if self.unsettled[name]:
                self._reopen(stage)
        self.changed = dict(self.tasks)  # their places in the plan are others now

    def _take_limits(self, before: Limits, now: Limits) -> None:
        """Take the bounds that changed. Those that did not may have been set for this session."""
        self.jobs = self.jobs if now.jobs == before.jobs else now.jobs
        self.tokens_max = self.tokens_max if now.tokens == before.tokens else now.tokens
        self.cost_max = self.cost_max if now.cost_usd == before.cost_usd else now.cost_usd

    def _apply_to_stage(self, event: ev.StageEvent) -> None:
        apply_to_stage(self.row, event)
        if type(event) in _MOVES_COMPLETION:
            self._index_stages()
        if type(event) in _ENDS_EXIT_GATE and self.unsettled[event.stage]:
            self._reopen(self.stage(event.stage))

    def _apply_to_task(self, rule: TaskRule, event: Any) -> None:
        task = self.tasks.get(event.task)
        if task is None:
            raise IllegalEventError(f"{type(event).__name__}: task {event.task} is not in the plan")
        status = allowed_move(rule, task, event)
        if type(event) in _TAKES_WORKSPACE and not self.is_startable(task):
            raise IllegalEventError(f"{type(event).__name__}: the needs of task {task.id} are not met")
        if type(event) is ev.TaskTaken and not self.needs_met(task):
            raise IllegalEventError(f"TaskTaken: the needs of task {task.id} are not met")
        self.changed[task.id] = task
        if rule.keeps_queues:
            rule.fold(self.row, self.plan.limits, task, event)
            return
        self._leave(task)
        task.status = status
        rule.fold(self.row, self.plan.limits, task, event)
        if task.status in _RESTS and waits_for_person(task):
            task.status = TaskStatus.BLOCKED
        self._enter(task)

    def _leave(self, task: TaskRow) -> None:
        """Take a task out of the queues of its status. Heaps drop stale entries when they come up."""
        name, status = task.id, task.status
        self.awaiting_restart.pop(name, None)
        queue = self._queues.get(status)
        if queue is not None:
            del queue[name]
            self.awaiting_checks.pop(name, None)
        elif status is TaskStatus.PENDING:
            self.tried_before.pop(name, None)
        elif status is TaskStatus.ABANDONED:
            self.abandoned[self.stage_of[name]] -= 1
        elif status in TASK_IS_SETTLED:
            self._settle(name, settled=False)
            self._reopen(self.stage(self.stage_of[name]))

    def _enter(self, task: TaskRow) -> None:
        """Put a task into the queues of its status."""
        name, status = task.id, task.status
        if task.recheck and status in _WORK_MAY_WAIT:
            self.awaiting_restart[name] = task
        queue = self._queues.get(status)
        if queue is not None:
            queue[name] = task
            if status is TaskStatus.VERIFYING and not task.latest.checking:
                self.awaiting_checks[name] = task
        elif status is TaskStatus.VERIFIED:
            heappush(self.merge_queue, (task.queue_number, name))
        elif status is TaskStatus.ABANDONED:
            self.abandoned[self.stage_of[name]] += 1
        elif status in TASK_IS_SETTLED:
            self._settle(name, settled=True)
        elif status is TaskStatus.PENDING:
            if (task.crash_count or task.charged or task.tokens or task.cost_usd) and not task.recheck:
                self.tried_before[name] = task
            if self.open_needs[name] == 0 and not task.recheck:
                self._push_ready(name)
        if name in self.interface_dependents:
            self._note_interface(task)

    def _settle(self, name: str, *, settled: bool) -> None:
        """Count a task as settled or not settled, and release or hold back the tasks that need it."""
        step = 1 if settled else -1
        self.unsettled[self.stage_of[name]] -= step
        self.settled_count += step
        self._release(self.dependents.get(name, ()), step)

    def _note_interface(self, task: TaskRow) -> None:
        """Release, or hold back again, the tasks that wait for this one's interface rather than its landing."""
        known = bool(task.interfaces) or task.status in TASK_IS_SETTLED
        if known != (task.id in self.released):
            (self.released.add if known else self.released.discard)(task.id)
            self._release(self.interface_dependents[task.id], 1 if known else -1)

    def _release(self, dependents: Iterable[str], step: int) -> None:
        for name in dependents:
            self.open_needs[name] -= step
            task = self.tasks[name]
            if self.open_needs[name] == 0 and task.status is TaskStatus.PENDING and not task.recheck:
                self._push_ready(name)

    def _reopen(self, stage: StageRow) -> None:
        """A stage is only as complete as its tasks: if one is to be done again, the exit gate proves nothing.

        A gate that is being checked is left to end first: at that moment the stage is looked at again.
        """
        if stage.status is StageStatus.COMPLETED or (
            stage.status is StageStatus.BLOCKED and stage.gate == "exit"
        ):
            stage.status = StageStatus.RUNNING
            stage.error = stage.detail = ""
            stage.waived = tuple(gate for gate in stage.waived if gate != "exit")
            self._index_stages()

    # -- the queues that decisions read ---------------------------------------------------------------------

    def select(self, selected: frozenset[str]) -> None:
        """Start attempts at these tasks only; the rest of the run stays as it is."""
        self.selected = selected
        self.ready = {
            stage: sorted(place for place in heap if self.names[place] in selected)
            for stage, heap in self.ready.items()
        }

    def ready_tasks(
        self, stage: str, most: int, may: Callable[[TaskRow], bool] | None = None
    ) -> list[TaskRow]:
        """Return up to `most` tasks of a stage that may start, in plan order; drop stale entries.

        Tasks that `may` refuses keep their place.
        """
        heap = self.ready[stage]
        chosen: dict[int, TaskRow] = {}
        refused: set[int] = set()
        while heap and len(chosen) < most:
            place = heappop(heap)
            task = self.tasks[self.names[place]]
            if task.status is not TaskStatus.PENDING or task.recheck or self.open_needs[task.id]:
                continue
            if may is None or may(task):
                chosen[place] = task
            else:
                refused.add(place)
        for place in (*chosen, *refused):
            heappush(heap, place)
        return list(chosen.values())

    def next_to_land(self, most: int) -> list[TaskRow]:
        """Return up to `most` verified tasks in the order in which they were verified; drop stale entries.

        A task whose needs are no longer met keeps its place and waits.
        """
        chosen: dict[str, TaskRow] = {}
        waiting: dict[str, TaskRow] = {}
        while self.merge_queue and len(chosen) < most:
            number, name = heappop(self.merge_queue)
            task = self.tasks[name]
            if task.status is TaskStatus.VERIFIED and task.queue_number == number:
                (chosen if self.may_land(task) else waiting)[name] = task
        for task in (*chosen.values(), *waiting.values()):
            heappush(self.merge_queue, (task.queue_number, task.id))
        return list(chosen.values())

    def _push_ready(self, name: str) -> None:
        if self.selected is None or name in self.selected:
            heappush(self.ready[self.stage_of[name]], self.order[name])

    def _index_stages(self) -> None:
        """Recompute which stages are in play: not complete, and everything they need is."""
        done = {name for name, row in self.row.stages.items() if row.status is StageStatus.COMPLETED}
        self.current_stages = {
            name: None
            for name, stage in self.stages.items()
            if name not in done and done.issuperset(stage.needs)
        }


def replay(plan: Plan, events: Iterable[ev.Event]) -> RunState:
    """Fold a run's whole history. What the journal stores beside the events must equal this."""
    remaining = iter(events)
    first = next(remaining, None)
    if not isinstance(first, ev.RunStarted):
        raise IllegalEventError("a run's history begins with RunStarted")
    state = RunState(plan, first_row(first))
    state.apply_all(remaining)
    return state
