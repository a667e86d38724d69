"""One sprint: its request becomes a task with validators and a gate, its records become a claim."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from holdfast.core.plan import Task, Validator
from holdfast.core.projection import Report
from holdfast.formats import extra_fields
from holdfast.formats.lenient_json import Key, Node, commits, count, items, node, nodes, text, texts
from holdfast.formats.markdown import bulleted, paragraphs
from holdfast.formats.model import Claim, ClaimedStatus, PastFailure
from holdfast.formats.plan_assembly import is_command, is_path, task_ids
from holdfast.formats.status_words import claim_from

TEST_SLOT = "tests"
"""CFN Loop lets only one sprint run its tests at a time. A slot of this name does the same."""
_EPIC_GATE = 0.9
"""The score that validators must give if an epic names none: the usual one in CFN Loop's epics."""
_REPORT_GATE = Task(id="").gate
_VALIDATOR = re.compile(r"validat|review|judge|auditor", re.IGNORECASE)

# What a sprint asks for.
SPRINT_ID = Key(
    "sprintId", "sprint_id", "id", "sprint", "phaseId", "phase_id", "number", "name", "title"
)  # fmt: skip
_SPRINT_TITLE = Key("name", "title", "sprint_name", "sprintName", "phase_name", "phaseName")
_ABOUT = Key(
    "description", "goal", "sprint_goal", "sprintGoal", "objective", "sprint_objective", "purpose", "deliverable"
)  # fmt: skip
_POINT_TITLE = Key("title", "name", "id")
_CRITERIA = Key(
    "acceptanceCriteria", "acceptance_criteria", "successCriteria", "success_criteria", "definitionOfDone",
    "definition_of_done", "acceptance",
)  # fmt: skip
_TESTS = Key("testCommand", "test_command", "testCommands", "test_commands", "verification", "verify")
_IN_SCOPE = Key("in_scope", "inScope")
_OUT_OF_SCOPE = Key("out_of_scope", "outOfScope")
_PARTS = ("tasks", "subtasks", "steps", "objectives", "requirements")
_DELIVERED = ("deliverables", "files", "filesToCreate", "files_to_create")

# Who validates it.
_GATE = Key(
    "confidenceThreshold", "confidence_threshold", "consensusThreshold", "consensus_threshold", "consensusTarget",
    "consensus_target", "confidenceTarget", "confidence_target", "required_consensus", "gate", "autoApproveThreshold",
)  # fmt: skip
_GATE_GROUPS = (
    "quality_gates", "qualityGates", "confidenceThresholds", "confidence_thresholds", "thresholds", "gates",
)  # fmt: skip
_LOOP_2_GATE = Key(
    "loop_2_consensus", "loop2Consensus", "loop2_consensus", "loop2", "loop_2", "consensus", "validation"
)  # fmt: skip
_LOOP_2 = Key("loop2", "loop_2", "validation")
_AGENTS = Key("agents", "agent_roles", "agentRoles")
_VALIDATOR_NAME = Key("id", "name", "role", "agent", "type")
_VALIDATOR_PROMPT = Key("prompt", "focus", "description")
_ROLE = Key("role", "type", "name", "id")

# What records say about it.
_STATUS = Key("status", "state")
_ATTEMPTS = Key("attempts", "iteration", "iterations", "loop3_iterations")
_COMMIT = Key("commit", "commitHash", "commit_hash")
_WIP_BRANCH = Key("wipBranch", "wip_branch", "branch")
_WORKTREE = Key("worktree", "worktreePath")
_SUMMARY = Key("summary", "outcome")
_WRITTEN = (
    "filesWritten", "files_written", "filesCompleted", "files_completed", "files_created", "files_modified",
)  # fmt: skip
_IN_PROGRESS = Key("filesInProgress", "files_in_progress")
_FILE = Key("path", "file", "fileBeingEdited", "name")
_LINE = Key("currentLine", "current_line", "line", "lineNumber", "line_number")
_SECTION_DONE = Key(
    "lastCompletedSection", "last_completed_section", "lastSection", "last_section", "function"
)
_SECTION_NEXT = Key("nextSection", "next_section")
_PROGRESS = Key("progress", "completion_percentage", "percentComplete")
_CONFIDENCE = Key("confidence", "confidenceScore", "confidence_score")
_LOOP_3 = Key("loop3", "loop_3", "overall")
_ERRORS = Key("errors", "failures", "error")
_MESSAGE = Key("message", "error", "description")
_FEEDBACK = Key("feedback", "recommendation", "details")
_ISSUES = (
    "critical_issues", "major_issues", "issues_found", "issues", "blockers", "minor_issues", "scope_issues",
)  # fmt: skip
_ISSUE = Key("description", "title", "issue", "message")


