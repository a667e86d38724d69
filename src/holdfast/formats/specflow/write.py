"""Writing a run as SpecFlow does: its state, its specification if it has none, and the mark of a pause.

The state of a finished run is in the archive before the live one goes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.core.plan import Stage, Task
from holdfast.core.status import RunStatus
from holdfast.formats import extra_fields, lenient_json, markdown
from holdfast.formats.lenient_json import Node, iso_time
from holdfast.formats.model import SETTLED, Claim, ClaimedStatus, ExportedRun, NativeFile
from holdfast.formats.plan_assembly import task_ids
from holdfast.formats.run_to_claims import claim_of, error_of, group_status, is_complete, is_held
from holdfast.formats.specflow import layout
from holdfast.formats.specflow.specification import spec_text
from holdfast.formats.specflow.state import assembled, spec_id, spec_of
from holdfast.formats.specflow.status_table import status_row, with_status
from holdfast.formats.specflow.waves import Group, Wave, groups_of, is_state, results_of
from holdfast.formats.status_words import kept_word

_NOT_BEGUN = {"status": "pending"}


def add_notes(view: ExportedRun, name: str, state: Node, documents: Mapping[str, bytes]) -> None:
    """Note what would be read differently. The state's waves are the run's stages, in order."""
    for entry, stage in zip(state["waves"], view.plan.stages, strict=True):
        if f"wave-{lenient_json.text(entry.get('id'))}" != stage.id:
            entry[extra_fields.KEY] = {"id": stage.id}
    spec = spec_of(name, layout.state_path(name), documents)
    groups = groups_of(state, spec)
    read = assembled(name, state, spec, groups)
    about = extra_fields.differences(view, read.plan, read.claims)
    for group, task in zip(groups, read.ids, strict=True):
        if group.wave.entry and (note := about.tasks.get(task)):
            group.wave.entry["results"][group.name] = group.entry | extra_fields.carried(note)
    for entry, stage in zip(state["waves"], view.plan.stages, strict=True):
        _note_wave(entry, about.stages[stage.id])
    state |= extra_fields.carried(about.plan)


def _note_wave(entry: Node, about: Node) -> None:
    """Note what a wave is as a stage, and leave out the results of groups of which there is nothing to say."""
    if about:
        entry[extra_fields.KEY] = extra_fields.of(entry) | {"stage": about}
    entry["results"] = {name: result for name, result in entry["results"].items() if result != _NOT_BEGUN}


_GROUP_WORDS = {
    ClaimedStatus.PENDING: "pending",
    ClaimedStatus.RUNNING: "running",
    ClaimedStatus.DONE: "complete",
    ClaimedStatus.SKIPPED: "complete",
    ClaimedStatus.FAILED: "failed",
    ClaimedStatus.ABANDONED: "failed",
    ClaimedStatus.BLOCKED: "blocked",
}
_LISTS = ("commits", "files_created", "files_modified", "criteria_met", "deviations")
_WAVE_WORDS = {
    ClaimedStatus.PENDING: "pending",
    ClaimedStatus.RUNNING: "in_progress",
    ClaimedStatus.DONE: "complete",
    ClaimedStatus.SKIPPED: "complete",
    ClaimedStatus.FAILED: "failed",
}


def write(view: ExportedRun, originals: Mapping[str, bytes]) -> list[NativeFile]:
    """Return the native files of a run, in the order in which they are valid at every instant.

    An adopted state is edited, and of STATE.md only one row.
    """
    main, document = _original(view, originals)
    name = _spec_name(view, main, document)
    # A run that was adopted has its specification already, also where it was not handed to us.
    has_spec = bool(document) or any(
        layout.is_spec(path) and layout.spec_in(path) == name for path in originals
    )
    written = {} if has_spec else {layout.spec_path(name): spec_text(view, name).encode()}
    around = {**originals, **written}
    state = _composed(view, name, document, around)
    files = _state_files(view, name, lenient_json.to_json(state))
    files += [NativeFile(path=path, content=content) for path, content in written.items()]
    files += _pause_files(view, name, state)
    if layout.STATE_MD in originals:
        text = with_status(markdown.decoded(originals[layout.STATE_MD]), status_row(view, name))
        files.append(NativeFile(path=layout.STATE_MD, content=text.encode()))
    return files


def _original(view: ExportedRun, originals: Mapping[str, bytes]) -> tuple[str, Node]:
    """Return the state that a run was adopted from, and its path; nothing if there is none of its name."""
    found = {path: state for path, data in originals.items() if (state := _state_in(path, data))}
    main = next((path for path, state in found.items() if spec_id(state, path) == view.name), "")
    return main, found.get(main, {})


def _state_in(path: str, data: bytes) -> Node:
    found = lenient_json.object_in(path, data) if path.endswith(".json") else {}
    return found if is_state(found) else {}


def _spec_name(view: ExportedRun, main: str, document: Node) -> str:
    """Return the specification's id, safe in a path; a run that never had one is named after itself."""
    name = task_ids([spec_id(document, main) if document else view.name])[0]
    return name if document or name.startswith("SPEC-") else f"SPEC-{name}"


def _state_files(view: ExportedRun, name: str, content: bytes) -> list[NativeFile]:
    """Return the live state, or of a finished run the archived one, after which the live one goes."""
    live = layout.state_path(name)
    if not is_complete(view):
        return [NativeFile(path=live, content=content)]
    return [NativeFile(path=layout.archive_path(name), content=content), NativeFile(path=live, gone=True)]


