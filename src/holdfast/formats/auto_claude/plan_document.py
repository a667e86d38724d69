"""A run of ours as `implementation_plan.json`: the adopted document with what changed, or a new one.

Keys and words that nobody here knows stay as they are, and so does a status that still means the same.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from holdfast.core.plan import Stage, Task
from holdfast.core.status import RunStatus
from holdfast.formats import extra_fields
from holdfast.formats.auto_claude.layout import ITEM_KEYS, SPEC
from holdfast.formats.auto_claude.phases import PlanPhase, Subtask, phases_of, twins_of
from holdfast.formats.lenient_json import Node, iso_time, text
from holdfast.formats.model import Claim, ClaimedStatus, ExportedRun
from holdfast.formats.status_words import claimed_status, is_known, kept_word

WORDS = {
    ClaimedStatus.PENDING: "pending",
    ClaimedStatus.RUNNING: "in_progress",
    ClaimedStatus.DONE: "completed",
    ClaimedStatus.SKIPPED: "completed",
    ClaimedStatus.FAILED: "failed",
    ClaimedStatus.ABANDONED: "failed",
    ClaimedStatus.BLOCKED: "blocked",
}
"""The words that Auto-Claude's own loader accepts; it refuses a plan with any other."""
_RUN_WORDS = {
    RunStatus.PENDING: ("backlog", "pending", "idle", "backlog"),
    RunStatus.BLOCKED: ("human_review", "review", "coding", "human_review"),
    RunStatus.COMPLETED: ("done", "completed", "complete", "done"),
    RunStatus.ABANDONED: ("error", "in_progress", "failed", "error"),
}
_GOES_ON = ("in_progress", "in_progress", "coding", "coding")
_KEPT_WORDS = (ClaimedStatus.DONE, ClaimedStatus.PENDING)


def write_plan(view: ExportedRun, document: Node, claims: Mapping[str, Claim]) -> Node:
    """Bring a document up to date with a run, and return it. An empty one is filled in."""
    if not document:
        document |= _blank(view)
    phases = phases_of(document)
    for node in (document, *(phase.node for phase in phases)):
        node.pop(extra_fields.KEY, None)
    for part, node in _places(phases):
        node.pop(extra_fields.KEY, None)
        if part.id in claims:
            _write_part(view, node, claims[part.id])
    _add_missing(view, document, phases, claims)
    _write_head(view, document)
    return document


def _blank(view: ExportedRun) -> Node:
    return {
        "feature": view.plan.goal,
        "workflow_type": "feature",
        "services_involved": [],
        "phases": [],
        "final_acceptance": [],
        "created_at": iso_time(view.started),
        "updated_at": iso_time(view.updated),
        "spec_file": SPEC,
    }


def _places(phases: list[PlanPhase]) -> Iterator[tuple[Subtask, Node]]:
    """Yield every object that stands for a subtask, copies under older names too."""
    for phase in phases:
        yield from ((part, part.node) for part in phase.parts)
        yield from twins_of(phase)


def _write_part(view: ExportedRun, node: Node, claim: Claim) -> None:
    """Write where a subtask stands, unless its own word says so already."""
    said = text(node.get("status"))
    meant = ClaimedStatus.DONE if claim.standing is ClaimedStatus.SKIPPED else claim.standing
    meant = ClaimedStatus.FAILED if meant is ClaimedStatus.ABANDONED else meant
    if said and is_known(said) and claimed_status(said) is meant:
        return
    node["status"] = WORDS[claim.standing]
    times = view.task_times.get(claim.task)
    if times and claim.standing is ClaimedStatus.DONE and times.ended is not None:
        node["completed_at"] = iso_time(times.ended)


def _add_missing(
    view: ExportedRun, document: Node, phases: list[PlanPhase], claims: Mapping[str, Claim]
) -> None:
    """Add the tasks that the document does not have, stage by stage."""
    known = {part.id for phase in phases for part in phase.parts}
    is_flat = any(phase.node is document for phase in phases)
    for stage in view.plan.stages:
        parts = [_part(task, claims[task.id]) for task in stage.tasks if task.id not in known]
        if parts and is_flat:
            _flat_list(document).extend(parts)
        elif parts:
            _phase_list(document).append(_phase(stage, parts, document))


def _flat_list(document: Node) -> list[Any]:
    key = next((key for key in ITEM_KEYS if document.get(key)), ITEM_KEYS[0])
    return _as_list(document, key)


def _phase_list(document: Node) -> list[Any]:
    return _as_list(document, "phases")


def _as_list(document: Node, key: str) -> list[Any]:
    """Return the list under a key, to be added to. What maps names to objects becomes a list of those."""
    found = document.get(key)
    if isinstance(found, dict):
        found = [{"id": name, **child} for name, child in found.items() if isinstance(child, dict)]
    kept: list[Any] = found if isinstance(found, list) else []
    document[key] = kept
    return kept


def _phase(stage: Stage, parts: list[Node], document: Node) -> Node:
    """Return a new phase. Its number is what others depend on; `id` is left out, for then ids would be."""
    numbers = {phase.id: number for number, phase in enumerate(phases_of(document), 1)}
    own = {task.id for task in stage.tasks}
    return {
        "phase": len(numbers) + 1,
        "phase_id": stage.id,
        "name": stage.title or stage.id,
        "type": "implementation",
        "depends_on": [numbers[need] for need in stage.needs if need in numbers],
        "parallel_safe": not any(own & set(task.needs) for task in stage.tasks),
        "subtasks": parts,
    }


def _part(task: Task, claim: Claim) -> Node:
    asked = task.prompt or f"Run `{shlex.join(task.run)}`"
    node: Node = {
        "id": task.id,
        "title": task.title,
        "description": asked,
        "status": WORDS[claim.standing],
        "depends_on": list(task.needs),
        "files_to_modify": [],
        "files_to_create": list(task.files),
        "patterns_from": [],
    }
    if task.verify:
        several = {"commands": list(task.verify)} if len(task.verify) > 1 else {}
        node["verification"] = {"type": "command", "run": " && ".join(task.verify), **several}
    if task.acceptance:
        node["acceptance_criteria"] = list(task.acceptance)
    return node


def _write_head(view: ExportedRun, document: Node) -> None:
    """Write where the whole stands, also into the newest keys where the document has them."""
    words = _RUN_WORDS.get(view.row.status, _GOES_ON)
    keys = ("status", "planStatus", "executionPhase", "xstateState")
    for key, word in zip(keys, words, strict=True):
        if key in ("status", "planStatus") or key in document:
            document[key] = _head_word(text(document.get(key)), word)
    if view.row.status is RunStatus.BLOCKED or "reviewReason" in document:
        document["reviewReason"] = "errors" if view.row.status is RunStatus.BLOCKED else None
    document["updated_at"] = iso_time(view.updated)
    if "last_updated" in document:
        document["last_updated"] = iso_time(view.updated)


def _head_word(said: str, word: str) -> str:
    return kept_word(said, word) if is_known(said) and claimed_status(said) in _KEPT_WORDS else word
