"""Reading a state.json: phases into stages, what it says of each into claims, what contradicts into findings."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import msgspec

from holdfast.core.plan import Task
from holdfast.formats import extra_fields, lenient_json
from holdfast.formats.apex import layout, phases
from holdfast.formats.apex.phases import ApexPhase, phases_of
from holdfast.formats.contradictions import unknown_words
from holdfast.formats.lenient_json import BrokenFileError, Node, minute_of
from holdfast.formats.model import (
    SETTLED,
    Claim,
    ClaimedStatus,
    Finding,
    ForeignRun,
    PastFailure,
    spent_of,
)
from holdfast.formats.plan_assembly import Assembly, StageDraft, TaskDraft, assemble, task_ids
from holdfast.formats.registry import System
from holdfast.formats.status_words import claimed_status

_UNSAID = {"completed": "PASS", "current": "IN_PROGRESS", "pending": ""}


@dataclass(frozen=True, slots=True)
class PhaseTask:
    """One task of a phase: APEX has one in each, a run of ours may have had more."""

    phase: ApexPhase
    id: str
    note: Node


def phase_tasks(found: list[ApexPhase]) -> list[PhaseTask]:
    """Return the tasks of all phases, in order, each with its id and what was noted of it."""
    several = [(phase, note) for phase in found for note in _part_notes(phase)]
    names = task_ids([lenient_json.text(note.get("id")) or phase.id for phase, note in several])
    return [PhaseTask(phase, name, note) for (phase, note), name in zip(several, names, strict=True)]


def _part_notes(phase: ApexPhase) -> list[Node]:
    return lenient_json.nodes(extra_fields.of(phase.entry).get("tasks")) or [{}]


def stage_note(phase: ApexPhase) -> Node:
    """Return what was noted of a phase as a stage."""
    return lenient_json.node(extra_fields.of(phase.entry).get("stage"))


def read_state(main: str, document: Node, documents: Mapping[str, bytes]) -> ForeignRun:
    """Return the run that a state file tells of. There is at least one phase in it."""
    parts = phase_tasks(phases_of(document))
    made = assembled(main, document, parts)
    claims = {claim.task: claim for claim in made.claims}
    recovery = lenient_json.node(document.get("recovery_info"))
    return ForeignRun(
        system=System.APEX,
        name=name_of(document, main),
        plan=made.plan,
        claims=made.claims,
        finished=not document.get("current_phase")
        and all(claim.standing in SETTLED for claim in made.claims),
        branches=lenient_json.texts(lenient_json.first(recovery, "git_branch", "branch")),
        commits=lenient_json.commits(lenient_json.first(recovery, "git_last_commit", "last_commit")),
        findings=(*_findings(document, parts, claims), *made.findings),
        main=main,
        documents=dict(documents),
    )


def name_of(document: Node, main: str) -> str:
    """Return what the task is called: its id, else the folder or link that it was found by."""
    said = lenient_json.text(lenient_json.first(document, "task_id", "id"))
    return said or layout.task_in(main) or lenient_json.text(document.get("project_name")) or "apex"


def goal_of(document: Node, main: str) -> str:
    """Return what the run is for."""
    keys = ("task_description", "project_description", "description", "task")
    return lenient_json.text(lenient_json.first(document, *keys)) or name_of(document, main)


def assembled(main: str, document: Node, parts: list[PhaseTask]) -> Assembly:
    """Return the phases as stages, one after the other, and what is claimed of each."""
    criteria: tuple[str, ...] = ()
    drafts: list[TaskDraft] = []
    noted = {part.phase.id: stage_note(part.phase) for part in parts}
    stages = [extra_fields.stage(StageDraft(native=name), note) for name, note in noted.items()]
    for part in parts:
        phase = part.phase
        task, claim = _task(part, criteria), phase_claim(part, document, layout.home_in(main))
        drafts.append(TaskDraft(native=part.id, stage=phase.id, task=task, claim=claim))
        criteria = (
            lenient_json.texts(lenient_json.first(phase.entry, "acceptance_criteria", "criteria")) or criteria
        )
    return extra_fields.plan(
        assemble(goal_of(document, main), stages, drafts), extra_fields.of(document), noted
    )


def _task(part: PhaseTask, criteria: tuple[str, ...]) -> Task:
    """Return a phase's work as a task, told the acceptance criteria that earlier phases settled."""
    name = part.phase.name or part.phase.id
    task = Task(
        id=part.id,
        title=name.replace("-", " ").capitalize(),
        prompt=phases.prompt_for(name),
        acceptance=criteria,
        allow_empty=phases.may_be_empty(name),
    )
    return extra_fields.task(task, part.note)


