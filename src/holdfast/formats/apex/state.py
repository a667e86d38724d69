"""An APEX state.json as a run: phases become stages, its entries become claims, contradictions become findings.

Also the list of a project's tasks, as `/apex -r --list` shows it.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from holdfast.core.plan import Task
from holdfast.formats import extra_fields
from holdfast.formats.apex import layout, phases
from holdfast.formats.apex.phases import ApexPhase, phases_of
from holdfast.formats.contradictions import done_with_unfinished_parts, unknown_words
from holdfast.formats.lenient_json import (
    BrokenFileError,
    Key,
    Node,
    commits,
    count,
    items,
    message,
    minute_of,
    node,
    nodes,
    parse_object,
    text,
)
from holdfast.formats.model import SETTLED, Claim, ClaimedStatus, Finding, ForeignRun, PastFailure
from holdfast.formats.plan_assembly import Assembly, StageDraft, TaskDraft, assemble, task_ids
from holdfast.formats.registry import System
from holdfast.formats.status_words import claim_from, claimed_status

_TASK_ID = Key("task_id", "id")
_GOAL = Key("task_description", "project_description", "description", "task")
_BRANCH = Key("git_branch", "branch")
_LAST_COMMIT = Key("git_last_commit", "last_commit")
_UPDATED = Key("updated_at", "created_at")
_BLOCKER = Key("description", "message", "reason", "error", "title")
_COMMITS = Key("commits", "commit", "git_commit")
_FILES = Key("files_changed", "files_modified", "files")
_SUMMARY = Key("summary", "result")
_CRITERIA = Key("acceptance_criteria", "criteria")

_RESUMABLE = "← resumable"


@dataclass(frozen=True, slots=True)
class PhaseTask:
    """One task of a phase, with its extra fields. APEX has one per phase; a Holdfast run may have more."""

    phase: ApexPhase
    id: str
    extra: Node


def phase_tasks(found: list[ApexPhase]) -> list[PhaseTask]:
    """Return the tasks of all phases, in order, each with its id."""
    several = [
        (phase, extra)
        for phase in found
        for extra in nodes(extra_fields.of(phase.entry).get("tasks")) or [{}]
    ]
    names = task_ids([text(extra.get("id")) or phase.id for phase, extra in several])
    return [PhaseTask(phase, name, extra) for (phase, extra), name in zip(several, names, strict=True)]


def read_state(main: str, document: Node, documents: Mapping[str, bytes]) -> ForeignRun:
    """Return the run that a state file describes. It has at least one phase."""
    tasks = phase_tasks(phases_of(document))
    made = assembled(main, document, tasks)
    claims = {claim.task: claim for claim in made.claims}
    recovery = node(document.get("recovery_info"))
    is_settled = all(claim.standing in SETTLED for claim in made.claims)
    return made.as_run(
        System.APEX,
        name_of(document, main),
        main,
        documents,
        _contradictions(document, tasks, claims),
        finished=is_settled and not document.get("current_phase"),
        branches=_BRANCH.texts(recovery),
        commits=commits(_LAST_COMMIT.raw(recovery)),
    )


def name_of(document: Node, main: str) -> str:
    """Return the task's name: its id, else the folder or link where it was found."""
    named = _TASK_ID.text(document) or layout.task_in(main)
    return named or text(document.get("project_name")) or "apex"


def assembled(main: str, document: Node, tasks: list[PhaseTask]) -> Assembly:
    """Return the phases as stages, one after the other, and what the state claims about each."""
    criteria: tuple[str, ...] = ()
    drafts: list[TaskDraft] = []
    extra = {task.phase.id: node(extra_fields.of(task.phase.entry).get("stage")) for task in tasks}
    stages = [extra_fields.stage(StageDraft(native=name), fields) for name, fields in extra.items()]
    for task in tasks:
        spec = extra_fields.task(_task(task.phase, criteria), task.extra)
        claim = extra_fields.claim(_claim(task.phase, document, posixpath.dirname(main)), task.extra)
        drafts.append(TaskDraft(native=task.id, stage=task.phase.id, task=spec, claim=claim))
        criteria = _CRITERIA.texts(task.phase.entry) or criteria
    goal = _GOAL.text(document) or name_of(document, main)
    return extra_fields.plan(assemble(goal, stages, drafts), extra_fields.of(document), extra)


def _task(phase: ApexPhase, criteria: tuple[str, ...]) -> Task:
    """Return the work of a phase, with the acceptance criteria that earlier phases settled."""
    name = phase.name or phase.id
    return Task(
        id="",
        title=name.replace("-", " ").capitalize(),
        prompt=phases.prompt_for(name),
        acceptance=criteria,
        allow_empty=phases.may_be_empty(name),
    )


def _claim(phase: ApexPhase, document: Node, home: str) -> Claim:
    """Return what the state says about one phase. The phase's output is in the folder `home`."""
    entry = phase.entry
    attempts = _attempts(phase, document)
    return replace(
        claim_from(phase.said, attempts, phase.standing),
        failures=tuple(_failures(phase, attempts, document)),
        commits=commits(_COMMITS.raw(entry)),
        files=_FILES.texts(entry),
        outputs=_outputs(phase, home),
        branch=text(node(document.get("recovery_info")).get("git_branch")),
        summary=_SUMMARY.text(entry),
    )