def task_of(sprint: Node, *around: Node) -> Task:
    """Return the task of a sprint, without needs. `around` are the objects around it, the nearest first."""
    title = _SPRINT_TITLE.text(sprint)
    name = title or SPRINT_ID.text(sprint)
    verify = tuple(line for line in _TESTS.texts(sprint) if is_command(line))
    run = texts(sprint.get("run"))
    task = Task(
        id="",
        title=title,
        prompt="" if run else _prompt(name, sprint),
        run=run,
        files=tuple(dict.fromkeys(_files(sprint))),
        verify=verify,
        slot=TEST_SLOT if verify else "",
        validators=_validators(name, sprint, *around),
        gate=gate_of(sprint, *around, default=_EPIC_GATE),
        acceptance=tuple(dict.fromkeys(_criteria(sprint))),
    )
    return extra_fields.task(task, extra_fields.of(sprint))


def _prompt(name: str, sprint: Node) -> str:
    """Return everything in the file that an agent must know, in the file's order."""
    roles = _implementers(sprint)
    scope = node(sprint.get("scope"))
    return paragraphs(
        _ABOUT.text(sprint) or name,
        *_outline(sprint),
        bulleted("In scope", _IN_SCOPE.texts(scope)),
        bulleted("Out of scope", _OUT_OF_SCOPE.texts(scope)),
        f"Work as: {', '.join(roles)}." if roles else "",
    )


def _outline(sprint: Node) -> Iterator[str]:
    """Yield the sprint's own points, its deliverables, and those of the phases within it."""
    yield bulleted("What there is to do", _points(sprint, *_PARTS))
    yield bulleted("What it delivers", _points(sprint, "deliverables"))
    for phase in _nodes_in(sprint, "phases"):
        head = ": ".join(
            filter(None, (_SPRINT_TITLE.text(phase) or SPRINT_ID.text(phase), _ABOUT.text(phase)))
        )
        yield "\n".join(filter(None, (f"## {head}" if head else "", *_outline(phase))))


def _points(sprint: Node, *keys: str) -> Iterator[str]:
    return filter(None, (_point(each) for key in keys for each in items(sprint.get(key))))


def _point(entry: object) -> str:
    if not isinstance(entry, dict):
        return text(entry)
    return ": ".join(filter(None, (_POINT_TITLE.text(entry), _ABOUT.text(entry))))


def _nodes_in(sprint: Node, *keys: str) -> Iterator[Node]:
    """Yield the objects that a sprint lists under some keys."""
    yield from (child for key in keys for child in items(sprint.get(key)) if isinstance(child, dict))


def _with_children(sprint: Node) -> Iterator[Node]:
    """Yield a sprint and the objects within it that carry criteria and deliverables of their own."""
    yield sprint
    yield from _nodes_in(sprint, "phases", "deliverables", "tasks", "subtasks")


def _criteria(sprint: Node) -> Iterator[str]:
    for place in _with_children(sprint):
        said = _CRITERIA.raw(place)
        if isinstance(said, dict):
            yield from (f"{key}: {text(value)}" for key, value in said.items() if text(value))
        else:
            yield from filter(None, map(_point, items(said)))


def _files(sprint: Node) -> Iterator[str]:
    """Yield the deliverables that are paths: these must exist when the sprint ends."""
    for place in _with_children(sprint):
        for key in _DELIVERED:
            yield from (path for path in texts(place.get(key)) if is_path(path))


def gate_of(*places: Node, default: float = _REPORT_GATE) -> float:
    """Return the score that the validators must give, from 0 to 1: from the nearest object that has one."""
    for place in places:
        groups = (node(place.get(key)) for key in _GATE_GROUPS)
        for said in (_GATE.raw(place), *map(_LOOP_2_GATE.raw, groups)):
            if (share := share_of(said)) is not None:
                return share
    return default


def share_of(value: object) -> float | None:
    """Return a confidence, possibly given in percent, as a number from 0 to 1; None if it is invalid."""
    if isinstance(value, str) and re.fullmatch(r"\s*\d{1,3}(\.\d{1,6})?\s*%?\s*", value):
        value = float(value.strip(" %"))
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value or value < 0:
        return None
    return float(value) if value <= 1 else value / 100 if value <= 100 else None


def _validators(title: str, *places: Node) -> tuple[Validator, ...]:
    """Return the validators of the nearest object that names any. Holdfast invents none."""
    named = next(filter(None, (tuple(_validators_in(title, place)) for place in places)), ())
    ids = task_ids([validator.id for validator in named], "validator")
    return tuple(replace(validator, id=name) for name, validator in zip(ids, named, strict=True))


def _validators_in(title: str, place: Node) -> Iterator[Validator]:
    """Yield the validators of one object by their native names; one that is a command has no prompt."""
    listed = [*items(place.get("validators")), *items(_LOOP_2.node(place).get("validators"))]
    agents = (agent for agent in items(_AGENTS.raw(place)) if isinstance(agent, dict))
    roles = ((agent, f"{text(agent.get('type'))} {text(agent.get('role'))}") for agent in agents)
    listed += [agent for agent, role in roles if _VALIDATOR.search(role)]
    for each in listed:
        entry = node(each)
        run = texts(entry.get("run"))
        name = _VALIDATOR_NAME.text(entry) or text(each)
        prompt = _VALIDATOR_PROMPT.text(entry) or "; ".join(texts(entry.get("responsibilities")))
        asked = prompt or f"Judge the work on {title} as its {name or 'validator'}."
        if name or prompt or run:
            yield Validator(id=name, prompt="" if run else asked, run=run)


