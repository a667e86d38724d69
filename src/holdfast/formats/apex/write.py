"""Writes a Holdfast run in APEX's format: state.json, then its links, then the output of finished phases."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.core.ids import slug
from holdfast.core.plan import Stage
from holdfast.formats import extra_fields
from holdfast.formats.apex import layout, phases
from holdfast.formats.apex.backlog import write_backlog
from holdfast.formats.apex.context_file import is_context, write_context
from holdfast.formats.apex.phase_outputs import output_of
from holdfast.formats.apex.phases import ApexPhase, is_state, phases_of, with_number_and_name
from holdfast.formats.apex.state import assembled, blockers_of, name_of, phase_tasks
from holdfast.formats.exported_run import ExportedRun, NativeFile, Times, group_status
from holdfast.formats.lenient_json import Node, count, iso_time, items, node, object_in, text, texts, to_json
from holdfast.formats.model import SETTLED, Claim, ClaimedStatus
from holdfast.formats.plan_assembly import task_ids
from holdfast.formats.status_words import claimed_status, kept_word

_WORDS = {
    ClaimedStatus.PENDING: "PENDING",
    ClaimedStatus.RUNNING: "IN_PROGRESS",
    ClaimedStatus.FAILED: "FAILED",
    ClaimedStatus.DONE: "PASS",
    ClaimedStatus.SKIPPED: "SKIP",
}


def write(view: ExportedRun, originals: Mapping[str, bytes]) -> list[NativeFile]:
    """Return the native files of a run, in the form it was adopted from, else as a state with its links."""
    documents = {path: object_in(path, data) for path, data in originals.items() if path.endswith(".json")}
    states = {path: found for path, found in documents.items() if is_state(found) and phases_of(found)}
    context = next((path for path, data in originals.items() if is_context(path, data)), "")
    if context and not states:
        return [write_context(view, context, originals[context])]
    backlog, *others = originals or [""]
    if layout.is_backlog(backlog) and not others:
        return write_backlog(view, backlog, originals[backlog])
    main = next((path for path, state in states.items() if name_of(state, path) == view.name), "")
    home = posixpath.dirname(main)
    if not home or layout.is_link(main):
        home = layout.home_of(task_ids([view.name])[0])
    return _state_files(view, home, states.get(main, {}), originals)


@dataclass(frozen=True, slots=True)
class _StagePhase:
    """A stage of the run as a phase, with the combined status of its tasks and their claims.

    `phase` is the phase of the adopted state that the stage came from, else a new one with an empty entry.
    """

    stage: Stage
    phase: ApexPhase
    standing: ClaimedStatus
    claims: tuple[Claim, ...]
    times: Times

    @property
    def output(self) -> str:
        """The file name of the phase's output."""
        said = text(self.phase.entry.get("output_file"))
        if re.fullmatch(r"[\w-][\w.-]*\.md", said):
            return said
        return layout.output_name(self.phase.number, task_ids([self.phase.name])[0])

    @property
    def entry(self) -> Node:
        """The entry of the phase in an adopted state, with its number and name."""
        return with_number_and_name(self.phase.entry, self.phase)

    @property
    def attempts(self) -> int:
        """The most attempts that one of its tasks had."""
        return max((claim.attempts for claim in self.claims), default=0)

    def errors(self, view: ExportedRun) -> list[str]:
        """Return the errors of its tasks."""
        return [error for claim in self.claims if (error := view.error_of(claim.task))]


def _state_files(
    view: ExportedRun, home: str, document: Node, originals: Mapping[str, bytes]
) -> list[NativeFile]:
    """Return the files of a run below `home`. `document` is the state it was adopted from, or empty."""
    parts = _stage_phases(view, document)
    state = _composed(view, document, parts)
    _add_extra_fields(view, parts, state, home)
    link = layout.link_to(home)
    is_init = home == layout.INIT_HOME
    name = (
        f"init-{slug(text(state.get('project_name')))}" if is_init else task_ids([text(state["task_id"])])[0]
    )
    finished = [part for part in parts if part.standing is ClaimedStatus.DONE]
    outputs = [output_of(view, f"{home}/{part.output}", part.phase.name, part.claims) for part in finished]
    return [
        NativeFile(path=f"{home}/{layout.STATE}", content=to_json(state)),
        NativeFile(path=f"{layout.LINKS}/{name}.json", link=link),
        NativeFile(path=layout.CURRENT, link=link),
        *(output for output in outputs if output.path not in originals),
    ]


