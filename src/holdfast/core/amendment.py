"""Amending the plan of a run that has begun: what becomes of a plan that somebody edited, and why it may be refused.

Pure. What landed stands: it stays in the plan as it landed, whatever the edited plan says of it. So the plan of a run always
tells the truth about its branch. What an amendment changes in the rows of tasks is in `amended_rows.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from holdfast.core import events as ev
from holdfast.core.amended_rows import (
    STANDS,
    UNDER_WAY,
    RestChange,
    Terms,
    change_at_rest,
    is_judged_anew,
    is_outdated,
    terms_of,
)
from holdfast.core.plan import Plan, Stage, Task, plan_hash
from holdfast.core.projection import TaskRow
from holdfast.core.state import RunState
from holdfast.core.status import TASK_IS_SETTLED, TaskStatus
from holdfast.errors import HoldfastError


def amendment(state: RunState, wanted: Plan, *, restart: bool = False) -> ev.PlanAmended:
    """Return the event that gives a run the plan that somebody wants. Raises HoldfastError if that cannot be right.

    With `restart`, the agents at work on tasks of which something else is asked now are ended.
    """
    plan = amended_plan(state, wanted)
    if why := "; ".join(refusals(state, plan)):
        raise HoldfastError(
            f"the plan cannot be amended so: {why}",
            f"`holdfast status {state.row.run}` shows where the run stands; `holdfast amend --dry-run` shows the difference",
        )
    restarted = restarted_tasks(state, plan) if restart else ()
    return ev.PlanAmended(plan=plan, plan_hash=plan_hash(plan), restarted=restarted)


def amended_plan(state: RunState, wanted: Plan) -> Plan:
    """Return the plan that the run gets: the wanted one, with the run's base, and with what landed as it landed.

    A landed task that the wanted plan drops stays in its stage, or brings its stage along.
    """
    stands = {name: state.specs[name] for name, row in state.tasks.items() if row.status in STANDS}
    placed = {task.id for _, task in wanted.tasks()}
    left: dict[str, list[Task]] = {}
    for name, spec in stands.items():
        if name not in placed:
            left.setdefault(state.stage_of[name], []).append(spec)
    own = {stage.id for stage in wanted.stages}
    stages = [
        *_stages_brought_along(state, {name: tasks for name, tasks in left.items() if name not in own}),
        *(
            replace(
                stage,
                tasks=(*(stands.get(task.id, task) for task in stage.tasks), *left.get(stage.id, ())),
            )
            for stage in wanted.stages
        ),
    ]
    whole = replace(wanted, base=state.plan.base, stages=tuple(_with_known_needs(stages, stands)))
    return _with_parts_of(whole, state.plan, stands)


def _stages_brought_along(state: RunState, left: Mapping[str, list[Task]]) -> Iterator[Stage]:
    """Yield the stages that the wanted plan does not have, with nothing but what landed in them. No gate guards them any more."""
    for stage in state.plan.stages:
        if stage.id in left:
            needs = tuple(need for need in stage.needs if need in left)
            yield replace(stage, tasks=tuple(left[stage.id]), needs=needs, entry=(), exit=())


def _with_known_needs(stages: list[Stage], stands: Mapping[str, Task]) -> Iterator[Stage]:
    """Yield the stages. What landed needs nothing any more that is not in the plan, or that comes later in it."""
    known: set[str] = set()
    for stage in stages:
        known |= {task.id for task in stage.tasks}
        yield replace(
            stage, tasks=tuple(_needing(task, known) if task.id in stands else task for task in stage.tasks)
        )


def _needing(task: Task, known: set[str]) -> Task:
    return replace(
        task,
        needs=tuple(need for need in task.needs if need in known),
        needs_interface=tuple(need for need in task.needs_interface if need in known),
    )


def _with_parts_of(plan: Plan, before: Plan, stands: Mapping[str, Task]) -> Plan:
    """Return the plan with the agents and slots of the earlier one that landed tasks name and it lacks."""
    tasks = [task for _, task in plan.tasks() if task.id in stands]
    named = {task.agent for task in tasks} | {one.agent for task in tasks for one in task.validators}
    agents = {name: spec for name, spec in before.agents.items() if name in named and name not in plan.agents}
    used = {task.slot for task in tasks}
    slots = {name: count for name, count in before.slots.items() if name in used and name not in plan.slots}
    return replace(plan, agents={**plan.agents, **agents}, slots={**plan.slots, **slots})


def refusals(state: RunState, plan: Plan) -> Iterator[str]:
    """Yield why a run cannot get a plan: it drops what is under way, or work that builds on it landed before."""
    names = {task.id for _, task in plan.tasks()}
    for name, row in state.tasks.items():
        if name not in names and row.taken is not None:
            yield f"task {name} is taken by you and cannot be dropped (`holdfast give {state.row.run} {name} --back`)"
        elif name not in names and row.status is TaskStatus.RUNNING:
            yield f"task {name} is running and cannot be dropped (after `holdfast stop {state.row.run}` it can)"
        elif name not in names and row.status in UNDER_WAY:
            yield (
                f"task {name} is {row.status} and cannot be dropped (after `holdfast stop {state.row.run}`, "
                f"`holdfast reset {state.row.run} {name}` undoes what it has begun)"
            )
    yield from _overtaken(state, plan)


def _overtaken(state: RunState, plan: Plan) -> Iterator[str]:
    """Yield each task that would come before work which has landed: what builds on a stage lands after it."""
    before = {
        (stage.id, task.id)
        for stage in state.plan.stages
        for need in stage.needs
        for task in state.stages[need].tasks
    }
    own = {stage.id: stage for stage in plan.stages}
    for stage in plan.stages:
        landed = [task.id for task in stage.tasks if _status(state, task.id) in STANDS]
        if not landed:
            continue
        for task in (task for need in stage.needs if need in own for task in own[need].tasks):
            if (
                _status(state, task.id) not in (*STANDS, *TASK_IS_SETTLED)
                and (stage.id, task.id) not in before
            ):
                yield f"task {task.id} would come before stage {stage.id}, of which {landed[0]} has landed; put it into that stage or a later one"


def _status(state: RunState, name: str) -> TaskStatus | None:
    return state.tasks[name].status if name in state.tasks else None


def restarted_tasks(state: RunState, plan: Plan) -> tuple[str, ...]:
    """Return the tasks at which an agent works and of which something else is asked now, or of somebody else."""
    specs = {task.id: task for _, task in plan.tasks()}
    return tuple(
        name
        for name, row in state.tasks.items()
        if row.status is TaskStatus.RUNNING
        and name in specs
        and not row.latest.restart
        and is_outdated(row, terms_of(state.plan, state.specs[name]), terms_of(plan, specs[name]))
    )


def tasks_concerned(state: RunState, plan: Plan) -> list[str]:
    """Return the tasks that have begun, have not landed, and are done or judged on other terms, also if they are the same."""
    specs = {task.id: task for _, task in plan.tasks()}
    return [
        name
        for name, row in state.tasks.items()
        if row.attempt
        and row.status not in STANDS
        and name in specs
        and _concern(terms_of(state.plan, state.specs[name])) != _concern(terms_of(plan, specs[name]))
    ]


def _concern(terms: Terms) -> tuple[object, ...]:
    return terms.assignment, terms.checks, terms.validation, terms.limits.attempts


def fates_of(state: RunState, plan: Plan, names: Iterable[str], *, restart: bool) -> dict[str, str]:
    """Return what becomes of each of these tasks, which are added, changed or dropped, in a few words."""
    specs = {task.id: task for _, task in plan.tasks()}
    return {name: _fate(state, plan, name, specs.get(name), restart) for name in names}


def _fate(state: RunState, plan: Plan, name: str, spec: Task | None, restart: bool) -> str:
    row = state.tasks.get(name)
    if row is None:
        return "new"
    stands = _stands(row, dropped=spec is None)
    if stands or spec is None:
        return stands
    before, now = terms_of(state.plan, state.specs[name]), terms_of(plan, spec)
    if row.status is TaskStatus.RUNNING and is_outdated(row, before, now):
        if restart:
            return "its agent is stopped, its work kept; it begins again"
        return "its agent finishes what it began; --restart stops it"
    if row.status in UNDER_WAY:
        return "under way; the new checks judge it" if is_judged_anew(before, now) else "under way, goes on"
    return _fate_at_rest(row, change_at_rest(row, before, now))


def _fate_at_rest(row: TaskRow, change: RestChange) -> str:
    match change:
        case RestChange.CHECK_AGAIN:
            return "its work is checked again, not done again"
        case RestChange.BEGIN_AGAIN:
            return f"was {row.status}; has all its attempts again"
        case RestChange.GET_ATTEMPTS:
            return "has attempts left"
        case RestChange.NOTHING if row.recheck:
            return "its work waits to be checked, as before"
        case RestChange.NOTHING if row.status is TaskStatus.ABANDONED:
            return "stays abandoned"
    return "its next attempt is told" if row.attempt else "has not begun"


def _stands(row: TaskRow, *, dropped: bool) -> str:
    """Return what becomes of a task that no other terms change; empty if they may."""
    if row.status in STANDS:
        return "already landed, unchanged" if row.status is TaskStatus.COMPLETED else "is landing, unchanged"
    if dropped and (row.status in UNDER_WAY or row.taken is not None):
        return "under way, cannot be dropped"
    if dropped:
        return "dropped" + ("; its work stays at its refs" if row.attempt else "")
    if row.taken is not None:
        return "taken by you; what you give is judged by the new checks"
    return "stays skipped" if row.status is TaskStatus.SKIPPED else ""
