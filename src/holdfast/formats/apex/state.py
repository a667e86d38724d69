"""Reading a state.json: phases into stages, what it says of each into claims, what contradicts into findings."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from holdfast.core.plan import Task
from holdfast.formats import loose, notes
from holdfast.formats.apex import layout, phases
from holdfast.formats.apex.document import Phase, phases_of
from holdfast.formats.drafts import Assembly, StageDraft, TaskDraft, assemble
from holdfast.formats.loose import Node
from holdfast.formats.model import (
    SETTLED,
    Claim,
    Finding,
    ForeignRun,
    PastFailure,
    Standing,
    System,
    spent_of,
)
from holdfast.formats.naming import task_ids
from holdfast.formats.words import standing_of, unknown_words

_UNSAID = {"completed": "PASS", "current": "IN_PROGRESS", "pending": ""}


@dataclass(frozen=True, slots=True)
class Part:
    """One task of a phase: APEX has one in each, a run of ours may have had more."""

    phase: Phase
    id: str
    note: Node


def parts_of(found: list[Phase]) -> list[Part]:
    """Return the tasks of all phases, in order, each with its id and what was noted of it."""
    several = [(phase, note) for phase in found for note in _part_notes(phase)]
    names = task_ids([loose.text(note.get("id")) or phase.id for phase, note in several])
    return [Part(phase, name, note) for (phase, note), name in zip(several, names, strict=True)]


def _part_notes(phase: Phase) -> list[Node]:
    return loose.nodes(notes.of(phase.entry).get("tasks")) or [{}]


def stage_note(phase: Phase) -> Node:
    """Return what was noted of a phase as a stage."""
    return loose.node(notes.of(phase.entry).get("stage"))


def read_state(main: str, document: Node, documents: Mapping[str, bytes]) -> ForeignRun:
    """Return the run that a state file tells of. There is at least one phase in it."""
    parts = parts_of(phases_of(document))
    made = assembled(main, document, parts)
    claims = {claim.task: claim for claim in made.claims}
    recovery = loose.node(document.get("recovery_info"))
    return ForeignRun(
        system=System.APEX,
        name=name_of(document, main),
        plan=made.plan,
        claims=made.claims,
        finished=not document.get("current_phase")
        and all(claim.standing in SETTLED for claim in made.claims),
        branches=loose.texts(loose.first(recovery, "git_branch", "branch")),
        commits=loose.commits(loose.first(recovery, "git_last_commit", "last_commit")),
        findings=(*_findings(document, parts, claims), *made.findings),
        main=main,
        documents=dict(documents),
    )


def name_of(document: Node, main: str) -> str:
    """Return what the task is called: its id, else the folder or link that it was found by."""
    said = loose.text(loose.first(document, "task_id", "id"))
    return said or layout.task_in(main) or loose.text(document.get("project_name")) or "apex"


def goal_of(document: Node, main: str) -> str:
    """Return what the run is for."""
    keys = ("task_description", "project_description", "description", "task")
    return loose.text(loose.first(document, *keys)) or name_of(document, main)


def assembled(main: str, document: Node, parts: list[Part]) -> Assembly:
    """Return the phases as stages, one after the other, and what is claimed of each."""
    criteria: tuple[str, ...] = ()
    drafts: list[TaskDraft] = []
    noted = {part.phase.id: stage_note(part.phase) for part in parts}
    stages = [notes.stage(StageDraft(native=name), note) for name, note in noted.items()]
    for part in parts:
        phase = part.phase
        task, claim = _task(part, criteria), claim_of(part, document, layout.home_in(main))
        drafts.append(TaskDraft(native=part.id, stage=phase.id, task=task, claim=claim))
        criteria = loose.texts(loose.first(phase.entry, "acceptance_criteria", "criteria")) or criteria
    return notes.plan(assemble(goal_of(document, main), stages, drafts), notes.of(document), noted)


def _task(part: Part, criteria: tuple[str, ...]) -> Task:
    """Return a phase's work as a task, told the acceptance criteria that earlier phases settled."""
    name = part.phase.name or part.phase.id
    task = Task(
        id=part.id,
        title=name.replace("-", " ").capitalize(),
        prompt=phases.prompt_for(name),
        acceptance=criteria,
        allow_empty=phases.may_be_empty(name),
    )
    return notes.task(task, part.note)


def claim_of(part: Part, document: Node, home: str) -> Claim:
    """Return what the state says of one phase, whose output is in the folder `home`."""
    phase, entry = part.phase, part.phase.entry
    said = _word(phase)
    standing = _standing(phase, said)
    iterations = loose.count(loose.node(document.get("iteration_counts")).get(phase.name))
    attempts = _attempts(phase, standing, iterations)
    claim = Claim(
        task=part.id,
        native=phase.label,
        standing=standing,
        said=said,
        attempts=attempts,
        spent=spent_of(standing, attempts),
        failures=_failures(phase, standing, attempts, document),
        commits=loose.commits(loose.first(entry, "commits", "commit", "git_commit")),
        files=loose.texts(loose.first(entry, "files_changed", "files_modified", "files")),
        outputs=_outputs(phase, home),
        branch=loose.text(loose.node(document.get("recovery_info")).get("git_branch")),
        summary=loose.text(loose.first(entry, "summary", "result")),
    )
    return notes.claim(claim, part.note)


