"""A run of ours as Execute keeps it: a whole `execute-state.json`, and the layer plan or the ledger that go with it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from holdfast.core.plan import Task
from holdfast.core.status import RunStatus, TaskStatus
from holdfast.formats import extra_fields
from holdfast.formats.execute.documents import (
    LAYER_PLAN,
    STATE,
    ExecuteDocuments,
    ledger_path,
    sort_documents,
    state_path,
)
from holdfast.formats.execute.read import assemble_run
from holdfast.formats.execute.state_document import (
    current,
    entry_of,
    layers,
    lists,
    merge_queue,
    metrics,
    restated,
)
from holdfast.formats.execute.tasks import collect_tasks, state_tasks
from holdfast.formats.lenient_json import BrokenFileError, Node, iso_time, text, to_json
from holdfast.formats.model import ClaimedStatus, ExportedRun, NativeFile, Times
from holdfast.formats.plan_assembly import task_ids
from holdfast.formats.run_to_claims import row_of

_VERSION = "2.0"
_RUN_WORDS = {
    RunStatus.PENDING: ("pending", ClaimedStatus.PENDING),
    RunStatus.RUNNING: ("in_progress", ClaimedStatus.RUNNING),
    RunStatus.INTERRUPTED: ("in_progress", ClaimedStatus.RUNNING),
    RunStatus.PAUSED: ("stopped", ClaimedStatus.RUNNING),
    RunStatus.STOPPED: ("stopped", ClaimedStatus.RUNNING),
    RunStatus.BLOCKED: ("stopped", ClaimedStatus.RUNNING),
    RunStatus.COMPLETED: ("completed", ClaimedStatus.DONE),
    RunStatus.ABANDONED: ("abandoned", ClaimedStatus.ABANDONED),
}


class _Names(msgspec.Struct, frozen=True, kw_only=True):
    """Native names by our ids: what the originals call each task and layer, else our own ids."""

    tasks: dict[str, str]
    layers: dict[str, str]


def write(view: ExportedRun, originals: Mapping[str, bytes]) -> list[NativeFile]:
    """Return the state first, then what is derived from it: the ledger of version 3, the plan of a run of our own."""
    papers = _papers(originals)
    names = _names(view, papers)
    slug = task_ids([view.name], "run")[0]
    at = papers.state_at if "/" in papers.state_at else state_path(slug)
    files = [NativeFile(path=at, content=to_json(_state(view, papers, names, at, slug)))]
    if _is_derived(papers):
        files.append(_ledger(view, papers, names, slug))
    if not (papers.state or papers.layer_plan or papers.manifest or papers.tasks or papers.ledger):
        plan = _layer_plan(view)
        files.append(NativeFile(path=at.removesuffix(STATE) + LAYER_PLAN, content=to_json(plan)))
    return files


def _papers(originals: Mapping[str, bytes]) -> ExecuteDocuments:
    """Return the originals, or nothing where they are another system's."""
    try:
        return sort_documents(next(iter(originals), ""), originals)
    except BrokenFileError:
        return ExecuteDocuments()


def _names(view: ExportedRun, papers: ExecuteDocuments) -> _Names:
    """Give back to each task and layer the name that `read` found it under, by the same assignment of ids."""
    tasks = {task.id: task.id for _, task in view.plan.tasks()}
    stages = {stage.id: stage.id for stage in view.plan.stages}
    roster = collect_tasks(papers)
    made = assemble_run(papers, roster)
    found = dict(zip(made.ids, (draft.native for draft in roster.drafts), strict=True))
    return _Names(
        tasks=tasks | {name: native for name, native in found.items() if name in tasks},
        layers=stages | {name: native for native, name in made.stages.items() if name in stages},
    )


def _is_derived(papers: ExecuteDocuments) -> bool:
    return text(papers.state.get("schema_version")).startswith("3") or bool(papers.ledger)


def _state(view: ExportedRun, papers: ExecuteDocuments, names: _Names, at: str, slug: str) -> Node:
    before = papers.state
    fresh: Node = {
        "schema_version": _VERSION,
        "prd_slug": slug,
        "project_path": view.project,
        "worktree_dir": f"{view.project}/.worktrees",
        "tasks_path": f"{view.project}/{at.removesuffix(STATE).rstrip('/')}",
        "status": "pending",
        "current_layer": None,
        "current_batch": None,
        "started_at": iso_time(view.started),
        "updated_at": None,
        "completed_at": None,
        "options": {"max_parallel": view.plan.limits.jobs},
    }
    word, standing = _RUN_WORDS[view.row.status]
    if view.row.status is RunStatus.BLOCKED and _gave_up(view):
        word, standing = "abandoned", ClaimedStatus.ABANDONED
    done = view.row.status is RunStatus.COMPLETED
    return {
        **before,
        **{key: value for key, value in fresh.items() if key not in before},
        "status": restated(text(before.get("status")), standing, word),
        **current(view, names.layers),
        "updated_at": iso_time(view.updated),
        "completed_at": iso_time(view.updated) if done else None,
        "layers": layers(view, names.layers, before.get("layers")),
        "tasks": _tasks(view, papers, names),
        "merge_queue": merge_queue(view, names.tasks, before.get("merge_queue")),
        **lists(view, names.tasks),
        "metrics": metrics(view, before.get("metrics")),
    }


def _gave_up(view: ExportedRun) -> bool:
    return any(row.status is TaskStatus.ABANDONED for row in view.tasks.values())


def _tasks(view: ExportedRun, papers: ExecuteDocuments, names: _Names) -> object:
    """Return the tasks in the container they were in, each entry made from what it was before."""
    derived = _is_derived(papers)
    entries = state_tasks(papers.state)
    ids = {native: task for task, native in names.tasks.items()}
    for native in [*entries, *(name for name in ids if name not in entries)]:
        if native in ids:
            entries[native] = entry_of(view, ids[native], entries.get(native, {}), derived=derived)
    if isinstance(papers.state.get("tasks"), list):
        return [
            entry if "id" in entry or "task_id" in entry else {"id": name, **entry}
            for name, entry in entries.items()
        ]
    return entries


def _ledger(view: ExportedRun, papers: ExecuteDocuments, names: _Names, slug: str) -> NativeFile:
    """Return the ledger with a line for each landing that it does not have yet. Lines that are there are kept."""
    at = papers.ledger_at if "/" in papers.ledger_at else ledger_path(slug)
    known = {text(line.get("task_id")) for line in papers.ledger}
    landed = [row for _, task in view.plan.tasks() if (row := row_of(view, task.id)).merge_commit]
    landed = [
        row for row in landed if row.status is TaskStatus.COMPLETED and names.tasks[row.id] not in known
    ]
    lines = papers.ledger + [
        {
            "task_id": names.tasks[row.id],
            "commit": row.merge_commit,
            "at": iso_time(view.task_times.get(row.id, Times()).ended or view.updated),
            "attempts": row.attempt,
            "verified": True,
        }
        for row in sorted(landed, key=lambda row: row.queue_number)
    ]
    return NativeFile(path=at, content=b"".join(msgspec.json.encode(line) + b"\n" for line in lines))


def _layer_plan(view: ExportedRun) -> Node:
    """Return the plan of a run that Execute never saw, with notes where its words are not enough to read it back."""
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
    papers = ExecuteDocuments(layer_plan=document)
    read = assemble_run(papers, collect_tasks(papers)).plan
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
