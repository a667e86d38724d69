"""What a native file has no word for, kept in it under one key of ours, so that a run comes back as it went out.

A note holds only what would be read differently without it, hence nothing at all where the native words are enough.
It is never believed over the file: a standing counts only while the file still says what it said then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from holdfast.core.plan import Plan, Stage, Task
from holdfast.formats import lenient_json
from holdfast.formats.model import Claim, ClaimedStatus, ExportedRun
from holdfast.formats.plan_assembly import Assembly, StageDraft, is_path
from holdfast.formats.run_to_claims import claim_of

KEY = "holdfast"


def _typed(kind: type[msgspec.Struct], *names: str) -> dict[str, Any]:
    return {field.name: field.type for field in msgspec.structs.fields(kind) if field.name in names}


_TASK = _typed(Task, "title", "prompt", "run", "needs", "files", "needs_interface", "verify", "acceptance",
               "allow_empty")  # fmt: skip
_CLAIM = _typed(Claim, "attempts", "spent", "failures", "commits", "summary")
_STAGE = _typed(Stage, "title", "needs", "entry", "exit")
_PLAN = _typed(Plan, "goal", "verify", "syntax")


def of(node: lenient_json.Node) -> lenient_json.Node:
    """Return the note that an object of a native file carries."""
    return lenient_json.node(node.get(KEY))


def carried(note: lenient_json.Node) -> lenient_json.Node:
    """Return a note as an object carries it: not at all where it says nothing."""
    return {KEY: note} if note else {}


def without(node: lenient_json.Node) -> lenient_json.Node:
    """Return an object without the note that it carries."""
    return {key: said for key, said in node.items() if key != KEY}


class ExtraFields(msgspec.Struct, frozen=True, kw_only=True):
    """What a run is beyond what was read of it: as a whole, by stage, and by task. A claim is noted with its task."""

    plan: lenient_json.Node
    stages: dict[str, lenient_json.Node]
    tasks: dict[str, lenient_json.Node]


def differences(view: ExportedRun, read: Plan, claims: Iterable[Claim] = ()) -> ExtraFields:
    """Return what to note of a run of which so much was read. Nothing is, of what was not read at all."""
    stages = {stage.id: stage for stage in read.stages}
    tasks = {task.id: task for _, task in read.tasks()}
    said = {claim.task: claim_difference(claim, claim_of(view, claim.task)) for claim in claims}
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


def add_to_plan(document: lenient_json.Node, stages: str, tasks: str, about: ExtraFields) -> None:
    """Add notes to a plan document of ours that lists, under these keys, its stages and their tasks by their ids."""
    document.update(carried(about.plan))
    for stage, note in zip(document[stages], about.stages.values(), strict=True):
        stage.update(carried(note))
    entries = (task for stage in document[stages] for task in stage[tasks])
    for task, note in zip(entries, about.tasks.values(), strict=True):
        task.update(carried(note))


def claim_difference(read: Claim, wanted: Claim) -> lenient_json.Node:
    """Return what is claimed beyond what was read; a standing is tied to the native word it was written beside."""
    note = _difference(read, wanted, _CLAIM)
    if read.standing is not wanted.standing:
        note |= {"standing": wanted.standing.value, "beside": read.said}
    return note


def task(read: Task, note: lenient_json.Node) -> Task:
    """Return a task with what its note says. Nonsense in a note is passed over."""
    noted = replace(read, **_said(note, _TASK))
    return replace(noted, files=tuple(path for path in noted.files if is_path(path)))


def claim(read: Claim, note: lenient_json.Node) -> Claim:
    """Return a claim with what its note says."""
    said = _said(note, _CLAIM)
    said |= {name: lenient_json.count(said[name]) for name in ("attempts", "spent") if name in said}
    if "commits" in said:
        said["commits"] = lenient_json.commits(list(said["commits"]))
    if note.get("beside") == read.said and (standing := _said(note, {"standing": ClaimedStatus})):
        said |= standing
    return replace(read, **said)


def stage(read: StageDraft, note: lenient_json.Node) -> StageDraft:
    """Return the draft of a stage with what its note says."""
    return replace(read, **_said(note, {name: _STAGE[name] for name in ("title", "needs")}))


def plan(read: Assembly, note: lenient_json.Node, stages: Mapping[str, lenient_json.Node]) -> Assembly:
    """Return an assembly with what the plan's note says, and the notes of its stages, by native name, of their checks."""
    checks = {name: _STAGE[name] for name in ("entry", "exit")}
    said = {read.stages[native]: _said(of, checks) for native, of in stages.items() if native in read.stages}
    checked = tuple(replace(stage, **said.get(stage.id, {})) for stage in read.plan.stages)
    return replace(read, plan=replace(read.plan, stages=checked, **_said(note, _PLAN)))


def _difference(read: Any, wanted: Any, fields: dict[str, Any]) -> lenient_json.Node:
    differing = (name for name in fields if getattr(read, name) != getattr(wanted, name))
    return {name: msgspec.to_builtins(getattr(wanted, name)) for name in differing}


def _said(note: lenient_json.Node, fields: dict[str, Any]) -> dict[str, Any]:
    said: dict[str, Any] = {}
    for name in fields.keys() & note.keys():
        try:
            said[name] = msgspec.convert(note[name], fields[name])
        except msgspec.ValidationError:
            continue  # Somebody wrote into our note; what the file itself says stands.
    return said
