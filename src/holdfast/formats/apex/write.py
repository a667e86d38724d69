"""Writing a run as APEX does: state.json first, then the links to it, then what each finished phase put out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.core.ids import slug
from holdfast.core.plan import Stage
from holdfast.formats import extra_fields, lenient_json
from holdfast.formats.apex import layout, phases
from holdfast.formats.apex.phase_outputs import output_of
from holdfast.formats.apex.phases import ApexPhase, named_fully, phases_of
from holdfast.formats.apex.state import assembled, blockers_of, phase_tasks
from holdfast.formats.lenient_json import Node, iso_time
from holdfast.formats.model import SETTLED, Claim, ClaimedStatus, ExportedRun, NativeFile
from holdfast.formats.plan_assembly import task_ids
from holdfast.formats.run_to_claims import branch_of, claim_of, error_of, group_status, is_complete
from holdfast.formats.status_words import claimed_status, kept_word

_WORDS = {
    ClaimedStatus.DONE: "PASS",
    ClaimedStatus.SKIPPED: "SKIP",
    ClaimedStatus.RUNNING: "IN_PROGRESS",
    ClaimedStatus.FAILED: "FAILED",
}


@dataclass(frozen=True, slots=True)
class StagePhase:
    """A stage of the run as the phase that it is, or becomes: its number and name, where its tasks stand together."""

    stage: Stage
    number: int | str
    name: str
    standing: ClaimedStatus
    claims: tuple[Claim, ...]
    phase: ApexPhase | None

    @property
    def output(self) -> str:
        """The file name of what the phase puts out."""
        said = lenient_json.text(self.phase.entry.get("output_file")) if self.phase else ""
        plain = said if re.fullmatch(r"[\w-][\w.-]*\.md", said) else ""
        return plain or layout.output_name(str(self.number), task_ids([self.name])[0])


def write_state(
    view: ExportedRun, home: str, document: Node, originals: Mapping[str, bytes]
) -> list[NativeFile]:
    """Return the files of a run below `home`. `document` is the state it was adopted from, or empty."""
    steps = _steps(view, document)
    state = _composed(view, document, steps)
    _add_notes(view, steps, state, home)
    link = layout.link_to(home)
    finished = [step for step in steps if step.standing is ClaimedStatus.DONE]
    outputs = [output_of(view, f"{home}/{step.output}", step.name, step.claims) for step in finished]
    return [
        NativeFile(path=f"{home}/{layout.STATE}", content=lenient_json.to_json(state)),
        NativeFile(path=f"{layout.LINKS}/{_link_name(state, home)}.json", link=link),
        NativeFile(path=layout.CURRENT, link=link),
        *(output for output in outputs if output.path not in originals),
    ]


def _link_name(state: Node, home: str) -> str:
    if home == layout.INIT_HOME:
        return f"init-{slug(lenient_json.text(state.get('project_name')))}"
    return task_ids([lenient_json.text(state["task_id"])])[0]


def _steps(view: ExportedRun, document: Node) -> list[StagePhase]:
    """Return the stages as phases: those of the adopted state, those that are named like phases, or by position."""
    known = {phase.id: phase for phase in phases_of(document)}
    named = [layout.phase_of_output(f"{stage.id}.md") for stage in view.plan.stages]
    if len(set(named)) < len(named):
        named = [None] * len(named)
    steps = []
    for place, (stage, parsed) in enumerate(zip(view.plan.stages, named, strict=True)):
        phase = known.get(stage.id)
        number, name = parsed if parsed and all(named) else (str(place), stage.id)
        if phase is not None:
            number, name = phase.number, phase.name
        claims = tuple(claim_of(view, task.id) for task in stage.tasks)
        standing = group_status([claim.standing for claim in claims])
        steps.append(StagePhase(stage, _as_written(number), name, standing, claims, phase))
    return steps


def _as_written(number: str) -> int | str:
    """Return a phase's number as the document has it: an integer, or text such as `8b`."""
    return int(number) if re.fullmatch(r"0|[1-9][0-9]{0,5}", number) else number