def _stage_phases(view: ExportedRun, document: Node) -> list[_StagePhase]:
    """Return the stages as phases: matched by the adopted state, by name, or by position."""
    known = {phase.id: phase for phase in phases_of(document)}
    stages = view.plan.stages
    named = [layout.phase_of_output(f"{stage.id}.md") for stage in stages]
    is_named = all(named) and len(set(named)) == len(named)
    found = []
    for place, (stage, parsed) in enumerate(zip(stages, named, strict=True)):
        number, name = parsed if parsed and is_named else (str(place), stage.id)
        phase = known.get(stage.id) or ApexPhase(number, name, "pending_phases", {})
        claims = tuple(view.claim_of(task.id) for task in stage.tasks)
        standing = group_status([claim.standing for claim in claims])
        times = view.stage_times.get(stage.id, Times())
        found.append(_StagePhase(stage, phase, standing, claims, times))
    return found


def _composed(view: ExportedRun, document: Node, parts: list[_StagePhase]) -> Node:
    """Return the state in APEX's vocabulary, with the document's key order; unknown keys stay."""
    unfinished = [part for part in parts if part.standing not in SETTLED]
    current = unfinished[0] if unfinished and not view.is_complete else None
    changed = (path for part in parts for claim in part.claims for path in claim.files)
    fresh: Node = {
        "version": "1.0",
        "workflow": "apex",
        "task_id": view.name,
        "project_name": view.project.rstrip("/").rpartition("/")[2],
        "created_at": iso_time(view.started),
        "updated_at": None,
        "flags": phases.flags_of([part.phase.name for part in parts]),
        "task_description": view.plan.goal,
        "tech_stack": {},
    }
    state = fresh | document
    state |= {
        "updated_at": iso_time(view.updated),
        "current_phase": _current(view, current) if current else None,
        "completed_phases": _completed(view, document, parts),
        "pending_phases": [with_number_and_name(part.phase.pending_entry, part.phase) for part in unfinished],
        "iteration_counts": _iterations(document, parts),
        "blockers": _blockers(view, document, parts),
        "files_changed_total": list(dict.fromkeys((*texts(document.get("files_changed_total")), *changed))),
        "recovery_info": _recovery(view, document, parts, current),
    }
    if current is None:
        state["summary"] = f"{len(parts) - len(unfinished)}/{len(parts)} phases completed."
    return state


def _current(view: ExportedRun, part: _StagePhase) -> Node:
    """Return the current phase. A phase that waits for its turn is neither failed nor in progress."""
    entry = part.entry | {
        "status": kept_word(part.phase.status, _WORDS[part.standing]),
        "started_at": iso_time(part.times.started),
        "attempt": part.attempts,
    }
    entry.pop("error", None)
    errors = part.errors(view)
    return entry | ({"error": errors[-1]} if errors else {})


def _completed(view: ExportedRun, document: Node, parts: list[_StagePhase]) -> list[Node]:
    """Return the finished phases, each followed by the earlier iterations that the state already listed."""
    listed = items(document.get("completed_phases"))
    entries: list[Node] = []
    for part in parts:
        entries += [entry for entry in part.phase.earlier if entry in listed]
        if part.standing in SETTLED:
            entries.append(_finished(view, part))
    return entries


