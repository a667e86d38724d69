"""What people make of a plan while its run is in flight: tasks added, dropped and changed, other checks and limits."""

from __future__ import annotations

from random import Random

from msgspec.structs import replace

from holdfast.core import events as ev
from holdfast.core.amendment import amendment
from holdfast.core.plan import Plan, Stage, Task, plan_hash
from holdfast.core.state import RunState
from holdfast.core.status import TaskStatus
from holdfast.errors import HoldfastError

_NEW_TASKS_MAX = 3


def random_amendment(rng: Random, state: RunState) -> ev.PlanAmended | None:
    """Return what somebody makes of the plan of a run; None if that is refused."""
    wanted = _edited(rng, state)
    try:
        event = amendment(state, wanted, restart=rng.random() < 0.5)
    except HoldfastError:
        return None
    assert event.plan_hash == plan_hash(event.plan)
    return event


def _edited(rng: Random, state: RunState) -> Plan:
    plan = state.plan
    for _ in range(rng.randint(1, 3)):
        match 0 if state.awaiting_restart and rng.random() < 0.4 else rng.randint(0, 7):
            case 0:
                plan = _with_new_task(rng, plan, state)
            case 1:
                plan = _without_a_task(rng, plan)
            case 2:
                plan = replace(plan, verify=() if plan.verify else (f"check{rng.randint(1, 9)}",))
            case 3 | 4:
                plan = _with_other_checks(rng, plan, state)
            case 5:
                attempts, jobs = rng.randint(1, 4), rng.randint(1, 3)
                plan = replace(plan, limits=replace(plan.limits, attempts=attempts, jobs=jobs))
            case 6:
                plan = replace(plan, limits=replace(plan.limits, keep_going=rng.random() < 0.5))
            case _:
                plan = _with_other_prompt(rng, plan)
    return plan


def _with_new_task(rng: Random, plan: Plan, state: RunState) -> Plan:
    """Add a task, which others of its stage may need: above all those whose finished work waits."""
    number = sum(task.id.startswith("new") for _, task in plan.tasks())
    if number >= _NEW_TASKS_MAX or not plan.stages:
        return plan
    waiting = [
        at for at, one in enumerate(plan.stages) if any(t.id in state.awaiting_restart for t in one.tasks)
    ]
    at = rng.choice(waiting) if waiting else rng.randrange(len(plan.stages))
    new = Task(id=f"new{number}{at}", prompt="do it", verify=("check",) if rng.random() < 0.5 else ())
    if any(task.id == new.id for _, task in plan.tasks()):
        return plan
    stage = plan.stages[at]
    tasks = [
        replace(t, needs=(*t.needs, new.id)) if t.id in state.awaiting_restart or rng.random() < 0.2 else t
        for t in stage.tasks
    ]
    return _with_stage(plan, replace(stage, tasks=(*tasks, new)))


def _without_a_task(rng: Random, plan: Plan) -> Plan:
    """Drop a task, and the needs of it."""
    names = [task.id for _, task in plan.tasks()]
    if len(names) < 2:
        return plan
    gone = rng.choice(names)
    stages = tuple(
        replace(
            stage,
            tasks=tuple(
                replace(
                    task,
                    needs=tuple(need for need in task.needs if need != gone),
                    needs_interface=tuple(need for need in task.needs_interface if need != gone),
                )
                for task in stage.tasks
                if task.id != gone
            ),
        )
        for stage in plan.stages
    )
    return replace(plan, stages=stages)


def _with_other_checks(rng: Random, plan: Plan, state: RunState) -> Plan:
    """Change the checks of a task, rather of one that failed on them."""
    failed = [
        name for name, row in state.tasks.items() if row.status in (TaskStatus.FAILED, TaskStatus.ABANDONED)
    ]
    return _with_other_task(rng, plan, failed, verify=(f"check{rng.randint(1, 9)}",))


def _with_other_prompt(rng: Random, plan: Plan) -> Plan:
    return _with_other_task(rng, plan, [], acceptance=(f"so {rng.randint(1, 9)}",))


def _with_other_task(rng: Random, plan: Plan, rather: list[str], **fields: tuple[str, ...]) -> Plan:
    names = [task.id for _, task in plan.tasks()]
    chosen = rng.choice([name for name in rather if name in names] or names) if names else ""
    stages = tuple(
        replace(stage, tasks=tuple(replace(t, **fields) if t.id == chosen else t for t in stage.tasks))
        for stage in plan.stages
    )
    return replace(plan, stages=stages)


def _with_stage(plan: Plan, changed: Stage) -> Plan:
    stages = tuple(changed if stage.id == changed.id else stage for stage in plan.stages)
    return replace(plan, stages=stages)