def _composed(view: ExportedRun, document: Node, steps: list[StagePhase]) -> Node:
    """Return the state in the words that APEX has, in the order of its document; keys nobody knows stay."""
    open_steps = [step for step in steps if step.standing not in SETTLED]
    current = open_steps[0] if open_steps and not is_complete(view) else None
    fresh: Node = {
        "version": "1.0",
        "workflow": "apex",
        "task_id": view.name,
        "project_name": view.project.rstrip("/").rpartition("/")[2],
        "created_at": iso_time(view.started),
        "updated_at": None,
        "flags": phases.flags_of([step.name for step in steps]),
        "task_description": view.plan.goal,
        "tech_stack": {},
    }
    state = fresh | document
    state |= {
        "updated_at": iso_time(view.updated),
        "current_phase": _current(view, current) if current else None,
        "completed_phases": _completed(view, document, steps),
        "pending_phases": [_pending(step) for step in open_steps],
        "iteration_counts": _iterations(document, steps),
        "blockers": _blockers(view, document, steps),
        "files_changed_total": _all_files(document, steps),
        "recovery_info": _recovery(view, document, steps, current),
    }
    if current is None:
        state["summary"] = f"{len(steps) - len(open_steps)}/{len(steps)} phases completed."
    return state


def _entry(step: StagePhase) -> Node:
    """Return what an adopted state said of a phase, else its number and name."""
    return named_fully(step.phase.entry if step.phase else {}, step.number, step.name)


def _current(view: ExportedRun, step: StagePhase) -> Node:
    """Return the phase under way. One that waits for its turn has not failed and is not in progress."""
    times = view.stage_times.get(step.stage.id)
    entry = _entry(step) | {
        "status": _word(step, _WORDS.get(step.standing, "PENDING")),
        "started_at": iso_time(times.started) if times else None,
        "attempt": max((claim.attempts for claim in step.claims), default=0),
    }
    entry.pop("error", None)
    errors = [error for claim in step.claims if (error := error_of(view, claim.task))]
    return entry | ({"error": errors[-1]} if errors else {})


def _word(step: StagePhase, word: str) -> str:
    """Return the word that a state had for a phase as long as it means the same, else ours."""
    said = lenient_json.text(step.phase.entry.get("status")) if step.phase else ""
    return kept_word(said, word)


def _completed(view: ExportedRun, document: Node, steps: list[StagePhase]) -> list[Node]:
    """Return the finished phases, after each the earlier iterations that the state already listed."""
    listed = lenient_json.items(document.get("completed_phases"))
    entries: list[Node] = []
    for step in steps:
        entries += [entry for entry in (step.phase.earlier if step.phase else ()) if entry in listed]
        if step.standing in SETTLED:
            entries.append(_finished(view, step))
    return entries


def _finished(view: ExportedRun, step: StagePhase) -> Node:
    """Return the entry of a finished phase; one that the state already called so is left as it was."""
    if _was_finished(step):
        return _entry(step)
    times = view.stage_times.get(step.stage.id)
    entry = _entry(step) | {
        "status": _WORDS[step.standing],
        "started_at": iso_time(times.started) if times else None,
        "completed_at": iso_time(times.ended) if times else None,
        "output_file": step.output,
        "summary": " ".join(claim.summary for claim in step.claims if claim.summary),
    }
    for gone in ("attempt", "error"):
        entry.pop(gone, None)
    criteria = _criteria_after(view, step.stage.id) if step.name == "plan" else ()
    files = sorted({path for claim in step.claims for path in claim.files})
    return (
        entry
        | ({"acceptance_criteria": list(criteria)} if criteria else {})
        | ({"files_changed": files} if files else {})
    )


def _was_finished(step: StagePhase) -> bool:
    if step.phase is None or step.phase.place != "completed":
        return False
    said = lenient_json.text(step.phase.entry.get("status"))
    return not said or claimed_status(said) is step.standing


def _criteria_after(view: ExportedRun, stage: str) -> tuple[str, ...]:
    """Return the acceptance criteria that the phases after planning are told."""
    order = [each.id for each in view.plan.stages]
    later = view.plan.stages[order.index(stage) + 1 :]
    return next((task.acceptance for each in later for task in each.tasks if task.acceptance), ())