def phase_claim(part: PhaseTask, document: Node, home: str) -> Claim:
    """Return what the state says of one phase, whose output is in the folder `home`."""
    phase, entry = part.phase, part.phase.entry
    said = _word(phase)
    standing = _standing(phase, said)
    iterations = lenient_json.count(lenient_json.node(document.get("iteration_counts")).get(phase.name))
    attempts = _attempts(phase, standing, iterations)
    claim = Claim(
        task=part.id,
        native=phase.label,
        standing=standing,
        said=said,
        attempts=attempts,
        spent=spent_of(standing, attempts),
        failures=_failures(phase, standing, attempts, document),
        commits=lenient_json.commits(lenient_json.first(entry, "commits", "commit", "git_commit")),
        files=lenient_json.texts(lenient_json.first(entry, "files_changed", "files_modified", "files")),
        outputs=_outputs(phase, home),
        branch=lenient_json.text(lenient_json.node(document.get("recovery_info")).get("git_branch")),
        summary=lenient_json.text(lenient_json.first(entry, "summary", "result")),
    )
    return extra_fields.claim(claim, part.note)


def _outputs(phase: ApexPhase, home: str) -> tuple[str, ...]:
    """Return the report that is all that a phase without code leaves."""
    if not phases.may_be_empty(phase.name):
        return ()
    said = lenient_json.text(phase.entry.get("output_file"))
    return (posixpath.join(home, said or layout.output_name(phase.number, phase.name)),)


def _word(phase: ApexPhase) -> str:
    return lenient_json.text(phase.entry.get("status")) or _UNSAID[phase.place]


def _standing(phase: ApexPhase, said: str) -> ClaimedStatus:
    """Return where a phase stands. One that is still listed as to come is not done, whatever else is said."""
    standing = claimed_status(said)
    return ClaimedStatus.PENDING if phase.place == "pending" and standing is ClaimedStatus.DONE else standing


def _attempts(phase: ApexPhase, standing: ClaimedStatus, iterations: int) -> int:
    """Return how often a phase was begun. An iteration count is of those that came after the first."""
    begun = 0 if standing in (ClaimedStatus.PENDING, ClaimedStatus.SKIPPED) else 1
    counted = iterations + begun if iterations else begun
    return max(
        lenient_json.count(phase.entry.get("attempt")), counted, len(phase.earlier) + begun if begun else 0
    )


def _failures(
    phase: ApexPhase, standing: ClaimedStatus, attempts: int, document: Node
) -> tuple[PastFailure, ...]:
    """Return the errors of earlier iterations and of the present one; a blocker stands in for a missing error."""
    past = [
        PastFailure(
            attempt=number,
            error=lenient_json.message(entry.get("error"))
            or f"the phase ended with {lenient_json.text(entry.get('status'))}",
        )
        for number, entry in enumerate(phase.earlier, 1)
        if lenient_json.message(entry.get("error"))
        or claimed_status(lenient_json.text(entry.get("status"))) is ClaimedStatus.FAILED
    ]
    error = lenient_json.message(phase.entry.get("error"))
    if standing is ClaimedStatus.FAILED and not error:
        error = (
            "; ".join(blockers_of(document))
            or lenient_json.text(phase.entry.get("summary"))
            or "no error was recorded"
        )
    if error and standing not in SETTLED:
        past.append(PastFailure(attempt=max(attempts, 1), error=error))
    return tuple(past)


def blockers_of(document: Node) -> list[str]:
    """Return what the state says stands in the way."""
    listed = lenient_json.items(document.get("blockers"))
    said = (
        lenient_json.first(each, "description", "message", "reason", "error", "title")
        if isinstance(each, dict)
        else each
        for each in listed
    )
    return [words for each in said if (words := lenient_json.text(each))]


def _findings(document: Node, parts: list[PhaseTask], claims: Mapping[str, Claim]) -> Iterator[Finding]:
    yield from unknown_words(claims.values())
    for part in parts:
        yield from _about_listing(part, claims[part.id])
    for blocker in blockers_of(document):
        yield Finding(kind="blocker", sentence=f"The state names a blocker: {blocker}")
    yield from _about_resuming(document, parts, claims)