def _pause_files(view: ExportedRun, name: str, state: Node) -> list[NativeFile]:
    """Return `.continue-here` for a run that was paused or stopped. It goes once the run goes on."""
    if view.row.status is RunStatus.PENDING:
        return []
    if not is_held(view):
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
    return [NativeFile(path=layout.CONTINUE, content=lenient_json.to_json(pause))]


def _resting_place(view: ExportedRun) -> tuple[int, str | None, ClaimedStatus]:
    """Return where a run goes on: the first group that is not complete."""
    for number, stage in enumerate(view.plan.stages, 1):
        for task in stage.tasks:
            standing = claim_of(view, task.id).standing
            if _GROUP_WORDS[standing] != "complete":
                return number, task.id, standing
    return len(view.plan.stages), None, ClaimedStatus.DONE


def _composed(view: ExportedRun, name: str, document: Node, documents: Mapping[str, bytes]) -> Node:
    """Return the state as SpecFlow would have it, with what it has no words for noted; unknown keys stay."""
    adopted = _Adopted.of(name, document, documents)
    fresh: Node = {"spec_id": name, "mode": "orchestrated", "started": iso_time(view.started)}
    state = fresh | extra_fields.without(document)
    state["waves"] = [_wave(view, *stage, adopted) for stage in enumerate(view.plan.stages, 1)]
    landed = (commit for _, task in view.plan.tasks() for commit in claim_of(view, task.id).commits)
    state["commits"] = _joined(lenient_json.commits(document.get("commits")), tuple(landed))
    state["last_checkpoint"] = iso_time(view.updated)
    if "status" in document:
        state["status"] = kept_word(
            lenient_json.text(document["status"]), "complete" if is_complete(view) else "in_progress"
        )
    add_notes(view, name, state, documents)
    return state


@dataclass(frozen=True, slots=True)
class _Adopted:
    """The state that a run was adopted from: its waves by our stages, its groups by our tasks."""

    waves: dict[str, Wave]
    groups: dict[str, Group]

    @classmethod
    def of(cls, name: str, document: Node, documents: Mapping[str, bytes]) -> _Adopted:
        """Find waves and groups again by the ids that reading gave them. Of a state without waves none are kept."""
        if not document.get("waves"):
            return cls({}, {})
        spec = spec_of(name, layout.state_path(name), documents)
        groups = groups_of(document, spec)
        made = assembled(name, document, spec, groups)
        waves = {
            made.stages[group.wave.name]: group.wave for group in groups if group.wave.name in made.stages
        }
        return cls(waves, dict(zip(made.ids, groups, strict=True)))


def _wave(view: ExportedRun, number: int, stage: Stage, adopted: _Adopted) -> Node:
    """Return a stage as a wave: where it stands, and the result of each group."""
    claims = {task.id: claim_of(view, task.id) for task in stage.tasks}
    old = adopted.waves[stage.id].entry if stage.id in adopted.waves else {}
    entry: Node = {"id": number, "groups": [], "status": ""} | extra_fields.without(old)
    names = {
        task.id: adopted.groups[task.id].name if task.id in adopted.groups else task.id
        for task in stage.tasks
    }
    if set(names.values()) != {group.name for group in adopted.groups.values() if group.wave.entry is old}:
        entry["groups"] = list(names.values())
    together_now = group_status([claim.standing for claim in claims.values()])
    entry["status"] = kept_word(lenient_json.text(entry["status"]), _WAVE_WORDS[together_now])
    results = results_of(old) | {
        names[task.id]: _result(view, task, claims[task.id], adopted.groups.get(task.id))
        for task in stage.tasks
    }
    return entry | {"results": results}


def _joined(old: tuple[str, ...], new: tuple[str, ...]) -> list[str]:
    """Return both, once each; a hash that was cut short gives way to the whole one."""
    kept = (each for each in old if not any(other.startswith(each) for other in new))
    return list(dict.fromkeys((*kept, *new)))


def _result(view: ExportedRun, task: Task, claim: Claim, group: Group | None) -> Any:
    """Return the result of a group. One of which only its status is known stays a word, as long as that holds."""
    word = _GROUP_WORDS[claim.standing]
    old = group.result if group else None
    if isinstance(old, str) and kept_word(old, word) == old and not claim.commits:
        return old
    if old is None and claim.standing is ClaimedStatus.PENDING:
        return {"status": word}
    entry: Node = dict.fromkeys(("status", *_LISTS, "error")) | {name: [] for name in _LISTS}
    entry |= extra_fields.without(lenient_json.node(old))
    created = [path for path in claim.files if path in task.files]
    modified = [path for path in claim.files if path not in task.files]
    skipped = ["skipped by the user"] if claim.standing is ClaimedStatus.SKIPPED else []
    added = {"files_created": created, "files_modified": modified, "deviations": skipped}
    for key, more in added.items():
        entry[key] = list(dict.fromkeys((*lenient_json.texts(entry[key]), *more)))
    entry["commits"] = _joined(lenient_json.texts(entry["commits"]), claim.commits)
    entry["status"] = kept_word(lenient_json.text(entry["status"]), word)
    entry["error"] = (error_of(view, task.id) or None) if claim.standing not in SETTLED else None
    return entry
