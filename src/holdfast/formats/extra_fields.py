"""Extra fields: what a native file cannot express, stored in it under our own key, so that no data is lost.

Only what would be read differently is stored, so most objects have no extra fields. The file itself always
wins: a status of ours counts only while the file still says what it said when we wrote it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from holdfast.core.plan import Plan, Stage, Task
from holdfast.formats.exported_run import ExportedRun
from holdfast.formats.lenient_json import Node, commits, count, node as as_node
from holdfast.formats.model import Claim, ClaimedStatus
from holdfast.formats.plan_assembly import Assembly, StageDraft, is_path

KEY = "holdfast"


def _typed(kind: type[msgspec.Struct], *names: str) -> dict[str, Any]:
    return {field.name: field.type for field in msgspec.structs.fields(kind) if field.name in names}


_TASK = _typed(Task, "title", "prompt", "run", "needs", "files", "needs_interface", "verify", "acceptance",
               "allow_empty", "resume")  # fmt: skip
_CLAIM = _typed(Claim, "attempts", "spent", "failures", "commits", "summary")
_STAGE_DRAFT = _typed(Stage, "title", "needs")
_STAGE_CHECKS = _typed(Stage, "entry", "exit")
_STAGE = _STAGE_DRAFT | _STAGE_CHECKS
_PLAN = _typed(Plan, "goal", "verify", "syntax")


def of(entry: Node) -> Node:
    """Return the extra fields of an object of a native file."""
    return as_node(entry.get(KEY))


def carried(extra: Node) -> Node:
    """Return extra fields under their key, or nothing if there are none."""
    return {KEY: extra} if extra else {}


def without(entry: Node) -> Node:
    """Return an object without its extra fields."""
    return {key: said for key, said in entry.items() if key != KEY}


class ExtraFields(msgspec.Struct, frozen=True, kw_only=True):
    """The extra fields of a run: as a whole, by stage, and by task. Those of a claim are with its task."""

    plan: Node
    stages: dict[str, Node]
    tasks: dict[str, Node]


def differences(view: ExportedRun, read: Plan, claims: Iterable[Claim] = ()) -> ExtraFields:
    """Return the fields of a run that are read differently. Parts that are not read at all get none."""
    stages = {stage.id: stage for stage in read.stages}
    tasks = {task.id: task for _, task in read.tasks()}
    said = {claim.task: claim_difference(claim, view.claim_of(claim.task)) for claim in claims}
    return ExtraFields(
        plan=_difference(read, view.plan, _PLAN),
        stages={
            stage.id: _difference(stages.get(stage.id, stage), stage, _STAGE) for stage in view.plan.stages
        },
        tasks={
            task.id: _difference(tasks.get(task.id, task), task, _TASK) | said.get(task.id, {})
            for _, task in view.plan.tasks()
        },
    )


def add_to_plan(document: Node, stages: str, tasks: str, extra: ExtraFields) -> None:
    """Add extra fields to our own plan document, which lists its stages and tasks under these keys."""
    document.update(carried(extra.plan))
    for stage, fields in zip(document[stages], extra.stages.values(), strict=True):
        stage.update(carried(fields))
    entries = (task for stage in document[stages] for task in stage[tasks])
    for task, fields in zip(entries, extra.tasks.values(), strict=True):
        task.update(carried(fields))


def claim_difference(read: Claim, wanted: Claim) -> Node:
    """Return the claims beyond what was read. A status is tied to the native word beside it."""
    extra = _difference(read, wanted, _CLAIM)
    if read.standing is not wanted.standing:
        extra |= {"standing": wanted.standing.value, "beside": read.said}
    return extra


def task(read: Task, extra: Node) -> Task:
    """Return a task with its extra fields. Invalid ones are ignored."""
    made = replace(read, **_valid(extra, _TASK))
    return replace(made, files=tuple(filter(is_path, made.files)))


def claim(read: Claim, extra: Node) -> Claim:
    """Return a claim with its extra fields."""
    said = _valid(extra, _CLAIM)
    said |= {name: count(said[name]) for name in ("attempts", "spent") if name in said}
    if "commits" in said:
        said["commits"] = commits(list(said["commits"]))
    if extra.get("beside") == read.said and (standing := _valid(extra, {"standing": ClaimedStatus})):
        said |= standing
    return replace(read, **said)


def stage(read: StageDraft, extra: Node) -> StageDraft:
    """Return the draft of a stage with its extra fields."""
    return replace(read, **_valid(extra, _STAGE_DRAFT))


def plan(read: Assembly, extra: Node, stages: Mapping[str, Node]) -> Assembly:
    """Return an assembly with the extra fields of the plan, and of the checks of its stages, by native name."""
    extra_of = {read.stages[native]: one for native, one in stages.items() if native in read.stages}
    checked = tuple(
        replace(stage, **_valid(extra_of.get(stage.id, {}), _STAGE_CHECKS)) for stage in read.plan.stages
    )
    return replace(read, plan=replace(read.plan, stages=checked, **_valid(extra, _PLAN)))


def _difference(read: Any, wanted: Any, fields: dict[str, Any]) -> Node:
    differing = (name for name in fields if getattr(read, name) != getattr(wanted, name))
    return {name: msgspec.to_builtins(getattr(wanted, name)) for name in differing}


def _valid(extra: Node, fields: dict[str, Any]) -> dict[str, Any]:
    said: dict[str, Any] = {}
    for name in fields.keys() & extra.keys():
        try:
            said[name] = msgspec.convert(extra[name], fields[name])
        except msgspec.ValidationError:
            continue  # Somebody changed our fields; then the file itself counts.
    return said