def _about_listing(part: PhaseTask, claim: Claim) -> Iterator[Finding]:
    phase = part.phase
    if phase.doubled or (phase.place == "pending" and claimed_status(_word(phase)) is ClaimedStatus.DONE):
        said = f"`{part.id}` is listed as finished and as still to do; it counts as {claim.standing}."
        yield Finding(kind="copies-differ", task=part.id, sentence=said)


def _about_resuming(document: Node, parts: list[PhaseTask], claims: Mapping[str, Claim]) -> Iterator[Finding]:
    """Tell where the state contradicts itself about what comes next."""
    aliases = ((part.phase.id, (part.phase.name, part.phase.label, part.phase.number)) for part in parts)
    names = {alias: phase for phase, several in aliases for alias in several}
    open_now = [part.phase.id for part in parts if claims[part.id].standing not in SETTLED]
    said = lenient_json.text(lenient_json.node(document.get("recovery_info")).get("can_resume_from"))
    if said and said not in names:
        text = f"It says to resume from {said!r}, and there is no such phase."
        yield Finding(kind="unknown-task", sentence=text)
    elif said and names[said] != next(iter(open_now), ""):
        following = f"the first that is not done is `{open_now[0]}`" if open_now else "every phase is done"
        yield Finding(
            kind="resume-point-differs", sentence=f"It says to resume from {said!r}, but {following}."
        )
    overall = claimed_status(lenient_json.text(document.get("status")))
    if open_now and (overall is ClaimedStatus.DONE or _is_called_over(document)):
        text = f"The state says that the work is over, but `{open_now[0]}` is not done."
        yield Finding(kind="done-with-unfinished-parts", sentence=text)


def _is_called_over(document: Node) -> bool:
    """Tell whether there is nothing under way and nothing to come: what APEX takes for the end."""
    return not document.get("current_phase") and not document.get("pending_phases")


_RESUMABLE = "  ← resumable"


class TaskLine(msgspec.Struct, frozen=True, kw_only=True):
    """One task: `COMPLETE`, `IN_PROGRESS`, `FAILED`, or `UNREADABLE` where its state is broken."""

    task_id: str
    status: str
    last_phase: str
    updated: str
    resumable: bool


def list_tasks(documents: Mapping[str, bytes]) -> list[TaskLine]:
    """Return a line for every task whose state is among the documents, by its id. A link is the state it shows."""
    lines = {line.task_id: line for path in sorted(documents) if (line := _task_line(path, documents[path]))}
    return [lines[name] for name in sorted(lines)]


def _task_line(path: str, data: bytes) -> TaskLine | None:
    if not layout.is_state(path):
        return None
    try:
        document = lenient_json.parse_object(path, data)
        found = phases_of(document)
    except BrokenFileError:
        name = layout.task_in(path)
        broken = TaskLine(task_id=name, status="UNREADABLE", last_phase="", updated="", resumable=True)
        return broken if name else None
    if not found:
        return None
    run = read_state(path, document, {})
    standings = {claim.standing for claim in run.claims}
    status = "COMPLETE" if run.finished else "FAILED" if ClaimedStatus.FAILED in standings else "IN_PROGRESS"
    return TaskLine(
        task_id=name_of(document, path),
        status=status,
        last_phase=_last_phase(found),
        updated=minute_of(lenient_json.text(lenient_json.first(document, "updated_at", "created_at"))),
        resumable=not run.finished,
    )


def _last_phase(found: list[ApexPhase]) -> str:
    """Return the phase under way, else the last that was finished, else the first to come."""
    for place in ("current", "completed"):
        names = [phase.name or phase.number for phase in found if phase.place == place]
        if names:
            return names[-1]
    return found[0].name


def tasks_as_text(lines: Iterable[TaskLine]) -> str:
    """Return the table for people, its columns as wide as they need to be."""
    rows = [("Task ID", "Status", "Last Phase", "Updated", "")]
    rows += [
        (line.task_id, line.status, line.last_phase, line.updated, _RESUMABLE if line.resumable else "")
        for line in lines
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    texts = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)) + row[4]
        for row in rows
    )
    return "\n".join(text.rstrip() for text in texts)
