"""The difference between two plans, field by field: what an amendment adds, changes and drops.

Generic over the fields of a plan: a key that is new in plans shows up by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

from holdfast.core.plan import Plan, Stage, Task


class FieldChange(msgspec.Struct, frozen=True, kw_only=True):
    """One field with its value before and after; the name of a nested one has dots. None: it was not there."""

    field: str
    before: Any = None
    after: Any = None


class PartChange(msgspec.Struct, frozen=True, kw_only=True):
    """One stage or task that is added, changed or dropped; what is given of an added one, what differs in a changed one."""

    id: str
    change: Literal["added", "changed", "dropped"]
    fields: tuple[FieldChange, ...] = ()


class PlanDifference(msgspec.Struct, frozen=True, kw_only=True):
    """All that differs: fields of the plan itself, stages, and tasks, each in plan order."""

    fields: tuple[FieldChange, ...] = ()
    stages: tuple[PartChange, ...] = ()
    tasks: tuple[PartChange, ...] = ()

    def __bool__(self) -> bool:
        """Tell whether there is any difference."""
        return bool(self.fields or self.stages or self.tasks)


def plan_difference(before: Plan, after: Plan) -> PlanDifference:
    """Return what differs between two plans."""
    return PlanDifference(
        fields=tuple(_struct_changes(before, after, skip=("stages",))),
        stages=tuple(_parts(_stages(before), _stages(after), skip=("tasks",))),
        tasks=tuple(_task_changes(before, after)),
    )


def _stages(plan: Plan) -> dict[str, Stage]:
    return {stage.id: stage for stage in plan.stages}


def _task_changes(before: Plan, after: Plan) -> Iterator[PartChange]:
    """Yield the changes of tasks. The stage that a task is in counts as a field of it."""
    was, now = ({task.id: stage.id for stage, task in plan.tasks()} for plan in (before, after))
    tasks_before, tasks_after = ({task.id: task for _, task in plan.tasks()} for plan in (before, after))
    changes = {one.id: one for one in _parts(tasks_before, tasks_after)}
    for name in dict.fromkeys((*now, *was)):
        one = changes.get(name)
        if name in was and name in now and was[name] != now[name]:
            moved = FieldChange(field="stage", before=was[name], after=now[name])
            fields = one.fields if one is not None else ()
            one = PartChange(id=name, change="changed", fields=(moved, *fields))
        if one is not None:
            yield one


def _parts(
    before: Mapping[str, Stage | Task], after: Mapping[str, Stage | Task], skip: tuple[str, ...] = ()
) -> Iterator[PartChange]:
    for name in dict.fromkeys((*after, *before)):
        if name not in before:
            yield PartChange(id=name, change="added", fields=tuple(_given(after[name], ("id", *skip))))
        elif name not in after:
            yield PartChange(id=name, change="dropped")
        elif fields := tuple(_struct_changes(before[name], after[name], skip)):
            yield PartChange(id=name, change="changed", fields=fields)


def _given(part: Stage | Task, skip: tuple[str, ...]) -> Iterator[FieldChange]:
    """Yield each field of a stage or task that is not as by default."""
    for name, value in msgspec.to_builtins(part).items():
        if name not in skip:
            yield FieldChange(field=name, after=value)


def _struct_changes(
    before: Any, after: Any, skip: tuple[str, ...] = (), path: str = ""
) -> Iterator[FieldChange]:
    for name in before.__struct_fields__:
        if name not in skip:
            yield from _changes(getattr(before, name), getattr(after, name), f"{path}{name}")


def _changes(before: Any, after: Any, path: str) -> Iterator[FieldChange]:
    if before == after:
        return
    if isinstance(before, msgspec.Struct) and isinstance(after, msgspec.Struct):
        yield from _struct_changes(before, after, path=f"{path}.")
    elif isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys((*after, *before)):
            yield from _changes(before.get(key), after.get(key), f"{path}.{key}")
    else:
        yield FieldChange(field=path, before=msgspec.to_builtins(before), after=msgspec.to_builtins(after))
