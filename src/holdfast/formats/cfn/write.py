"""Writes a Holdfast run in CFN Loop's format: the export with all records, and the updated epic file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from holdfast.core.plan import Task
from holdfast.core.status import RunStatus, TaskStatus
from holdfast.formats import extra_fields
from holdfast.formats.cfn.epic import PHASE_ID, Sprint, assemble_epic, phases_of, read_epic
from holdfast.formats.cfn.layout import FOLDER, CfnDocument, kind_of
from holdfast.formats.cfn.read import READERS
from holdfast.formats.cfn.record_writer import (
    EPIC_WORDS,
    SPRINT_WORDS,
    ExportedSprint,
    exported_sprints,
    is_agent_of_ours,
    records_of,
)
from holdfast.formats.cfn.sprint import SPRINT_ID
from holdfast.formats.exported_run import ExportedRun, NativeFile, group_status
from holdfast.formats.lenient_json import Node, iso_time, node, nodes, object_in, text, to_json
from holdfast.formats.model import ClaimedStatus
from holdfast.formats.plan_assembly import task_ids
from holdfast.formats.status_words import claimed_status
from holdfast.reporting.displayed_status import displayed_run_status

_VERSION = 1
_PHASE_WORDS = {
    ClaimedStatus.PENDING: "not_started",
    ClaimedStatus.RUNNING: "in_progress",
    ClaimedStatus.FAILED: "failed",
    ClaimedStatus.DONE: "completed",
    ClaimedStatus.SKIPPED: "skipped",
}


@dataclass(frozen=True, slots=True)
class Original:
    """The document that a run was adopted from: its place below the project, its kind, and its epic.

    `sprints` maps our ids to sprints. `path` is empty if the document was outside the project.
    """

    path: str
    kind: CfnDocument
    root: Node
    epic: str
    sprints: dict[str, Sprint]

    @property
    def natives(self) -> dict[str, str]:
        """The native names of the sprints by our ids."""
        return {task: sprint.native for task, sprint in self.sprints.items()}


def write(view: ExportedRun, originals: Mapping[str, bytes]) -> list[NativeFile]:
    """Return the export first: it is the state. An adopted epic file follows, with current statuses."""
    original = find_original(view, originals)
    path = f"{FOLDER}/{task_ids([view.name], 'epic')[0]}.json"
    if original is None:
        return [_export(view, path, view.name, exported_sprints(view, view.name, {}), {})]
    epic = original.epic
    sprints = exported_sprints(view, epic, original.natives)
    if original.kind is CfnDocument.EXPORT:
        return [_export(view, original.path or path, epic, sprints, original.root)]
    if original.kind is CfnDocument.DUMP:
        merged = _merged(original.root, records_of(view, epic, sprints))
        return [NativeFile(path=original.path or path, content=to_json(merged))]
    files = [_export(view, path, epic, sprints, {})]
    if original.path:
        files.append(NativeFile(path=original.path, content=to_json(_epic_file(view, original))))
    return files


def find_original(view: ExportedRun, originals: Mapping[str, bytes]) -> Original | None:
    """Return the first document whose sprints are those of the run; None if there is none."""
    wanted = {task.id for _, task in view.plan.tasks()}
    for path, data in originals.items():
        root = object_in(path, data)
        kind = kind_of(root)
        if kind in (CfnDocument.EXPORT, CfnDocument.DUMP, CfnDocument.EPIC):
            model = READERS[kind](root)
            sprints = dict(zip(assemble_epic(model).ids, model.sprints, strict=True))
            if wanted <= sprints.keys():
                return Original(path if "/" in path else "", kind, root, model.name, sprints)
    return None


def _export(
    view: ExportedRun, path: str, epic: str, sprints: list[ExportedSprint], before: Node
) -> NativeFile:
    """Return the export: what `recovery export` documents for people, then every record under its key."""
    status = displayed_run_status(view.row, held=view.live)
    export = {
        **before,
        "version": before.get("version", _VERSION),
        "exported_at": iso_time(view.written_at),
        "epic": {
            **node(before.get("epic")),
            "id": epic,
            "name": view.plan.goal,
            "status": EPIC_WORDS[status],
            "lastCheckpoint": iso_time(view.updated),
        },
        "sprints": _merged_rows(before.get("sprints"), list(map(_sprint_row, sprints))),
        "config": before.get("config") or _config(view, epic),
        "records": _merged(node(before.get("records")), records_of(view, epic, sprints)),
    }
    return NativeFile(path=path, content=to_json(export))


def _sprint_row(sprint: ExportedSprint) -> Node:
    """Return a sprint as in the documented export: files done and open, and the agent's position in them."""
    report, landed = sprint.report, sprint.landed_files
    is_open = bool(report.file) and not landed
    row: Node = {
        "id": sprint.native,
        "status": sprint.word,
        "progress": sprint.progress,
        "filesCompleted": list(landed),
        "filesInProgress": [report.file] if is_open else [],
    }
    checkpoint = {
        "file": report.file,
        "function": report.section_done or None,
        "line": report.line,
        "confidence": report.confidence,
    }
    return row | ({"lastCheckpoint": checkpoint} if is_open else {})