def _outputs(phase: Phase, home: str) -> tuple[str, ...]:
    """Return the report that is all that a phase without code leaves."""
    if not phases.may_be_empty(phase.name):
        return ()
    said = loose.text(phase.entry.get("output_file"))
    return (posixpath.join(home, said or layout.output_name(phase.number, phase.name)),)


def _word(phase: Phase) -> str:
    return loose.text(phase.entry.get("status")) or _UNSAID[phase.place]


def _standing(phase: Phase, said: str) -> Standing:
    """Return where a phase stands. One that is still listed as to come is not done, whatever else is said."""
    standing, _ = standing_of(said)
    return Standing.PENDING if phase.place == "pending" and standing is Standing.DONE else standing


def _attempts(phase: Phase, standing: Standing, iterations: int) -> int:
    """Return how often a phase was begun. An iteration count is of those that came after the first."""
    begun = 0 if standing in (Standing.PENDING, Standing.SKIPPED) else 1
    counted = iterations + begun if iterations else begun
    return max(loose.count(phase.entry.get("attempt")), counted, len(phase.earlier) + begun if begun else 0)


def _failures(phase: Phase, standing: Standing, attempts: int, document: Node) -> tuple[PastFailure, ...]:
    """Return the errors of earlier iterations and of the present one; a blocker stands in for a missing error."""
    past = [
        PastFailure(
            attempt=number,
            error=loose.message(entry.get("error"))
            or f"the phase ended with {loose.text(entry.get('status'))}",
        )
        for number, entry in enumerate(phase.earlier, 1)
        if loose.message(entry.get("error"))
        or standing_of(loose.text(entry.get("status")))[0] is Standing.FAILED
    ]
    error = loose.message(phase.entry.get("error"))
    if standing is Standing.FAILED and not error:
        error = (
            "; ".join(blockers_of(document))
            or loose.text(phase.entry.get("summary"))
            or "no error was recorded"
        )
    if error and standing not in SETTLED:
        past.append(PastFailure(attempt=max(attempts, 1), error=error))
    return tuple(past)


def blockers_of(document: Node) -> list[str]:
    """Return what the state says stands in the way."""
    listed = loose.items(document.get("blockers"))
    said = (
        loose.first(each, "description", "message", "reason", "error", "title")
        if isinstance(each, dict)
        else each
        for each in listed
    )
    return [words for each in said if (words := loose.text(each))]


def _findings(document: Node, parts: list[Part], claims: Mapping[str, Claim]) -> Iterator[Finding]:
    yield from unknown_words(claims.values())
    for part in parts:
        yield from _about_listing(part, claims[part.id])
    for blocker in blockers_of(document):
        yield Finding(kind="blocker", sentence=f"The state names a blocker: {blocker}")
    yield from _about_resuming(document, parts, claims)


def _about_listing(part: Part, claim: Claim) -> Iterator[Finding]:
    phase = part.phase
    if phase.doubled or (phase.place == "pending" and standing_of(_word(phase))[0] is Standing.DONE):
        said = f"`{part.id}` is listed as finished and as still to do; it counts as {claim.standing}."
        yield Finding(kind="copies-differ", task=part.id, sentence=said)


def _about_resuming(document: Node, parts: list[Part], claims: Mapping[str, Claim]) -> Iterator[Finding]:
    """Tell where the state contradicts itself about what comes next."""
    aliases = ((part.phase.id, (part.phase.name, part.phase.label, part.phase.number)) for part in parts)
    names = {alias: phase for phase, several in aliases for alias in several}
    open_now = [part.phase.id for part in parts if claims[part.id].standing not in SETTLED]
    said = loose.text(loose.node(document.get("recovery_info")).get("can_resume_from"))
    if said and said not in names:
        text = f"It says to resume from {said!r}, and there is no such phase."
        yield Finding(kind="unknown-task", sentence=text)
    elif said and names[said] != next(iter(open_now), ""):
        following = f"the first that is not done is `{open_now[0]}`" if open_now else "every phase is done"
        yield Finding(
            kind="resume-point-differs", sentence=f"It says to resume from {said!r}, but {following}."
        )
    overall, _ = standing_of(loose.text(document.get("status")))
    if open_now and (overall is Standing.DONE or _is_called_over(document)):
        text = f"The state says that the work is over, but `{open_now[0]}` is not done."
        yield Finding(kind="done-with-unfinished-parts", sentence=text)


def _is_called_over(document: Node) -> bool:
    """Tell whether there is nothing under way and nothing to come: what APEX takes for the end."""
    return not document.get("current_phase") and not document.get("pending_phases")
