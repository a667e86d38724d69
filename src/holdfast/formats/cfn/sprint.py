"""One sprint of an epic as a task: what it is about, what must hold, what it delivers, how it is tested and judged."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from holdfast.core.claims import Report
from holdfast.core.plan import Task, Validator
from holdfast.formats import extra_fields
from holdfast.formats.lenient_json import Node, commits, count, first, items, node, nodes, text, texts
from holdfast.formats.model import UNBEGUN, Claim, ClaimedStatus, PastFailure, spent_of
from holdfast.formats.plan_assembly import is_command, is_path, task_ids
from holdfast.formats.status_words import claimed_status

EPIC_GATE = 0.9
"""What the validators of a sprint must give where an epic does not say: what epics of CFN Loop ask for."""
_REPORT_GATE = Task(id="").gate
_GATES = (
    "confidenceThreshold", "confidence_threshold", "consensusThreshold", "consensus_threshold", "consensusTarget",
    "consensus_target", "confidenceTarget", "confidence_target", "required_consensus", "gate", "autoApproveThreshold",
)  # fmt: skip
_GROUPS = (
    "quality_gates",
    "qualityGates",
    "confidenceThresholds",
    "confidence_thresholds",
    "thresholds",
    "gates",
)
_LOOP_2 = (
    "loop_2_consensus",
    "loop2Consensus",
    "loop2_consensus",
    "loop2",
    "loop_2",
    "consensus",
    "validation",
)
_VALIDATOR = re.compile(r"validat|review|judge|auditor", re.IGNORECASE)


def gate_of(*places: Node, default: float = _REPORT_GATE) -> float:
    """Return the score that the validators must give: the nearest place that says one, as a share of 1."""
    for place in places:
        groups = [node(place.get(key)) for key in _GROUPS]
        for said in (first(place, *_GATES), *(first(group, *_LOOP_2) for group in groups)):
            if (share := share_of(said)) is not None:
                return share
    return default


def share_of(value: object) -> float | None:
    """Return a confidence as a number from 0 to 1, also where it is written as a percentage; None if it is none."""
    if isinstance(value, str) and re.fullmatch(r"\s*\d{1,3}(\.\d{1,6})?\s*%?\s*", value):
        value = float(value.strip(" %"))
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value or value < 0:
        return None
    return float(value) if value <= 1 else value / 100 if value <= 100 else None


def validators_of(title: str, *places: Node) -> tuple[Validator, ...]:
    """Return the validators that the nearest place names. None are made up where a file names none."""
    for place in places:
        named = list(_validators(place))
        if named:
            ids = task_ids([judge.id for judge in named], "validator")
            return tuple(
                replace(judge, id=name, prompt=judge.prompt or _question(title, judge))
                for name, judge in zip(ids, named, strict=True)
            )
    return ()


def _question(title: str, judge: Validator) -> str:
    return "" if judge.run else f"Judge the work on {title} as its {judge.id or 'validator'}."


def _validators(place: Node) -> Iterator[Validator]:
    loop_2 = node(first(place, "loop2", "loop_2", "validation"))
    for each in [*items(place.get("validators")), *items(loop_2.get("validators"))]:
        yield from _validator(each)
    for each in items(first(place, "agents", "agent_roles", "agentRoles")):
        kind = f"{text(node(each).get('type'))} {text(node(each).get('role'))}"
        if isinstance(each, dict) and _VALIDATOR.search(kind):
            yield from _validator(each)


def _validator(entry: object) -> Iterator[Validator]:
    """Return a validator by its native name; one that is a command has no prompt."""
    said = node(entry)
    name = text(first(said, "id", "name", "role", "agent", "type")) or text(entry)
    asked = text(first(said, "prompt", "focus", "description")) or "; ".join(
        texts(said.get("responsibilities"))
    )
    run = texts(said.get("run"))
    if name or asked or run:
        yield Validator(id=name, prompt="" if run else asked, run=run)


def implementers_of(sprint: Node) -> tuple[str, ...]:
    """Return who is to do the work, as far as a file says."""
    named = [*items(sprint.get("implementers")), *items(first(sprint, "agents", "agent_roles", "agentRoles"))]
    roles = []
    for each in named:
        role = text(first(node(each), "role", "type", "name", "id")) or text(each)
        if role and not _VALIDATOR.search(role):
            roles.append(role)
    return tuple(dict.fromkeys(roles))


TEST_SLOT = "tests"
"""CFN Loop lets one sprint run its tests at a time; so does a slot of this name."""
_CRITERIA = (
    "acceptanceCriteria", "acceptance_criteria", "successCriteria", "success_criteria", "definitionOfDone",
    "definition_of_done", "acceptance",
)  # fmt: skip
_ABOUT = (
    "description",
    "goal",
    "sprint_goal",
    "sprintGoal",
    "objective",
    "sprint_objective",
    "purpose",
    "deliverable",
)
_PARTS = ("tasks", "subtasks", "steps", "objectives", "requirements")
_TESTS = ("testCommand", "test_command", "testCommands", "test_commands", "verification", "verify")


def native_of(sprint: Node) -> str:
    """Return what a sprint is called, whatever that key is named."""
    return text(
        first(
            sprint, "sprintId", "sprint_id", "id", "sprint", "phaseId", "phase_id", "number", "name", "title"
        )
    )


def title_of(sprint: Node) -> str:
    """Return a sprint's title."""
    return text(first(sprint, "name", "title", "sprint_name", "sprintName", "phase_name", "phaseName"))


