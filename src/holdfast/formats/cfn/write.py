"""A run of ours as CFN Loop keeps it: the recovery export with all records, and the epic's own file kept up to date."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from holdfast.core.plan import Task, Validator
from holdfast.core.status import RunStatus, TaskStatus
from holdfast.formats import extra_fields
from holdfast.formats.cfn.epic_file import phase_name, phases_of, read_epic
from holdfast.formats.cfn.epic_model import EpicModel
from holdfast.formats.cfn.layout import CfnDocument, export_path, kind_of, parse_key
from holdfast.formats.cfn.read import assemble_epic, read_document
from holdfast.formats.cfn.record_writer import (
    EPIC_WORDS,
    SPRINT_WORDS,
    NativeNames,
    progress,
    records,
    word_of,
)
from holdfast.formats.cfn.sprint import native_of
from holdfast.formats.lenient_json import Node, iso_time, node, nodes, object_in, text, to_json
from holdfast.formats.model import ClaimedStatus, ExportedRun, NativeFile
from holdfast.formats.plan_assembly import task_ids
from holdfast.formats.run_to_claims import claim_of, group_status, row_of
from holdfast.formats.status_words import claimed_status
from holdfast.reporting.displayed_status import displayed_run_status


def config_of(view: ExportedRun, epic: str) -> Node:
    """Return the epic file, with notes where its words are not enough to read the same plan back."""
    plan = view.plan
    document: Node = {
        "epicId": epic,
        "name": plan.goal,
        "phases": [
            {
                "phaseId": stage.id,
                "name": stage.title or stage.id,
                "dependencies": list(stage.needs),
                "sprints": [_sprint(task) for task in stage.tasks],
            }
            for stage in plan.stages
        ],
        "resource_limits": {"max_parallel_sprints": plan.limits.jobs},
    }
    read = assemble_epic(read_epic(document)).plan
    extra_fields.add_to_plan(document, "phases", "sprints", extra_fields.differences(view, read))
    return document


def _sprint(task: Task) -> Node:
    said = {
        "name": task.title,
        "description": task.prompt,
        "run": list(task.run),
        "dependencies": [
            *task.needs,
            *({"sprint": need, "type": "interface"} for need in task.needs_interface),
        ],
        "acceptanceCriteria": list(task.acceptance),
        "deliverables": list(task.files),
        "testCommands": list(task.verify),
        "validators": [_validator(judge) for judge in task.validators],
    }
    kept = {key: value for key, value in said.items() if value}
    return {"sprintId": task.id, **kept, "confidenceThreshold": task.gate}


def _validator(judge: Validator) -> Node:
    return {"id": judge.id, **({"run": list(judge.run)} if judge.run else {"prompt": judge.prompt})}


_VERSION = 1
_PHASE_WORDS = {
    ClaimedStatus.PENDING: "not_started",
    ClaimedStatus.RUNNING: "in_progress",
    ClaimedStatus.FAILED: "failed",
    ClaimedStatus.BLOCKED: "blocked",
    ClaimedStatus.DONE: "completed",
    ClaimedStatus.SKIPPED: "skipped",
    ClaimedStatus.ABANDONED: "abandoned",
}


class _Original(msgspec.Struct, frozen=True, kw_only=True):
    """The document that a run was adopted from: where it was, what it is, and how it was read."""

    path: str
    kind: CfnDocument
    root: Node
    sheet: EpicModel


def write(view: ExportedRun, originals: Mapping[str, bytes]) -> list[NativeFile]:
    """Return the export first: it is the state. An adopted epic file follows, with its statuses as they are now."""
    original = _original(view, originals)
    names, epic = _names(view, original), original.sheet.name if original else view.name
    found = records(view, epic, names)
    if original and original.kind is CfnDocument.DUMP:
        return [NativeFile(path=_place(original, view), content=to_json(_merged(original.root, found)))]
    export = original.root if original and original.kind is CfnDocument.EXPORT else {}
    at = _place(original, view) if export else export_path(_file_name(view))
    files = [NativeFile(path=at, content=to_json(_export(view, epic, names, found, export)))]
    if original and original.kind is CfnDocument.EPIC and "/" in original.path:
        files.append(NativeFile(path=original.path, content=to_json(_epic_file(view, original))))
    return files


def _file_name(view: ExportedRun) -> str:
    return task_ids([view.name], "epic")[0]


def _place(original: _Original | None, view: ExportedRun) -> str:
    inside = original is not None and "/" in original.path
    return original.path if original and inside else export_path(_file_name(view))


def _original(view: ExportedRun, originals: Mapping[str, bytes]) -> _Original | None:
    """Return the first document whose sprints are those of the run; None if it came from elsewhere."""
    wanted = {task.id for _, task in view.plan.tasks()}
    for path, data in originals.items():
        root = object_in(path, data)
        kind = kind_of(root)
        if kind in (CfnDocument.EXPORT, CfnDocument.DUMP, CfnDocument.EPIC):
            sheet = read_document(root)
            if wanted <= set(assemble_epic(sheet).ids):
                return _Original(path=path, kind=kind, root=root, sheet=sheet)
    return None


def _names(view: ExportedRun, original: _Original | None) -> NativeNames:
    """Give back to each sprint the name that `read` found it under, by the same assignment of ids."""
    names = {task.id: task.id for _, task in view.plan.tasks()}
    if original:
        ids = assemble_epic(original.sheet).ids
        found = zip(ids, (draft.native for draft in original.sheet.drafts), strict=True)
        names |= {name: native for name, native in found if name in names}
    return names


def _export(view: ExportedRun, epic: str, names: NativeNames, found: dict[str, Node], before: Node) -> Node:
    """Return the export: what `recovery export` documents for people, then every record under its key."""
    status = displayed_run_status(view.row, held=view.live)
    plan = before.get("config") or config_of(view, epic)
    return {
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
        "sprints": _rows(
            before.get("sprints"), [_summary(view, task, names) for _, task in view.plan.tasks()]
        ),
        "config": plan,
        "records": _merged(node(before.get("records")), found),
    }


def _summary(view: ExportedRun, task: Task, names: NativeNames) -> Node:
    """Return a sprint as the documented export shows it: files done and open, and where in them its agent was."""
    row = row_of(view, task.id)
    report = row.report or row.last_report
    landed = view.files.get(task.id, ()) if row.status is TaskStatus.COMPLETED else ()
    summary: Node = {
        "id": names[task.id],
        "status": word_of(view, task),
        "progress": progress(row),
        "filesCompleted": list(landed),
        "filesInProgress": [report.file] if report and report.file and not landed else [],
    }
    if report and report.file and not landed:
        summary["lastCheckpoint"] = {
            "file": report.file,
            "function": report.section_done or None,
            "line": report.line,
            "confidence": report.confidence,
        }
    return summary


def _merged(before: Node, found: Mapping[str, Node]) -> Node:
    """Return the records with ours laid over them; keys and fields that we do not know stay. Text stays text."""
    merged: Node = {
        key: value for key, value in before.items() if key in found or not _is_stale_agent(key, found)
    }
    for key, record in found.items():
        old = before.get(key)
        known = object_in(key, old.encode()) if isinstance(old, str) else node(old)
        whole = _over(known, record)
        merged[key] = msgspec.json.encode(whole).decode() if isinstance(old, str) else whole
    return merged


def _over(before: Node, record: Node) -> Node:
    """Lay a record over what it was. What was in progress and has not begun here still is."""
    said, now = text(before.get("status")), claimed_status(text(record.get("status")))
    goes_on = claimed_status(said) is ClaimedStatus.RUNNING and now is ClaimedStatus.PENDING
    status = {"status": said} if said and goes_on else {}
    rows = {"sprints": _rows(before.get("sprints"), record["sprints"])} if "sprints" in record else {}
    return {**before, **record, **status, **rows}


def _rows(before: object, rows: list[Node]) -> list[Node]:
    """Return rows of sprints with what their old ones said besides."""
    old = {native_of(row): row for row in nodes(before)}
    return [{**old.get(native_of(row), {}), **row} for row in rows]


def _is_stale_agent(key: str, found: Mapping[str, Node]) -> bool:
    """Tell whether a record is of an agent of ours that is gone; those of other systems are not ours to drop."""
    parsed = parse_key(key)
    return parsed is not None and "-coder-" in parsed[1] and key.startswith("agent:") and key not in found


def _epic_file(view: ExportedRun, original: _Original) -> Node:
    """Return the epic's own file with the statuses of its sprints, its phases and the whole as they are now."""
    sheet = original.sheet
    phases: dict[str, list[ClaimedStatus]] = {}
    for task, draft, sprint in zip(assemble_epic(sheet).ids, sheet.drafts, sheet.own, strict=True):
        row = row_of(view, task)
        untouched = row.status is TaskStatus.PENDING and row.attempt <= draft.claim.attempts
        phases.setdefault(draft.stage, []).append(claim_of(view, task).standing)
        if not untouched or draft.claim.standing is ClaimedStatus.DONE:
            _restate(sprint, claim_of(view, task).standing, SPRINT_WORDS[row.status])
    for phase, own in phases_of(original.root):
        if "status" in own and (standings := phases.get(phase_name(phase))):
            standing = group_status(standings)
            _restate(own, standing, _PHASE_WORDS[standing])
    holder = node(original.root.get("epic")) or original.root
    if "status" in holder and view.row.status is not RunStatus.PENDING:
        whole = ClaimedStatus.DONE if view.row.status is RunStatus.COMPLETED else ClaimedStatus.RUNNING
        _restate(holder, whole, EPIC_WORDS[view.row.status])
    return original.root


def _restate(place: Node, standing: ClaimedStatus, word: str) -> None:
    """Change a status that says something else; a word that says this already stays as it is."""
    said = text(place.get("status"))
    if claimed_status(said) is not standing:
        place["status"] = word