def _finished(view: ExportedRun, part: _StagePhase) -> Node:
    """Return the entry of a finished phase; an entry that was already finished stays as it was."""
    if part.phase.place == "completed_phases":
        said = part.phase.status
        if not said or claimed_status(said) is part.standing:
            return part.entry
    entry = part.entry | {
        "status": _WORDS[part.standing],
        "started_at": iso_time(part.times.started),
        "completed_at": iso_time(part.times.ended),
        "output_file": part.output,
        "summary": " ".join(claim.summary for claim in part.claims if claim.summary),
    }
    for gone in ("attempt", "error"):
        entry.pop(gone, None)
    lists = {
        "acceptance_criteria": list(_criteria_after(view, part.stage)) if part.phase.name == "plan" else [],
        "files_changed": sorted({path for claim in part.claims for path in claim.files}),
    }
    return entry | {key: values for key, values in lists.items() if values}


def _criteria_after(view: ExportedRun, stage: Stage) -> tuple[str, ...]:
    """Return the acceptance criteria that phases after planning receive."""
    later = view.plan.stages[view.plan.stages.index(stage) + 1 :]
    return next((task.acceptance for each in later for task in each.tasks if task.acceptance), ())


def _iterations(document: Node, parts: list[_StagePhase]) -> Node:
    """Return how often each started phase was restarted; a count never goes down."""
    counts = dict(node(document.get("iteration_counts")))
    for part in parts:
        if part.attempts:
            counts[part.phase.name] = max(part.attempts - 1, count(counts.get(part.phase.name)))
    return counts


def _blockers(view: ExportedRun, document: Node, parts: list[_StagePhase]) -> list[object]:
    """Return the blockers: those of the state, until its phase is over, and the errors of failed phases."""
    at = next((part for part in parts if part.phase.place == "current_phase"), None)
    old = [] if at is None or at.standing in SETTLED else items(document.get("blockers"))
    failed = [part for part in parts if part.standing is ClaimedStatus.FAILED]
    errors = [f"{part.phase.name}: {error}" for part in failed for error in part.errors(view)]
    known = blockers_of({"blockers": old})
    return [*old, *(error for error in errors if error not in known)]


def _recovery(
    view: ExportedRun, document: Node, parts: list[_StagePhase], current: _StagePhase | None
) -> Node:
    old = node(document.get("recovery_info"))
    done = [part.phase.name for part in parts if part.standing is ClaimedStatus.DONE]
    return old | {
        "last_clean_state": f"after-{done[-1]}" if done else old.get("last_clean_state"),
        "git_branch": view.branch,
        "git_last_commit": view.row.tip or view.row.base,
        "can_resume_from": current.phase.name if current else None,
    }


def _add_extra_fields(view: ExportedRun, parts: list[_StagePhase], state: Node, home: str) -> None:
    """Add what a reader would otherwise get wrong: ids first, then the rest, found by a test reading."""
    of_phase = {part.phase.key: part for part in parts}
    for phase in phases_of(state):
        phase.entry.pop(extra_fields.KEY, None)
        if part := of_phase.get(phase.key):
            phase.entry[extra_fields.KEY] = _ids(part, phase.label)
    found = phases_of(state)
    tasks = phase_tasks(found)
    read = assembled(f"{home}/{layout.STATE}", state, tasks)
    extra = extra_fields.differences(view, read.plan, read.claims)
    for task in tasks:
        task.extra.update(extra.tasks.get(task.id, {}))
    for phase in found:
        if part := of_phase.get(phase.key):
            stage = extra.stages[part.stage.id]
            _set_extra(phase.entry, extra_fields.of(phase.entry) | ({"stage": stage} if stage else {}))
    _set_extra(state, extra.plan)


def _ids(part: _StagePhase, label: str) -> Node:
    """Return those ids of a stage and its tasks that do not follow from its number and name."""
    ids = [task.id for task in part.stage.tasks]
    tasks: list[Node] = [{}] if ids == [part.stage.id] else [{"id": name} for name in ids]
    return ({} if part.stage.id == label else {"id": part.stage.id}) | {"tasks": tasks}


def _set_extra(entry: Node, extra: Node) -> None:
    """Set the extra fields of an entry, unless they are empty."""
    entry.pop(extra_fields.KEY, None)
    entry |= extra_fields.carried(
        {key: said for key, said in extra.items() if (key, said) != ("tasks", [{}])}
    )