def _pending(step: StagePhase) -> Node:
    """Return a phase as it is listed among those to come."""
    was_pending = step.phase is not None and step.phase.place == "pending"
    listed = step.phase.listed if step.phase else None
    return _entry(step) if was_pending else named_fully(listed or {}, step.number, step.name)


def _iterations(document: Node, steps: list[StagePhase]) -> Node:
    """Return how often each phase that began was begun again; a count never goes down."""
    counts = dict(lenient_json.node(document.get("iteration_counts")))
    for step in steps:
        again = max((claim.attempts for claim in step.claims), default=0) - 1
        if again >= 0:
            counts[step.name] = max(again, lenient_json.count(counts.get(step.name)))
    return counts


def _blockers(view: ExportedRun, document: Node, steps: list[StagePhase]) -> list[object]:
    """Return what stands in the way: what the state named, until its phase is over, and what does now."""
    at = next((step for step in steps if step.phase and step.phase.place == "current"), None)
    old = [] if at is None or at.standing in SETTLED else lenient_json.items(document.get("blockers"))
    troubles = [
        f"{step.name}: {error}"
        for step in steps
        if step.standing is ClaimedStatus.FAILED
        for claim in step.claims
        if (error := error_of(view, claim.task))
    ]
    known = blockers_of({"blockers": old})
    return [*old, *(trouble for trouble in troubles if trouble not in known)]


def _all_files(document: Node, steps: list[StagePhase]) -> list[str]:
    known = lenient_json.texts(document.get("files_changed_total"))
    changed = (path for step in steps for claim in step.claims for path in claim.files)
    return list(dict.fromkeys((*known, *changed)))


def _recovery(view: ExportedRun, document: Node, steps: list[StagePhase], current: StagePhase | None) -> Node:
    old = lenient_json.node(document.get("recovery_info"))
    done = [step.name for step in steps if step.standing is ClaimedStatus.DONE]
    return old | {
        "last_clean_state": f"after-{done[-1]}" if done else old.get("last_clean_state"),
        "git_branch": branch_of(view),
        "git_last_commit": view.row.tip or view.row.base,
        "can_resume_from": current.name if current else None,
    }


def _add_notes(view: ExportedRun, steps: list[StagePhase], state: Node, home: str) -> None:
    """Add to the state what it has no words for: it is read as anybody would, and the difference is noted."""
    of_step = {(str(step.number), step.name.casefold()): step for step in steps}
    for phase in phases_of(state):
        phase.entry.pop(extra_fields.KEY, None)
        if step := of_step.get((phase.number, phase.name.casefold())):
            phase.entry[extra_fields.KEY] = _identity(step, phase.label)
    parts = phase_tasks(phases_of(state))
    read = assembled(f"{home}/{layout.STATE}", state, parts)
    about = extra_fields.differences(view, read.plan, read.claims)
    for part in parts:
        part.note.update(about.tasks.get(part.id, {}))
    for phase in {part.phase.id: part.phase for part in parts}.values():
        step = of_step.get((phase.number, phase.name.casefold()))
        if step:
            stage = about.stages[step.stage.id]
            _keep(phase.entry, extra_fields.of(phase.entry) | ({"stage": stage} if stage else {}))
    _keep(state, about.plan)


def _identity(step: StagePhase, label: str) -> Node:
    """Return the ids of a stage and its tasks, as far as its number and name do not give them."""
    ids = [task.id for task in step.stage.tasks]
    tasks: list[Node] = [{}] if ids == [step.stage.id] else [{"id": name} for name in ids]
    return ({} if step.stage.id == label else {"id": step.stage.id}) | {"tasks": tasks}


def _keep(entry: Node, note: Node) -> None:
    """Put a note into an entry, or none where it says nothing."""
    if note.get("tasks") == [{}]:
        note = {key: said for key, said in note.items() if key != "tasks"}
    entry.pop(extra_fields.KEY, None)
    if note:
        entry[extra_fields.KEY] = note
