"""Writes a Holdfast run in SpecFlow's format: its state, its specification if it has none, and a pause file.

The state of a finished run is archived before the live one is removed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.core.plan import Stage, Task
from holdfast.core.status import RunStatus
from holdfast.formats import extra_fields, markdown
from holdfast.formats.exported_run import ExportedRun, NativeFile, group_status
from holdfast.formats.lenient_json import (
    Node,
    commits,
    iso_time,
    minute,
    node,
    object_in,
    text,
    texts,
    to_json,
)
from holdfast.formats.model import SETTLED, Claim, ClaimedStatus
from holdfast.formats.plan_assembly import task_ids
from holdfast.formats.specflow import layout
from holdfast.formats.specflow.specification import spec_text
from holdfast.formats.specflow.state import Group, is_state, parse_state, results_of, spec_id
from holdfast.formats.status_words import kept_word

_GROUP_WORDS = {
    ClaimedStatus.PENDING: "pending",
    ClaimedStatus.RUNNING: "running",
    ClaimedStatus.DONE: "complete",
    ClaimedStatus.SKIPPED: "complete",
    ClaimedStatus.FAILED: "failed",
    ClaimedStatus.ABANDONED: "failed",
    ClaimedStatus.BLOCKED: "blocked",
}
_WAVE_WORDS = {
    ClaimedStatus.PENDING: "pending",
    ClaimedStatus.RUNNING: "in_progress",
    ClaimedStatus.DONE: "complete",
    ClaimedStatus.SKIPPED: "complete",
    ClaimedStatus.FAILED: "failed",
}
_STATUS_HEADER = ("Spec ID", "Mode", "Progress", "Last Updated")
_NOT_BEGUN = {"status": "pending"}
_RESULT_LISTS = ("commits", "files_created", "files_modified", "criteria_met", "deviations")


def write(view: ExportedRun, originals: Mapping[str, bytes]) -> list[NativeFile]:
    """Return the native files of a run, in an order that keeps them valid at every moment.

    An adopted state is edited; in STATE.md only one row changes.
    """
    document = _original(view, originals)
    name = task_ids([view.name])[0]
    if not document and not name.startswith("SPEC-"):
        name = f"SPEC-{name}"
    # An adopted run already has its specification, even if we did not get it.
    has_spec = bool(document) or any(layout.is_spec(path, name) for path in originals)
    spec = {} if has_spec else {layout.spec_path(name): spec_text(view, name).encode()}
    state = _composed(view, name, document, {**originals, **spec})
    files = _state_files(view, name, to_json(state))
    files += [NativeFile(path=path, content=content) for path, content in spec.items()]
    files += _pause_files(view, name, state)
    if layout.STATE_MD in originals:
        content = with_status(markdown.decoded(originals[layout.STATE_MD]), view, name)
        files.append(NativeFile(path=layout.STATE_MD, content=content.encode()))
    return files


def _original(view: ExportedRun, originals: Mapping[str, bytes]) -> Node:
    """Return the state that a run was adopted from; an empty one if none has its name."""
    for path, data in originals.items():
        state = object_in(path, data) if path.endswith(".json") else {}
        if is_state(state) and spec_id(state, path) == view.name:
            return state
    return {}


def _state_files(view: ExportedRun, name: str, content: bytes) -> list[NativeFile]:
    """Return the live state.

    For a finished run, return the archived one, then the removal of the live one.
    """
    live = layout.state_path(name)
    if not view.is_complete:
        return [NativeFile(path=live, content=content)]
    return [NativeFile(path=layout.archive_path(name), content=content), NativeFile(path=live, gone=True)]


def _pause_files(view: ExportedRun, name: str, state: Node) -> list[NativeFile]:
    """Return `.continue-here` for a run that was paused or stopped. It is removed when the run continues."""
    if view.row.status is RunStatus.PENDING:
        return []
    if not view.is_paused:
        return [NativeFile(path=layout.CONTINUE, gone=True)]
    wave, task, standing = _resting_place(view)
    pause = {
        "type": "orchestrated",
        "spec_id": name,
        "state_file": layout.state_path(name),
        "paused_at": {"wave": wave, "group": task, "status": _GROUP_WORDS[standing]},
        "commits_completed": state["commits"],
        "timestamp": iso_time(view.written_at),
    }
    return [NativeFile(path=layout.CONTINUE, content=to_json(pause))]


def _resting_place(view: ExportedRun) -> tuple[int, str | None, ClaimedStatus]:
    """Return where a run continues: the first group that is not complete."""
    for number, stage in enumerate(view.plan.stages, 1):
        for task in stage.tasks:
            standing = view.claim_of(task.id).standing
            if standing not in SETTLED:
                return number, task.id, standing
    return len(view.plan.stages), None, ClaimedStatus.DONE


def _composed(view: ExportedRun, name: str, document: Node, documents: Mapping[str, bytes]) -> Node:
    """Return the state in SpecFlow's format, with extra fields for the rest; unknown keys stay."""
    # A state without waves relies on its specification: none of its groups can be matched.
    adopted = parse_state(name, document, documents) if document.get("waves") else None
    waves, groups = (adopted.waves_by_stage, adopted.groups) if adopted else ({}, {})
    fresh: Node = {"spec_id": name, "mode": "orchestrated", "started": iso_time(view.started)}
    state = fresh | extra_fields.without(document)
    state["waves"] = [
        _wave(view, number, stage, waves.get(stage.id, {}), groups)
        for number, stage in enumerate(view.plan.stages, 1)
    ]
    landed = tuple(commit for _, task in view.plan.tasks() for commit in view.claim_of(task.id).commits)
    state["commits"] = _joined(commits(document.get("commits")), landed)
    state["last_checkpoint"] = iso_time(view.updated)
    if "status" in document:
        word = "complete" if view.is_complete else "in_progress"
        state["status"] = kept_word(text(document["status"]), word)
    _add_extra_fields(view, name, state, documents)
    return state