def task_of(sprint: Node, *around: Node) -> Task:
    """Return the task of a sprint, without needs. `around` are the objects it lies in, the nearest first."""
    title = title_of(sprint)
    verify = tuple(line for line in texts(first(sprint, *_TESTS)) if is_command(line))
    run = texts(sprint.get("run"))
    task = Task(
        id="",
        title=title,
        prompt="" if run else _prompt(title or native_of(sprint), sprint),
        run=run,
        files=tuple(dict.fromkeys(_files(sprint))),
        verify=verify,
        slot=TEST_SLOT if verify else "",
        validators=validators_of(title or native_of(sprint), sprint, *around),
        gate=gate_of(sprint, *around, default=EPIC_GATE),
        acceptance=tuple(dict.fromkeys(_criteria(sprint))),
    )
    return extra_fields.task(task, extra_fields.of(sprint))


def _prompt(title: str, sprint: Node) -> str:
    """Return everything the file says that an agent must know, in the order of the file's own parts."""
    about = text(first(sprint, *_ABOUT))
    who = implementers_of(sprint)
    scope = node(sprint.get("scope"))
    parts = [
        about or title,
        *_outline(sprint),
        _list("In scope", texts(first(scope, "in_scope", "inScope"))),
        _list("Out of scope", texts(first(scope, "out_of_scope", "outOfScope"))),
        f"Work as: {', '.join(who)}." if who else "",
    ]
    return "\n\n".join(filter(None, parts))


def _outline(sprint: Node) -> Iterator[str]:
    """Yield the sprint's own points, its deliverables, and those of the phases within it."""
    points = [line for key in _PARTS for line in map(_point, items(sprint.get(key)))]
    yield _list("What there is to do", tuple(filter(None, points)))
    yield _list("What it delivers", tuple(filter(None, map(_point, items(sprint.get("deliverables"))))))
    for phase in items(sprint.get("phases")):
        if isinstance(phase, dict):
            about = text(first(phase, *_ABOUT))
            head = ": ".join(filter(None, (title_of(phase) or native_of(phase), about)))
            yield "\n".join(filter(None, (f"## {head}" if head else "", *_outline(phase))))


def _point(entry: object) -> str:
    if not isinstance(entry, dict):
        return text(entry)
    said = (text(first(entry, "title", "name", "id")), text(first(entry, *_ABOUT)))
    return ": ".join(filter(None, said))


def _list(head: str, lines: tuple[str, ...]) -> str:
    return "\n".join((f"{head}:", *(f"- {line}" for line in lines))) if lines else ""


def _within(sprint: Node) -> Iterator[Node]:
    """Yield a sprint and the objects within it that carry criteria and deliverables of their own."""
    yield sprint
    for key in ("phases", "deliverables", "tasks", "subtasks"):
        for child in items(sprint.get(key)):
            if isinstance(child, dict):
                yield child


def _criteria(sprint: Node) -> Iterator[str]:
    for place in _within(sprint):
        said = first(place, *_CRITERIA)
        if isinstance(said, dict):
            yield from (f"{key}: {text(value)}" for key, value in said.items() if text(value))
        else:
            yield from filter(None, map(_point, items(said)))


def _files(sprint: Node) -> Iterator[str]:
    """Yield the deliverables that are paths: these must exist when the sprint ends."""
    for place in _within(sprint):
        for key in ("deliverables", "files", "filesToCreate", "files_to_create"):
            yield from (path for path in texts(place.get(key)) if is_path(path))


_WRITTEN = (
    "filesWritten",
    "files_written",
    "filesCompleted",
    "files_completed",
    "files_created",
    "files_modified",
)
_WRITING = ("filesInProgress", "files_in_progress")
_FILE = ("path", "file", "fileBeingEdited", "name")
_LINE = ("currentLine", "current_line", "line", "lineNumber", "line_number")
_DONE = ("lastCompletedSection", "last_completed_section", "lastSection", "last_section", "function")
_NEXT = ("nextSection", "next_section")
_SURE = ("confidence", "confidenceScore", "confidence_score")