def _implementers(sprint: Node) -> tuple[str, ...]:
    """Return the roles that do the work, if the file names any."""
    named = [*items(sprint.get("implementers")), *items(_AGENTS.raw(sprint))]
    roles = (_ROLE.text(node(each)) or text(each) for each in named)
    return tuple(dict.fromkeys(role for role in roles if role and not _VALIDATOR.search(role)))


def sprint_claim(sprint: Node, agents: Sequence[Node] = ()) -> Claim:
    """Return what a sprint's record, and those of its agents, claim."""
    failures = tuple(_failures(sprint))
    claim = claim_from(_STATUS.text(sprint), max(_ATTEMPTS.count(sprint), len(failures)))
    claim = replace(
        claim,
        failures=failures,
        commits=commits([*items(sprint.get("commits")), _COMMIT.raw(sprint)]),
        files=tuple(dict.fromkeys(_written(sprint))),
        branch=_WIP_BRANCH.text(sprint),
        worktree=_WORKTREE.text(sprint),
        summary=_SUMMARY.text(sprint),
        report=_report(sprint, agents, claim.standing),
    )
    return extra_fields.claim(claim, extra_fields.of(sprint))


def _written(sprint: Node) -> Iterator[str]:
    for key in _WRITTEN:
        for each in items(sprint.get(key)):
            if not isinstance(each, dict):
                yield from texts(each)
            elif each.get("completed") is not False:
                yield from _FILE.texts(each)


def _report(sprint: Node, agents: Sequence[Node], standing: ClaimedStatus) -> Report | None:
    """Return the progress: the file being edited, the position in it, and the agent's confidence.

    The sprint's own record comes first; its agents' records fill the gaps.
    """
    fields = (_FILE, _LINE, _SECTION_DONE, _SECTION_NEXT)
    places = [*_open_files(sprint), node(sprint.get("lastCheckpoint")), *agents]
    found = [place for place in places if any(field.raw(place) for field in fields)]
    file, line, done, following = (next(filter(None, map(field.text, found)), "") for field in fields)
    confidences = (_confidence(place) for place in (*found, sprint))
    progress = _percent(_PROGRESS.raw(sprint))
    report = Report(
        progress=progress,
        file=file,
        line=count(line) if line else None,
        section_done=done or _listed_part(agents, "subtasksCompleted", -1),
        section_next=following or _listed_part(agents, "subtasksRemaining", 0),
        confidence=next((share for share in confidences if share is not None), None),
    )
    has_only_progress = report == Report(progress=progress)
    is_running = progress is not None and standing is ClaimedStatus.RUNNING
    return None if has_only_progress and not is_running else report


def _open_files(sprint: Node) -> list[Node]:
    """Return the files that were in progress, the last one first."""
    listed = items(_IN_PROGRESS.raw(sprint))
    files = [each if isinstance(each, dict) else {"path": text(each)} for each in reversed(listed)]
    return [file for file in files if file.get("completed") is not True]


def _listed_part(agents: Sequence[Node], key: str, at: int) -> str:
    """Return the last finished, or the next open, part of the work that an agent lists."""
    listed = (texts(node(agent.get("taskProgress")).get(key)) for agent in agents)
    return next((parts[at] for parts in listed if parts), "")


def _confidence(place: Node) -> float | None:
    said = _CONFIDENCE.raw(place)
    return share_of(_LOOP_3.raw(said) if isinstance(said, dict) else said)


def _percent(value: object) -> float | None:
    """Return a progress as a percentage. A number below 1 is a fraction; a plain 1 is one percent."""
    share = share_of(value)
    return share if share is None or value == 1 else share * 100


def _failures(sprint: Node) -> Iterator[PastFailure]:
    """Yield the failures on record, each with the feedback for the next attempt."""
    for place, error in enumerate(items(_ERRORS.raw(sprint)), 1):
        said = node(error)
        message, feedback = _MESSAGE.text(said) or text(error), _FEEDBACK.text(said)
        if message or feedback:
            attempt = count(said.get("attempt")) or place
            yield PastFailure(attempt=attempt, error=message or feedback, feedback=feedback)


def issues_of(report: Node) -> str:
    """Return the faults that validators found, one per line: the feedback for the next attempt."""
    lines = [_issue(each) for key in _ISSUES for each in items(report.get(key))]
    lines += [line for part in nodes(report.get("validation_results")) for line in texts(part.get("issues"))]
    return "\n".join(f"- {line}" for line in dict.fromkeys(filter(None, lines)))


def _issue(entry: object) -> str:
    if not isinstance(entry, dict):
        return text(entry)
    return " → ".join(filter(None, (_ISSUE.text(entry), text(entry.get("recommendation")))))
