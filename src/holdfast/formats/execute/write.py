"""Writes a Holdfast run in Execute's format: `execute-state.json`, and its layer plan or ledger."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from holdfast.core.plan import Task
from holdfast.core.status import RunStatus, TaskStatus
from holdfast.formats import extra_fields
from holdfast.formats.execute.documents import (
    LAYER_PLAN,
    STATE,
    TASK_REFERENCE,
    ExecuteDocuments,
    new_ledger_path,
    new_state_path,
    parse_documents,
)
from holdfast.formats.execute.state_document import current, layers, lists, merge_queue, metrics, task_entry
from holdfast.formats.execute.tasks import collect_tasks, state_tasks
from holdfast.formats.exported_run import ExportedRun, NativeFile
from holdfast.formats.lenient_json import BrokenFileError, Node, iso_time, text, to_json
from holdfast.formats.plan_assembly import task_ids
from holdfast.formats.status_words import kept_word

_VERSION = "2.0"
_RUN_WORDS = {
    RunStatus.PENDING: "pending",
    RunStatus.RUNNING: "in_progress",
    RunStatus.INTERRUPTED: "in_progress",
    RunStatus.PAUSED: "stopped",
    RunStatus.STOPPED: "stopped",
    RunStatus.BLOCKED: "stopped",
    RunStatus.COMPLETED: "completed",
    RunStatus.ABANDONED: "abandoned",
}


class _Names(msgspec.Struct, frozen=True, kw_only=True):
    """Native names by our ids: from the originals, else our own ids."""

    tasks: dict[str, str]
    layers: dict[str, str]


def write(view: ExportedRun, originals: Mapping[str, bytes]) -> list[NativeFile]:
    """Return the state first, then the ledger of version 3, or the plan of a run that began here."""
    documents = _parse_originals(originals)
    names = _names(view, documents)
    slug = task_ids([view.name], "run")[0]
    path = documents.state_path if "/" in documents.state_path else new_state_path(slug)
    files = [NativeFile(path=path, content=to_json(_state(view, documents, names, path, slug)))]
    if documents.has_ledger:
        files.append(_ledger(view, documents, names, slug))
    if documents.is_empty:
        plan = to_json(_layer_plan(view))
        files.append(NativeFile(path=path.removesuffix(STATE) + LAYER_PLAN, content=plan))
    return files


def _parse_originals(originals: Mapping[str, bytes]) -> ExecuteDocuments:
    """Return the originals; empty if they are another system's."""
    try:
        return parse_documents(next(iter(originals), ""), originals)
    except BrokenFileError:
        return ExecuteDocuments()


def _names(view: ExportedRun, documents: ExecuteDocuments) -> _Names:
    """Return the native name of each task and layer, with the same assignment of ids as `read`."""
    tasks = {task.id: task.id for _, task in view.plan.tasks()}
    stages = {stage.id: stage.id for stage in view.plan.stages}
    made = collect_tasks(documents).assembly
    return _Names(
        tasks=tasks | {claim.task: claim.native for claim in made.claims if claim.task in tasks},
        layers=stages | {name: native for native, name in made.stages.items() if name in stages},
    )


def _state(view: ExportedRun, documents: ExecuteDocuments, names: _Names, path: str, slug: str) -> Node:
    before, status = documents.state, view.row.status
    fresh: Node = {
        "schema_version": _VERSION,
        "prd_slug": slug,
        "project_path": view.project,
        "worktree_dir": f"{view.project}/.worktrees",
        "tasks_path": f"{view.project}/{path.removesuffix(STATE).rstrip('/')}",
        "status": "pending",
        "current_layer": None,
        "current_batch": None,
        "started_at": iso_time(view.started),
        "updated_at": None,
        "completed_at": None,
        "options": {"max_parallel": view.plan.limits.jobs},
    }
    if status is RunStatus.BLOCKED and TaskStatus.ABANDONED in (row.status for row in view.tasks.values()):
        status = RunStatus.ABANDONED
    return {
        **before,
        **{key: value for key, value in fresh.items() if key not in before},
        "status": kept_word(text(before.get("status")), _RUN_WORDS[status], stays_begun=True),
        **current(view, names.layers),
        "updated_at": iso_time(view.updated),
        "completed_at": iso_time(view.updated) if status is RunStatus.COMPLETED else None,
        "layers": layers(view, names.layers, before.get("layers")),
        "tasks": _tasks(view, documents, names),
        "merge_queue": merge_queue(view, names.tasks, before.get("merge_queue")),
        **lists(view, names.tasks),
        "metrics": metrics(view, before.get("metrics")),
    }


def _tasks(view: ExportedRun, documents: ExecuteDocuments, names: _Names) -> object:
    """Return the tasks in their old kind of container, each entry based on its old one."""
    entries = state_tasks(documents.state)
    for task, native in names.tasks.items():
        entries[native] = task_entry(view, task, entries.get(native, {}), has_ledger=documents.has_ledger)
    if isinstance(documents.state.get("tasks"), list):
        return [
            entry if "id" in entry or "task_id" in entry else {"id": name, **entry}
            for name, entry in entries.items()
        ]
    return entries


def _ledger(view: ExportedRun, documents: ExecuteDocuments, names: _Names, slug: str) -> NativeFile:
    """Return the ledger with a line for each new landing. Existing lines stay."""
    known = {TASK_REFERENCE.text(line) for line in documents.ledger}
    landed = [row for row in view.rows if row.merge_commit and row.status is TaskStatus.COMPLETED]
    lines = documents.ledger + [
        {
            "task_id": names.tasks[row.id],
            "commit": row.merge_commit,
            "at": iso_time(view.times_of(row.id).ended or view.updated),
            "attempts": row.attempt,
            "verified": True,
        }
        for row in sorted(landed, key=lambda row: row.queue_number)
        if names.tasks[row.id] not in known
    ]
    path = documents.ledger_path if "/" in documents.ledger_path else new_ledger_path(slug)
    return NativeFile(path=path, content=b"".join(msgspec.json.encode(line) + b"\n" for line in lines))


def _layer_plan(view: ExportedRun) -> Node:
    """Return the plan of a run that Execute never saw, with extra fields where native ones are not enough."""
    document: Node = {
        "goal": view.plan.goal,
        "layers": [
            {
                "id": stage.id,
                "name": stage.title or stage.id,
                "depends_on": list(stage.needs),
                "tasks": [_planned(task) for task in stage.tasks],
            }
            for stage in view.plan.stages
        ],
        "dependency_graph": {task.id: [*task.needs, *task.needs_interface] for _, task in view.plan.tasks()},
        "summary": {"total_tasks": sum(len(stage.tasks) for stage in view.plan.stages)},
    }
    read = collect_tasks(ExecuteDocuments(layer_plan=document)).assembly.plan
    extra_fields.add_to_plan(document, "layers", "tasks", extra_fields.differences(view, read))
    return document


def _planned(task: Task) -> Node:
    said = {
        "title": task.title,
        "description": task.prompt,
        "run": list(task.run),
        "files": list(task.files),
        "verification": list(task.verify),
        "acceptance_criteria": list(task.acceptance),
    }
    needs = [*task.needs, *task.needs_interface]
    return {"id": task.id, **{key: value for key, value in said.items() if value}, "depends_on": needs}