def sprint_claim(native: str, sprint: Node, agents: Sequence[Node] = ()) -> Claim:
    """Return what a sprint's record, and those of its agents, claim."""
    said = text(first(sprint, "status", "state"))
    standing = claimed_status(said)
    failures = tuple(_failures(sprint))
    tried = count(first(sprint, "attempts", "iteration", "iterations", "loop3_iterations"))
    attempts = max(tried, len(failures), int(standing not in UNBEGUN))
    claim = Claim(
        task="",
        native=native,
        standing=standing,
        said=said,
        attempts=attempts,
        spent=spent_of(standing, attempts),
        failures=failures,
        commits=_commits(sprint),
        files=tuple(dict.fromkeys(_written(sprint))),
        branch=text(first(sprint, "wipBranch", "wip_branch", "branch")),
        worktree=text(first(sprint, "worktree", "worktreePath")),
        summary=text(first(sprint, "summary", "outcome")),
        report=_report(sprint, agents, standing),
    )
    return extra_fields.claim(claim, extra_fields.of(sprint))


def _commits(sprint: Node) -> tuple[str, ...]:
    single = first(sprint, "commit", "commitHash", "commit_hash")
    return commits([*items(sprint.get("commits")), single])


def _written(sprint: Node) -> Iterator[str]:
    for key in _WRITTEN:
        for each in items(sprint.get(key)):
            if not isinstance(each, dict):
                yield from texts(each)
            elif each.get("completed") is not False:
                yield from texts(first(each, *_FILE))


def _report(sprint: Node, agents: Sequence[Node], standing: ClaimedStatus) -> Report | None:
    """Return how far the work is: the file in progress, where in it, and how sure the agent was.

    The sprint's own record comes first; what it leaves open its agents' records may say.
    """
    places = [*_open_files(sprint), node(sprint.get("lastCheckpoint")), *agents]
    found = [place for place in places if first(place, *_FILE, *_LINE, *_DONE, *_NEXT)]
    progress = percent_of(first(sprint, "progress", "completion_percentage", "percentComplete"))
    confidence = next((share for place in [*found, sprint] if (share := _sureness(place)) is not None), None)
    report = Report(
        progress=progress,
        file=_said(found, _FILE),
        line=count(line) if (line := _said(found, _LINE)) else None,
        section_done=_said(found, _DONE) or _last(agents, "subtasksCompleted", -1),
        section_next=_said(found, _NEXT) or _last(agents, "subtasksRemaining", 0),
        confidence=confidence,
    )
    only_progress = report == Report(progress=progress)
    return None if only_progress and (progress is None or standing is not ClaimedStatus.RUNNING) else report


def _open_files(sprint: Node) -> list[Node]:
    """Return the files that were being written, the one that was being written last first."""
    listed = [
        each if isinstance(each, dict) else {"path": text(each)} for each in items(first(sprint, *_WRITING))
    ]
    return [each for each in reversed(listed) if each.get("completed") is not True]


def _said(places: Sequence[Node], keys: tuple[str, ...]) -> str:
    return next((found for place in places if (found := text(first(place, *keys)))), "")


def _last(agents: Sequence[Node], key: str, at: int) -> str:
    """Return the last finished, or the next open, part of the work that an agent lists."""
    for agent in agents:
        if parts := texts(node(agent.get("taskProgress")).get(key)):
            return parts[at]
    return ""


def _sureness(place: Node) -> float | None:
    said = first(place, *_SURE)
    return share_of(first(said, "loop3", "loop_3", "overall") if isinstance(said, dict) else said)


def percent_of(value: object) -> float | None:
    """Return a progress as a percentage; a broken number up to 1 is a share."""
    if isinstance(value, float) and 0 < value < 1:
        return value * 100
    share = share_of(value)
    if share is None:
        return None
    return share * 100 if isinstance(value, str) or (isinstance(value, int | float) and value > 1) else share


def _failures(sprint: Node) -> Iterator[PastFailure]:
    """Yield the failures on record, each with what the next attempt was told."""
    for place, error in enumerate(items(first(sprint, "errors", "failures", "error")), 1):
        said = node(error)
        message = text(first(said, "message", "error", "description")) or text(error)
        told = text(first(said, "feedback", "recommendation", "details"))
        if message or told:
            yield PastFailure(
                attempt=count(said.get("attempt")) or place, error=message or told, feedback=told
            )


def issues_of(report: Node) -> str:
    """Return what validators found fault with, one per line: the feedback for whoever does the sprint again."""
    keys = (
        "critical_issues",
        "major_issues",
        "issues_found",
        "issues",
        "blockers",
        "minor_issues",
        "scope_issues",
    )
    lines = [line for key in keys for each in items(report.get(key)) if (line := _issue(each))]
    nested = [line for part in nodes(report.get("validation_results")) for line in texts(part.get("issues"))]
    return "\n".join(f"- {line}" for line in dict.fromkeys([*lines, *nested]))


def _issue(entry: object) -> str:
    if not isinstance(entry, dict):
        return text(entry)
    said = (text(first(entry, "description", "title", "issue", "message")), text(entry.get("recommendation")))
    return " → ".join(filter(None, said))