def _config(view: ExportedRun, epic: str) -> Node:
    """Return the plan as an epic file, so that an export can be continued without anything else.

    It has extra fields where the native ones cannot express the plan completely.
    """
    plan = view.plan
    document: Node = {
        "epicId": epic,
        "name": plan.goal,
        "phases": [
            {
                "phaseId": stage.id,
                "name": stage.title or stage.id,
                "dependencies": list(stage.needs),
                "sprints": [_config_sprint(task) for task in stage.tasks],
            }
            for stage in plan.stages
        ],
        "resource_limits": {"max_parallel_sprints": plan.limits.jobs},
    }
    read = assemble_epic(read_epic(document)).plan
    extra_fields.add_to_plan(document, "phases", "sprints", extra_fields.differences(view, read))
    return document


def _config_sprint(task: Task) -> Node:
    interfaces = ({"sprint": need, "type": "interface"} for need in task.needs_interface)
    said = {
        "name": task.title,
        "description": task.prompt,
        "run": list(task.run),
        "dependencies": [*task.needs, *interfaces],
        "acceptanceCriteria": list(task.acceptance),
        "deliverables": list(task.files),
        "testCommands": list(task.verify),
        "validators": [
            {"id": each.id, **({"run": list(each.run)} if each.run else {"prompt": each.prompt})}
            for each in task.validators
        ],
    }
    filled = {key: value for key, value in said.items() if value}
    return {"sprintId": task.id, **filled, "confidenceThreshold": task.gate}


def _merged(before: Node, found: Mapping[str, Node]) -> Node:
    """Return the old records with ours merged over them; unknown keys and fields stay. Text stays text."""
    merged = {key: value for key, value in before.items() if key in found or not is_agent_of_ours(key)}
    for key, record in found.items():
        old = before.get(key)
        if isinstance(old, str):
            whole = merged_record(object_in(key, old.encode()), record)
            merged[key] = msgspec.json.encode(whole).decode()
        else:
            merged[key] = merged_record(node(old), record)
    return merged


def merged_record(before: Node, record: Node) -> Node:
    """Return a record merged over the old one.

    What was in progress and has not begun here stays in progress.
    """
    merged = {**before, **record}
    said, now = text(before.get("status")), text(record.get("status"))
    was_running = claimed_status(said) is ClaimedStatus.RUNNING
    if was_running and claimed_status(now) is ClaimedStatus.PENDING:
        merged["status"] = said
    if "sprints" in record:
        merged["sprints"] = _merged_rows(before.get("sprints"), record["sprints"])
    return merged


def _merged_rows(before: object, rows: list[Node]) -> list[Node]:
    """Return rows of sprints, with the other fields of their old rows."""
    old = {SPRINT_ID.text(row): row for row in nodes(before)}
    return [{**old.get(SPRINT_ID.text(row), {}), **row} for row in rows]


def _epic_file(view: ExportedRun, original: Original) -> Node:
    """Return the epic's own file with the current statuses of its sprints, its phases and the epic."""
    phases: dict[str, list[ClaimedStatus]] = {}
    for task, sprint in original.sprints.items():
        row, claim = view.row_of(task), sprint.claim
        standing = view.claim_of(task).standing
        phases.setdefault(sprint.stage, []).append(standing)
        is_untouched = row.status is TaskStatus.PENDING and row.attempt <= claim.attempts
        if not is_untouched or claim.standing is ClaimedStatus.DONE:
            _set_status(sprint.record, standing, SPRINT_WORDS[row.status])
    for phase, own in phases_of(original.root):
        if "status" in own and (standings := phases.get(PHASE_ID.text(phase))):
            standing = group_status(standings)
            _set_status(own, standing, _PHASE_WORDS[standing])
    holder = node(original.root.get("epic")) or original.root
    if "status" in holder and view.row.status is not RunStatus.PENDING:
        is_over = view.row.status is RunStatus.COMPLETED
        whole = ClaimedStatus.DONE if is_over else ClaimedStatus.RUNNING
        _set_status(holder, whole, EPIC_WORDS[view.row.status])
    return original.root


def _set_status(place: Node, standing: ClaimedStatus, word: str) -> None:
    """Change a status, unless its word already means the same."""
    if claimed_status(text(place.get("status"))) is not standing:
        place["status"] = word