def _wave(view: ExportedRun, number: int, stage: Stage, old: Node, groups: Mapping[str, Group]) -> Node:
    """Return a stage as a wave: its status, and the result of each group.

    `old` is the entry of the adopted state, and `groups` are its groups by our tasks.
    """
    claims = {task.id: view.claim_of(task.id) for task in stage.tasks}
    entry: Node = {"id": number, "groups": [], "status": ""} | extra_fields.without(old)
    names = {name: groups[name].name if name in groups else name for name in claims}
    if set(names.values()) != {group.name for group in groups.values() if group.wave.entry is old}:
        entry["groups"] = list(names.values())
    standing = group_status([claim.standing for claim in claims.values()])
    entry["status"] = kept_word(text(entry["status"]), _WAVE_WORDS[standing])
    results = results_of(old) | {
        names[task.id]: _result(view, task, claims[task.id], groups.get(task.id)) for task in stage.tasks
    }
    return entry | {"results": results}


def _joined(old: tuple[str, ...], new: tuple[str, ...]) -> list[str]:
    """Return both lists, each commit once; a full hash replaces an abbreviated one."""
    kept = (each for each in old if not any(other.startswith(each) for other in new))
    return list(dict.fromkeys((*kept, *new)))


def _result(view: ExportedRun, task: Task, claim: Claim, group: Group | None) -> Any:
    """Return the result of a group. A mere status word stays while it still holds and nothing landed."""
    old = group.result if group else None
    if isinstance(old, str) and kept_word(old, _GROUP_WORDS[claim.standing]) == old and not claim.commits:
        return old
    if old is None and claim.standing is ClaimedStatus.PENDING:
        return dict(_NOT_BEGUN)
    entry: Node = {"status": None, **{name: [] for name in _RESULT_LISTS}, "error": None}
    entry |= extra_fields.without(node(old))
    added = {
        "files_created": [path for path in claim.files if path in task.files],
        "files_modified": [path for path in claim.files if path not in task.files],
        "deviations": ["skipped by the user"] if claim.standing is ClaimedStatus.SKIPPED else [],
    }
    for key, more in added.items():
        entry[key] = list(dict.fromkeys((*texts(entry[key]), *more)))
    entry["commits"] = _joined(texts(entry["commits"]), claim.commits)
    entry["status"] = kept_word(text(entry["status"]), _GROUP_WORDS[claim.standing])
    entry["error"] = (view.error_of(task.id) or None) if claim.standing not in SETTLED else None
    return entry


def _add_extra_fields(view: ExportedRun, name: str, state: Node, documents: Mapping[str, bytes]) -> None:
    """Add what a reader of the state would otherwise get wrong. Its waves are the run's stages, in order.

    Empty results of groups are left out.
    """
    for entry, stage in zip(state["waves"], view.plan.stages, strict=True):
        if f"wave-{text(entry.get('id'))}" != stage.id:
            entry[extra_fields.KEY] = {"id": stage.id}
    parsed = parse_state(name, state, documents)
    extra_of = extra_fields.differences(view, parsed.made.plan, parsed.made.claims)
    for task, group in parsed.groups.items():
        if group.wave.entry and (extra := extra_of.tasks.get(task)):
            group.wave.entry["results"][group.name] = group.entry | extra_fields.carried(extra)
    for entry, stage in zip(state["waves"], view.plan.stages, strict=True):
        if extra := extra_of.stages[stage.id]:
            entry[extra_fields.KEY] = extra_fields.of(entry) | {"stage": extra}
        results = entry["results"].items()
        entry["results"] = {group: result for group, result in results if result != _NOT_BEGUN}
    state |= extra_fields.carried(extra_of.plan)


def _progress(view: ExportedRun) -> str:
    """Return `Wave 2/3 (67%)` for the current wave, or how the run ended: complete, paused, failed."""
    if view.is_complete:
        return "Complete"
    if view.is_paused:
        return "Paused"
    stages = view.plan.stages
    standings = [group_status([view.claim_of(task.id).standing for task in stage.tasks]) for stage in stages]
    at = next((place for place, standing in enumerate(standings, 1) if standing not in SETTLED), len(stages))
    if view.row.status in (RunStatus.BLOCKED, RunStatus.ABANDONED) and ClaimedStatus.FAILED in standings:
        return f"Failed (Wave {at})"
    return f"Wave {at}/{len(stages)} ({round(100 * at / max(len(stages), 1))}%)"


def with_status(content: str, view: ExportedRun, name: str) -> str:
    """Return STATE.md with the row of one run in its execution status; every other line stays.

    A missing section is added.
    """
    row = markdown.as_row((name, "orchestrated", _progress(view), minute(view.updated)))
    header = tuple(column.casefold() for column in _STATUS_HEADER)
    table = next((table for table in markdown.tables(content) if table.header == header), None)
    if table is None:
        head = (markdown.as_row(_STATUS_HEADER), "|---------|------|----------|--------------|")
        section = "\n".join(("## Execution Status", "", *head, row, ""))
        return content.rstrip("\n") + "\n\n" + section
    stale = [each.line for each in table.rows if each.cells[0] in (name, "—", "-", "")]
    last = table.rows[-1].line if table.rows else table.line + 1
    lines: list[str | None] = [*content.split("\n")]
    for number in stale:
        lines[number] = None
    lines.insert(stale[0] if stale else last + 1, row)
    return "\n".join(line for line in lines if line is not None)
