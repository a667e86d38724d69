"""The order that a plan's needs alone impose: which tasks of a stage may run side by side."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.core.plan import Plan, Stage, Task


@dataclass(frozen=True, slots=True)
class StageWaves:
    """A stage and its batches: every task's needs are in an earlier batch or an earlier stage."""

    stage: Stage
    batches: tuple[tuple[Task, ...], ...]


def waves(plan: Plan) -> list[StageWaves]:
    """Return each stage with its batches, in plan order. The plan's needs have no cycle."""
    return [StageWaves(stage, _batches(stage)) for stage in plan.stages]


def _batches(stage: Stage) -> tuple[tuple[Task, ...], ...]:
    own = {task.id: task for task in stage.tasks}
    waits = {task.id: sum(need in own for need in task.needs) for task in stage.tasks}
    dependents: dict[str, list[str]] = {}
    for task in stage.tasks:
        for need in task.needs:
            dependents.setdefault(need, []).append(task.id)
    batches: list[tuple[Task, ...]] = []
    ready = [name for name, count in waits.items() if count == 0]
    while ready:
        batches.append(tuple(own[name] for name in ready))
        freed: list[str] = []
        for name in ready:
            for dependent in dependents.get(name, ()):
                waits[dependent] -= 1
                if waits[dependent] == 0:
                    freed.append(dependent)
        ready = freed
    return tuple(batches)
