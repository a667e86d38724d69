"""A run of ours as CFN Loop keeps it: the recovery export with all records, and the epic's own file kept up to date."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from holdfast.core.plan import Task
from holdfast.core.shown import shown_run_status
from holdfast.core.status import RunStatus, TaskStatus
from holdfast.formats.cfn.config import config_of
from holdfast.formats.cfn.epic import phase_name, phases_of
from holdfast.formats.cfn.layout import Kind, export_path, kind_of, parse_key
from holdfast.formats.cfn.read import lay_out, put_together
from holdfast.formats.cfn.records import EPIC_WORDS, SPRINT_WORDS, Names, progress, records, word_of
from holdfast.formats.cfn.sheet import Sheet
from holdfast.formats.cfn.sprint import native_of
from holdfast.formats.loose import Node, node, nodes, object_in, text, to_json
from holdfast.formats.model import NativeFile, RunView, Standing
from holdfast.formats.naming import task_ids
from holdfast.formats.rows import claim_of, row_of, together
from holdfast.formats.stamps import stamp
from holdfast.formats.words import standing_of

_VERSION = 1
_PHASE_WORDS = {
    Standing.PENDING: "not_started",
    Standing.RUNNING: "in_progress",
    Standing.FAILED: "failed",
    Standing.BLOCKED: "blocked",
    Standing.DONE: "completed",
    Standing.SKIPPED: "skipped",
    Standing.ABANDONED: "abandoned",
}


class _Original(msgspec.Struct, frozen=True, kw_only=True):
    """The document that a run was adopted from: where it was, what it is, and how it was read."""

    path: str
    kind: Kind
    root: Node
    sheet: Sheet


def write(view: RunView, originals: Mapping[str, bytes]) -> list[NativeFile]:
    """Return the export first: it is the state. An adopted epic file follows, with its statuses as they are now."""
    original = _original(view, originals)
    names, epic = _names(view, original), original.sheet.name if original else view.name
    found = records(view, epic, names)
    if original and original.kind is Kind.DUMP:
        return [NativeFile(path=_place(original, view), content=to_json(_merged(original.root, found)))]
    export = original.root if original and original.kind is Kind.EXPORT else {}
    at = _place(original, view) if export else export_path(_file_name(view))
    files = [NativeFile(path=at, content=to_json(_export(view, epic, names, found, export)))]
    if original and original.kind is Kind.EPIC and "/" in original.path:
        files.append(NativeFile(path=original.path, content=to_json(_epic_file(view, original))))
    return files


def _file_name(view: RunView) -> str:
    return task_ids([view.name], "epic")[0]


def _place(original: _Original | None, view: RunView) -> str:
    inside = original is not None and "/" in original.path
    return original.path if original and inside else export_path(_file_name(view))


def _original(view: RunView, originals: Mapping[str, bytes]) -> _Original | None:
    """Return the first document whose sprints are those of the run; None if it came from elsewhere."""
    wanted = {task.id for _, task in view.plan.tasks()}
    for path, data in originals.items():
        root = object_in(path, data)
        kind = kind_of(root)
        if kind in (Kind.EXPORT, Kind.DUMP, Kind.EPIC):
            sheet = lay_out(root)
            if wanted <= set(put_together(sheet).ids):
                return _Original(path=path, kind=kind, root=root, sheet=sheet)
    return None


def _names(view: RunView, original: _Original | None) -> Names:
    """Give back to each sprint the name that `read` found it under, by the same assignment of ids."""
    names = {task.id: task.id for _, task in view.plan.tasks()}
    if original:
        ids = put_together(original.sheet).ids
        found = zip(ids, (draft.native for draft in original.sheet.drafts), strict=True)
        names |= {name: native for name, native in found if name in names}
    return names


def _export(view: RunView, epic: str, names: Names, found: dict[str, Node], before: Node) -> Node:
    """Return the export: what `recovery export` documents for people, then every record under its key."""
    status = shown_run_status(view.row, held=view.live)
    plan = before.get("config") or config_of(view, epic)
    return {
        **before,
        "version": before.get("version", _VERSION),
        "exported_at": stamp(view.written_at),
        "epic": {
            **node(before.get("epic")),
            "id": epic,
            "name": view.plan.goal,
            "status": EPIC_WORDS[status],
            "lastCheckpoint": stamp(view.updated),
        },
        "sprints": _rows(
            before.get("sprints"), [_summary(view, task, names) for _, task in view.plan.tasks()]
        ),
        "config": plan,
        "records": _merged(node(before.get("records")), found),
    }


def _summary(view: RunView, task: Task, names: Names) -> Node:
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
    said, now = text(before.get("status")), standing_of(text(record.get("status")))[0]
    goes_on = standing_of(said)[0] is Standing.RUNNING and now is Standing.PENDING
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


def _epic_file(view: RunView, original: _Original) -> Node:
    """Return the epic's own file with the statuses of its sprints, its phases and the whole as they are now."""
    sheet = original.sheet
    phases: dict[str, list[Standing]] = {}
    for task, draft, sprint in zip(put_together(sheet).ids, sheet.drafts, sheet.own, strict=True):
        row = row_of(view, task)
        untouched = row.status is TaskStatus.PENDING and row.attempt <= draft.claim.attempts
        phases.setdefault(draft.stage, []).append(claim_of(view, task).standing)
        if not untouched or draft.claim.standing is Standing.DONE:
            _restate(sprint, claim_of(view, task).standing, SPRINT_WORDS[row.status])
    for phase, own in phases_of(original.root):
        if "status" in own and (standings := phases.get(phase_name(phase))):
            standing = together(standings)
            _restate(own, standing, _PHASE_WORDS[standing])
    holder = node(original.root.get("epic")) or original.root
    if "status" in holder and view.row.status is not RunStatus.PENDING:
        whole = Standing.DONE if view.row.status is RunStatus.COMPLETED else Standing.RUNNING
        _restate(holder, whole, EPIC_WORDS[view.row.status])
    return original.root


def _restate(place: Node, standing: Standing, word: str) -> None:
    """Change a status that says something else; a word that says this already stays as it is."""
    said = text(place.get("status"))
    if standing_of(said)[0] is not standing:
        place["status"] = word
