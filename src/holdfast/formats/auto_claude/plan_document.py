"""Writes a Holdfast run as `implementation_plan.json`: the adopted document with the changes, or a new one.

Unknown keys and words stay as they are, and so does a status that still means the same.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from holdfast.core.plan import Stage, Task
from holdfast.core.status import RunStatus
from holdfast.formats import extra_fields
from holdfast.formats.auto_claude.layout import ITEM_KEYS, AutoClaudeFile
from holdfast.formats.auto_claude.phases import PlanPhase, all_entries, phases_of
from holdfast.formats.exported_run import ExportedRun
from holdfast.formats.lenient_json import Node, iso_time, nodes, text
from holdfast.formats.model import Claim, ClaimedStatus
from holdfast.formats.status_words import claimed_status, is_known, kept_word

_WORDS = {
    ClaimedStatus.PENDING: "pending",
    ClaimedStatus.RUNNING: "in_progress",
    ClaimedStatus.DONE: "completed",
    ClaimedStatus.SKIPPED: "completed",
    ClaimedStatus.FAILED: "failed",
    ClaimedStatus.ABANDONED: "failed",
    ClaimedStatus.BLOCKED: "blocked",
}
"""The words that Auto-Claude's own loader accepts; it refuses a plan with any other."""
_HEAD_KEYS = ("status", "planStatus", "executionPhase", "xstateState")
_HEAD_WORDS = {
    RunStatus.PENDING: ("backlog", "pending", "idle", "backlog"),
    RunStatus.BLOCKED: ("human_review", "review", "coding", "human_review"),
    RunStatus.COMPLETED: ("done", "completed", "complete", "done"),
    RunStatus.ABANDONED: ("error", "in_progress", "failed", "error"),
}
_RUNNING_WORDS = ("in_progress", "in_progress", "coding", "coding")
_KEPT_WORDS = (ClaimedStatus.DONE, ClaimedStatus.PENDING)


def write_plan(view: ExportedRun, document: Node, claims: Mapping[str, Claim]) -> Node:
    """Update a document from a run and return it. An empty one is filled in."""
    if not document:
        document |= _blank(view)
    document.pop(extra_fields.KEY, None)
    phases = phases_of(document)
    for phase in phases:
        phase.entry.pop(extra_fields.KEY, None)
        for subtask, entry in all_entries(phase):
            entry.pop(extra_fields.KEY, None)
            if subtask.id in claims:
                _update_subtask(view, entry, claims[subtask.id])
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
        "spec_file": AutoClaudeFile.SPEC.value,
    }


def _update_subtask(view: ExportedRun, entry: Node, claim: Claim) -> None:
    """Write the status of a subtask, unless its word already means the same."""
    said, word = text(entry.get("status")), _WORDS[claim.standing]
    if said and is_known(said) and kept_word(said, word) == said:
        return
    entry["status"] = word
    ended = view.times_of(claim.task).ended
    if claim.standing is ClaimedStatus.DONE and ended is not None:
        entry["completed_at"] = iso_time(ended)


def _add_missing(
    view: ExportedRun, document: Node, phases: list[PlanPhase], claims: Mapping[str, Claim]
) -> None:
    """Add the tasks that the document does not have, stage by stage."""
    known = {subtask.id for phase in phases for subtask in phase.subtasks}
    is_flat = any(phase.entry is document for phase in phases)
    for stage in view.plan.stages:
        subtasks = [_subtask(task, claims[task.id]) for task in stage.tasks if task.id not in known]
        if subtasks and is_flat:
            key = next((key for key in ITEM_KEYS if document.get(key)), ITEM_KEYS[0])
            _list_under(document, key).extend(subtasks)
        elif subtasks:
            _list_under(document, "phases").append(_phase(stage, subtasks, document))


def _list_under(document: Node, key: str) -> list[Any]:
    """Return the list under a key, to append to. An object of named objects becomes a list."""
    found = document.get(key)
    listed: list[Any] = found if isinstance(found, list) else nodes(found)
    document[key] = listed
    return listed


def _phase(stage: Stage, subtasks: list[Node], document: Node) -> Node:
    """Return a new phase. Others depend on its number; it has no `id`, so they need not use ids."""
    numbers = {phase.id: number for number, phase in enumerate(phases_of(document), 1)}
    own = {task.id for task in stage.tasks}
    return {
        "phase": len(numbers) + 1,
        "phase_id": stage.id,
        "name": stage.title or stage.id,
        "type": "implementation",
        "depends_on": [numbers[need] for need in stage.needs if need in numbers],
        "parallel_safe": not any(own & set(task.needs) for task in stage.tasks),
        "subtasks": subtasks,
    }


def _subtask(task: Task, claim: Claim) -> Node:
    entry: Node = {
        "id": task.id,
        "title": task.title,
        "description": task.prompt or f"Run `{shlex.join(task.run)}`",
        "status": _WORDS[claim.standing],
        "depends_on": list(task.needs),
        "files_to_modify": [],
        "files_to_create": list(task.files),
        "patterns_from": [],
    }
    if task.verify:
        several = {"commands": list(task.verify)} if len(task.verify) > 1 else {}
        entry["verification"] = {"type": "command", "run": " && ".join(task.verify), **several}
    if task.acceptance:
        entry["acceptance_criteria"] = list(task.acceptance)
    return entry


def _write_head(view: ExportedRun, document: Node) -> None:
    """Write the status of the whole plan, also into the newest keys if the document has them."""
    words = _HEAD_WORDS.get(view.row.status, _RUNNING_WORDS)
    for key, word in zip(_HEAD_KEYS, words, strict=True):
        said = text(document.get(key))
        stays = is_known(said) and claimed_status(said) in _KEPT_WORDS
        if key in ("status", "planStatus") or key in document:
            document[key] = kept_word(said, word) if stays else word
    if view.row.status is RunStatus.BLOCKED or "reviewReason" in document:
        document["reviewReason"] = "errors" if view.row.status is RunStatus.BLOCKED else None
    document["updated_at"] = iso_time(view.updated)
    if "last_updated" in document:
        document["last_updated"] = iso_time(view.updated)
