"""User decisions about a run: waive a failed gate, or begin again at a stage or a task.

Pure. Beginning again undoes nothing: landed work stays landed; redoing it takes a new plan of what remains.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from holdfast.core import events as ev
from holdfast.core.plan import Plan, Stage
from holdfast.core.state import RunState
from holdfast.core.status import StageStatus, TaskStatus
from holdfast.errors import HoldfastError, did_you_mean, quoted


def gate_waivers(state: RunState, stages: Sequence[str]) -> list[ev.StageGateWaived]:
    """Return the events that waive the failed gates of these stages. Raises HoldfastError where none failed."""
    hint = f"`holdfast status {state.row.run}` shows which stages are blocked"
    for name in stages:
        if name not in state.stages:
            raise HoldfastError(
                f"there is no stage {quoted(name)}{did_you_mean(name, list(state.stages))}", hint
            )
        if state.stage(name).status is not StageStatus.BLOCKED:
            raise HoldfastError(
                f"no check of stage {name} has failed: the stage is {state.stage(name).status}", hint
            )
    return [ev.StageGateWaived(stage=name, gate=state.stage(name).gate) for name in dict.fromkeys(stages)]


@dataclass(frozen=True, slots=True)
class RewindScope:
    """What is redone: the stages that begin again as a whole, and all the tasks, in plan order."""

    stages: tuple[str, ...]
    tasks: tuple[str, ...]


def rewind_scope(plan: Plan, name: str) -> RewindScope | None:
    """Return what beginning again at a stage or a task covers: itself and everything that builds on it.

    None if the plan has no such stage or task. A stage goes before a task of the same name.
    """
    known = {stage.id for stage in plan.stages} | {task.id for _, task in plan.tasks()}
    if name not in known:
        return None
    stages = {name} & {stage.id for stage in plan.stages}
    tasks = set() if stages else {name}
    before = -1
    while before < len(stages) + len(tasks):
        before = len(stages) + len(tasks)
        for stage in plan.stages:
            if _follows(plan, stage, stages, tasks):
                stages.add(stage.id)
            tasks.update(
                task.id
                for task in stage.tasks
                if stage.id in stages or tasks & {*task.needs, *task.needs_interface}
            )
    return RewindScope(
        tuple(stage.id for stage in plan.stages if stage.id in stages),
        tuple(task.id for _, task in plan.tasks() if task.id in tasks),
    )


def rewind_events(state: RunState, scope: RewindScope) -> list[ev.Event]:
    """Return the events that make a run at rest begin again at `scope`, of which nothing has landed."""
    untouched = (TaskStatus.PENDING, 0)
    rows = [state.tasks[name] for name in scope.tasks]
    moved = [ev.TaskRewound(task=row.id) for row in rows if (row.status, row.attempt) != untouched]
    stages = [name for name in scope.stages if state.stage(name).status is not StageStatus.PENDING]
    return [*moved, *(ev.StageRewound(stage=name) for name in stages)]


def first_redone(places: Mapping[str, int], scope: RewindScope) -> int | None:
    """Return the place of the first landing that is redone, or None if nothing of the scope has landed.

    `places` says where on the run branch each landed task is.
    """
    return min((places[name] for name in scope.tasks if name in places), default=None)


def remaining_plan(plan: Plan, done: Collection[str], closed: Collection[str]) -> Plan:
    """Return the plan without the tasks that are done, and without the stages that have nothing left to do.

    `closed` are the stages whose exit checks held. A stage that has begun does not repeat its entry checks.
    """
    left = {stage.id: _rest_of(stage, done) for stage in plan.stages}
    kept = {name for name, stage in left.items() if stage.tasks or (stage.exit and name not in closed)}
    needs = {stage.id: stage.needs for stage in plan.stages}
    stages = tuple(
        replace(left[stage.id], needs=tuple(dict.fromkeys(_kept(stage.needs, needs, kept))))
        for stage in plan.stages
        if stage.id in kept
    )
    return replace(plan, stages=stages)


def _follows(plan: Plan, stage: Stage, stages: set[str], tasks: set[str]) -> bool:
    """Tell whether a stage builds on another in which something is redone."""
    touched = stages | {other.id for other in plan.stages if any(task.id in tasks for task in other.tasks)}
    return not touched.isdisjoint(stage.needs)


def _rest_of(stage: Stage, done: Collection[str]) -> Stage:
    def open_needs(needs: Sequence[str]) -> tuple[str, ...]:
        return tuple(need for need in needs if need not in done)

    tasks = tuple(
        replace(task, needs=open_needs(task.needs), needs_interface=open_needs(task.needs_interface))
        for task in stage.tasks
        if task.id not in done
    )
    entry = stage.entry if len(tasks) == len(stage.tasks) else ()
    return replace(stage, tasks=tasks, entry=entry)


def _kept(names: Sequence[str], needs: dict[str, tuple[str, ...]], kept: set[str]) -> Iterator[str]:
    """Yield the needs that are left; a need that is gone is replaced by its own needs."""
    for name in names:
        if name in kept:
            yield name
        else:
            yield from _kept(needs[name], needs, kept)
