"""What a native file has no word for, kept in it under one key of ours, so that a run comes back as it went out.

A note holds only what would be read differently without it, hence nothing at all where the native words are enough.
It is never believed over the file: a standing counts only while the file still says what it said then.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from holdfast.core.plan import Plan, Stage, Task
from holdfast.formats import loose
from holdfast.formats.commands import is_path
from holdfast.formats.drafts import StageDraft
from holdfast.formats.model import Claim, Standing
from holdfast.formats.rows import without_agents

KEY = "holdfast"


def _typed(kind: type[msgspec.Struct], *names: str) -> dict[str, Any]:
    return {field.name: field.type for field in msgspec.structs.fields(kind) if field.name in names}


_TASK = _typed(Task, "title", "prompt", "run", "needs", "files", "needs_interface", "verify", "acceptance",
               "allow_empty")  # fmt: skip
_CLAIM = _typed(Claim, "attempts", "spent", "failures", "commits", "summary")
_STAGE = _typed(Stage, "title", "needs", "entry", "exit")
_PLAN = _typed(Plan, "goal", "verify", "syntax")


def of(node: loose.Node) -> loose.Node:
    """Return the note that an object of a native file carries."""
    return loose.node(node.get(KEY))


def about_task(read: Task, wanted: Task) -> loose.Node:
    """Return what a task is beyond what was read of it."""
    return _difference(read, without_agents(wanted), _TASK)


def about_claim(read: Claim, wanted: Claim) -> loose.Node:
    """Return what is claimed beyond what was read; a standing is tied to the native word it was written beside."""
    note = _difference(read, wanted, _CLAIM)
    if read.standing is not wanted.standing:
        note |= {"standing": wanted.standing.value, "beside": read.said}
    return note


def about_stage(read: Stage, wanted: Stage) -> loose.Node:
    """Return what a stage is beyond what was read of it."""
    return _difference(read, wanted, _STAGE)


def about_plan(read: Plan, wanted: Plan) -> loose.Node:
    """Return what the plan as a whole is beyond what was read of it."""
    return _difference(read, wanted, _PLAN)


def task(read: Task, note: loose.Node) -> Task:
    """Return a task with what its note says. Nonsense in a note is passed over."""
    noted = replace(read, **_said(note, _TASK))
    return replace(noted, files=tuple(path for path in noted.files if is_path(path)))


def claim(read: Claim, note: loose.Node) -> Claim:
    """Return a claim with what its note says."""
    said = _said(note, _CLAIM)
    said |= {name: loose.count(said[name]) for name in ("attempts", "spent") if name in said}
    if "commits" in said:
        said["commits"] = loose.commits(list(said["commits"]))
    if note.get("beside") == read.said and (standing := _said(note, {"standing": Standing})):
        said |= standing
    return replace(read, **said)


def stage(read: StageDraft, note: loose.Node) -> StageDraft:
    """Return the draft of a stage with what its note says."""
    return replace(read, **_said(note, {name: _STAGE[name] for name in ("title", "needs")}))


def plan(read: Plan, note: loose.Node, stages: Mapping[str, loose.Node]) -> Plan:
    """Return a plan with what its note says, and the notes of its stages say of their checks."""
    checks = {name: _STAGE[name] for name in ("entry", "exit")}
    checked = tuple(replace(each, **_said(stages.get(each.id, {}), checks)) for each in read.stages)
    return replace(read, stages=checked, **_said(note, _PLAN))


def _difference(read: Any, wanted: Any, fields: dict[str, Any]) -> loose.Node:
    differing = (name for name in fields if getattr(read, name) != getattr(wanted, name))
    return {name: msgspec.to_builtins(getattr(wanted, name)) for name in differing}


def _said(note: loose.Node, fields: dict[str, Any]) -> dict[str, Any]:
    said: dict[str, Any] = {}
    for name in fields.keys() & note.keys():
        try:
            said[name] = msgspec.convert(note[name], fields[name])
        except msgspec.ValidationError:
            continue  # Somebody wrote into our note; what the file itself says stands.
    return said