def _outputs(phase: ApexPhase, home: str) -> tuple[str, ...]:
    """Return the output file, which is the whole result of a phase without code."""
    if not phases.may_be_empty(phase.name):
        return ()
    said = text(phase.entry.get("output_file"))
    return (posixpath.join(home, said or layout.output_name(phase.number, phase.name)),)


def _attempts(phase: ApexPhase, document: Node) -> int:
    """Return how often a phase was started. An iteration count does not include the first time."""
    said = count(phase.entry.get("attempt"))
    iterations = count(node(document.get("iteration_counts")).get(phase.name))
    if phase.standing in (ClaimedStatus.PENDING, ClaimedStatus.SKIPPED):
        return max(said, iterations)
    return max(said, iterations + 1, len(phase.earlier) + 1)


def _failures(phase: ApexPhase, attempts: int, document: Node) -> Iterator[PastFailure]:
    """Yield the errors of earlier iterations and of the current one; a blocker replaces a missing error."""
    for number, entry in enumerate(phase.earlier, 1):
        word, error = text(entry.get("status")), message(entry.get("error"))
        if error or claimed_status(word) is ClaimedStatus.FAILED:
            yield PastFailure(attempt=number, error=error or f"the phase ended with {word}")
    error = message(phase.entry.get("error"))
    if phase.standing is ClaimedStatus.FAILED and not error:
        reason = "; ".join(blockers_of(document)) or text(phase.entry.get("summary"))
        error = reason or "no error was recorded"
    if error and phase.standing not in SETTLED:
        yield PastFailure(attempt=max(attempts, 1), error=error)


def blockers_of(document: Node) -> list[str]:
    """Return what the state names as blockers."""
    return list(filter(None, map(_BLOCKER.text_or_self, items(document.get("blockers")))))


def _contradictions(document: Node, tasks: list[PhaseTask], claims: Mapping[str, Claim]) -> Iterator[Finding]:
    yield from unknown_words(claims.values())
    for task in tasks:
        phase, counted = task.phase, claims[task.id].standing
        if phase.listed_twice or claimed_status(phase.said) is not phase.standing:
            said = f"`{task.id}` is listed as finished and as still to do; it counts as {counted}."
            yield Finding("copies-differ", said, task.id)
    for blocker in blockers_of(document):
        yield Finding("blocker", f"The state names a blocker: {blocker}")
    unfinished = [task.phase.id for task in tasks if claims[task.id].standing not in SETTLED]
    yield from _about_resume_point(document, tasks, unfinished)
    # APEX treats a state as finished if nothing is current and nothing is pending.
    is_over = not document.get("current_phase") and not document.get("pending_phases")
    said = "complete" if is_over else text(document.get("status"))
    yield from done_with_unfinished_parts("The state", said, unfinished)


def _about_resume_point(document: Node, tasks: list[PhaseTask], unfinished: list[str]) -> Iterator[Finding]:
    """Report where the state contradicts itself about what comes next."""
    names: dict[str, str] = {}
    for task in tasks:
        phase = task.phase
        names |= dict.fromkeys((phase.name, phase.label, phase.number), phase.id)
    said = text(node(document.get("recovery_info")).get("can_resume_from"))
    if said and said not in names:
        sentence = f"It says to resume from {said!r}, and there is no such phase."
        yield Finding("unknown-task", sentence)
    elif said and names[said] != next(iter(unfinished), ""):
        following = (
            f"the first that is not done is `{unfinished[0]}`" if unfinished else "every phase is done"
        )
        sentence = f"It says to resume from {said!r}, but {following}."
        yield Finding("resume-point-differs", sentence)


def list_runs(documents: Mapping[str, bytes]) -> str:
    """Return a table of all tasks whose state is among the documents. A link counts as its target."""
    found = {row[0]: row for path in sorted(documents) if (row := _task_row(path, documents[path]))}
    rows = [("Task ID", "Status", "Last Phase", "Updated", ""), *(found[name] for name in sorted(found))]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def _task_row(path: str, data: bytes) -> tuple[str, str, str, str, str] | None:
    """Return the id, status, last phase and last change of a task, and whether it can be resumed."""
    if not layout.is_state(path):
        return None
    try:
        document = parse_object(path, data)
    except BrokenFileError:
        name = layout.task_in(path)
        return (name, "UNREADABLE", "", "", _RESUMABLE) if name else None
    found = phases_of(document)
    if not found:
        return None
    run = read_state(path, document, {})
    last = {phase.place: phase.name or phase.number for phase in found}
    failed = any(claim.standing is ClaimedStatus.FAILED for claim in run.claims)
    return (
        name_of(document, path),
        "COMPLETE" if run.finished else "FAILED" if failed else "IN_PROGRESS",
        last.get("current_phase") or last.get("completed_phases") or found[0].name,
        minute_of(_UPDATED.text(document)),
        "" if run.finished else _RESUMABLE,
    )
