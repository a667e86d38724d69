"""Writes a Holdfast run as CFN Loop's records, under its own keys. Files, Redis and exports all use them.

The records have no time to live: unfinished work must still be there when somebody returns to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from holdfast.core.ids import snapshot_ref
from holdfast.core.plan import Task
from holdfast.core.projection import Report, TaskRow
from holdfast.core.status import TASK_IS_SETTLED, RunStatus, TaskStatus
from holdfast.formats import extra_fields
from holdfast.formats.cfn.layout import RecordKind, parse_key
from holdfast.formats.cfn.sprint import sprint_claim
from holdfast.formats.exported_run import ExportedRun
from holdfast.formats.lenient_json import Node, iso_time
from holdfast.reporting.displayed_status import progress_of

_S = TaskStatus
SPRINT_WORDS = {
    _S.PENDING: "pending",
    _S.RUNNING: "in_progress",
    _S.WAITING_LIMIT: "paused",
    _S.VERIFYING: "testing",
    _S.VERIFIED: "verified",
    _S.MERGING: "merging",
    _S.COMPLETED: "completed",
    _S.FAILED: "failed",
    _S.BLOCKED: "blocked",
    _S.ABANDONED: "abandoned",
    _S.SKIPPED: "skipped",
}
EPIC_WORDS = {
    RunStatus.PENDING: "pending",
    RunStatus.RUNNING: "in_progress",
    RunStatus.INTERRUPTED: "interrupted",
    RunStatus.PAUSED: "paused",
    RunStatus.STOPPED: "stopped",
    RunStatus.BLOCKED: "blocked",
    RunStatus.COMPLETED: "completed",
    RunStatus.ABANDONED: "abandoned",
}
_LOOPS = {
    _S.RUNNING: "Loop 3 - Implementation",
    _S.WAITING_LIMIT: "Loop 3 - Implementation",
    _S.FAILED: "Loop 3 - Implementation",
    _S.VERIFYING: "Loop 3 - Tests",
    _S.VERIFIED: "Loop 4 - Merge",
    _S.MERGING: "Loop 4 - Merge",
    _S.COMPLETED: "Complete",
}
_AGENT_AT_WORK = (_S.RUNNING, _S.WAITING_LIMIT, _S.VERIFYING)
_IN_PROGRESS = (*_AGENT_AT_WORK, _S.VERIFIED, _S.MERGING)
_AGENT_MARK = "-coder-"


@dataclass(frozen=True, slots=True)
class ExportedSprint:
    """A task as a sprint: its native name, its row, and what its records have in common."""

    view: ExportedRun
    epic: str
    native: str
    task: Task
    row: TaskRow

    @property
    def word(self) -> str:
        """Its status word; also says if it waits for another, or was cut short and has unfinished work."""
        row, needs = self.row, (*self.task.needs, *self.task.needs_interface)
        if row.status is _S.PENDING and row.attempt and (row.carry or row.last_report):
            return "interrupted"
        if row.status is _S.PENDING and any(
            self.view.row_of(need).status not in TASK_IS_SETTLED for need in needs
        ):
            return "waiting"
        return "validating" if self.is_validating else SPRINT_WORDS[row.status]

    @property
    def is_validating(self) -> bool:
        """Whether its tests passed and validators are at work on it."""
        return self.row.status is _S.VERIFYING and self.row.latest.checks_succeeded

    @property
    def progress(self) -> int:
        """Its progress in percent; if it was cut short, the progress by then."""
        last = self.row.last_report if self.row.status is _S.PENDING else None
        return progress_of(self.row) if last is None or last.progress is None else round(last.progress)

    @property
    def report(self) -> Report:
        """What its agent last reported."""
        return self.row.latest.report or self.row.last_report or Report()

    @property
    def landed_files(self) -> tuple[str, ...]:
        """The files that it landed."""
        return self.view.files.get(self.task.id, ()) if self.row.status is _S.COMPLETED else ()

    @property
    def started(self) -> str | None:
        """When it began."""
        return iso_time(self.view.times_of(self.task.id).started)

    @property
    def agent(self) -> str:
        """The name of its current attempt's agent."""
        return self.agent_of(self.row.attempt)

    def agent_of(self, attempt: int) -> str:
        """Return the name of an attempt's agent."""
        return f"{self.native}{_AGENT_MARK}{attempt}"

    @property
    def title(self) -> str:
        """Its title, or its name."""
        return self.task.title or self.native


def exported_sprints(view: ExportedRun, epic: str, names: Mapping[str, str]) -> list[ExportedSprint]:
    """Return the sprints of a run, in the order of the plan. `names` maps adopted tasks to native names."""
    return [
        ExportedSprint(view, epic, names.get(task.id, task.id), task, view.row_of(task.id))
        for _, task in view.plan.tasks()
    ]


def records_of(view: ExportedRun, epic: str, sprints: list[ExportedSprint]) -> dict[str, Node]:
    """Return every record of a run by its key: the epic's first, then each sprint's with its files and agents."""
    found = {RecordKind.EPIC.key(epic): _epic(view, epic, sprints)}
    for sprint in sprints:
        found[RecordKind.SPRINT.key(sprint.native)] = _sprint(sprint)
        found[RecordKind.FILES.key(sprint.native)] = _files(sprint)
        if sprint.row.interfaces:
            found[RecordKind.INTERFACE.key(sprint.native)] = _interface(sprint)
        if sprint.row.status in _AGENT_AT_WORK:
            found[RecordKind.AGENT.key(sprint.agent)] = _agent(sprint)
            found[RecordKind.CHECKPOINT.key(sprint.agent)] = _checkpoint(sprint)
    return found


def is_agent_of_ours(key: str) -> bool:
    """Tell whether a record belongs to an agent that we named; only those may be dropped."""
    kind, owner = parse_key(key) or (None, "")
    return kind in (RecordKind.AGENT, RecordKind.CHECKPOINT) and _AGENT_MARK in owner


def _epic(view: ExportedRun, epic: str, sprints: list[ExportedSprint]) -> Node:
    natives = {each.task.id: each.native for each in sprints}
    statuses = [sprint.row.status for sprint in sprints]
    rows = [{"id": each.native, "status": each.word, "progress": each.progress} for each in sprints]
    needs = {each.native: (*each.task.needs, *each.task.needs_interface) for each in sprints}
    return {
        "epicId": epic,
        "name": view.plan.goal,
        "status": EPIC_WORDS[view.row.status],
        "startTime": iso_time(view.started),
        "lastCheckpoint": iso_time(view.updated),
        "totalSprints": len(sprints),
        "completedSprints": statuses.count(_S.COMPLETED),
        "inProgressSprints": sum(status in _IN_PROGRESS for status in statuses),
        "waitingSprints": sum(row["status"] in ("waiting", "pending") for row in rows),
        "sprints": rows,
        "dependencies": {who: [natives[need] for need in wanted] for who, wanted in needs.items() if wanted},
    }


def _sprint(sprint: ExportedSprint) -> Node:
    row, view = sprint.row, sprint.view
    scores = [score.score for score in row.latest.scores.values()]
    landed = view.claim_of(row.id).commits
    has_wip = row.latest.snapshot and row.status is not _S.COMPLETED
    record: Node = {
        "sprintId": sprint.native,
        "epicId": sprint.epic,
        "name": sprint.title,
        "status": sprint.word,
        "phase": "Loop 2 - Validation" if sprint.is_validating else _LOOPS.get(row.status, "Waiting"),
        "progress": sprint.progress,
        "startTime": sprint.started,
        "lastCheckpoint": iso_time(view.updated),
        "agents": list(_agents(sprint)),
        **_files(sprint),
        "confidence": {
            "loop3": sprint.report.confidence,
            "loop2": round(sum(scores) / len(scores), 4) if scores else None,
        },
        "validators": [{"id": name, "score": score.score} for name, score in row.latest.scores.items()],
        "attempts": row.attempt,
        "errors": [
            {"attempt": failure.attempt, "message": failure.error, "feedback": failure.detail}
            for failure in row.failures
        ],
        "commits": list(dict.fromkeys([*(commit.commit for commit in row.commits), *landed])),
        "wipBranch": snapshot_ref(view.row.run, row.id) if has_wip else None,
    }
    return record | _extra_fields(sprint, record)


def _extra_fields(sprint: ExportedSprint, record: Node) -> Node:
    """Return what a reader would otherwise get wrong: which attempts count, and what was done."""
    read, ours = sprint_claim(record), sprint.view.claim_of(sprint.task.id)
    # The commits stay as they are in the record itself.
    return extra_fields.carried(extra_fields.claim_difference(read, replace(ours, commits=read.commits)))


def _agents(sprint: ExportedSprint) -> Iterator[Node]:
    """Yield the agent at work, and the validators."""
    if sprint.row.status in _AGENT_AT_WORK:
        yield {"id": sprint.agent, "status": "active", "task": sprint.title}
        for validator in sprint.task.validators:
            status = "completed" if validator.id in sprint.row.latest.scores else "idle"
            yield {"id": validator.id, "status": status, "task": None}


def _files(sprint: ExportedSprint) -> Node:
    """Return the files that a sprint landed, and the one that its agent last reported."""
    report = sprint.report
    in_progress = report.file and sprint.row.status is not _S.COMPLETED
    current = {"path": report.file, "completed": False, **_position(report)}
    return {
        "filesWritten": [
            {"path": path, "completed": True, "confidence": report.confidence} for path in sprint.landed_files
        ],
        "filesInProgress": [current] if in_progress else [],
    }


def _position(report: Report) -> Node:
    return {
        "lastCompletedSection": report.section_done or None,
        "nextSection": report.section_next or None,
        "currentLine": report.line,
        "confidence": report.confidence,
    }


def _interface(sprint: ExportedSprint) -> Node:
    interfaces = sprint.row.interfaces.items()
    return {
        "sprintId": sprint.native,
        "epicId": sprint.epic,
        "ready": True,
        "interfaces": [{"name": name, "contract": contract} for name, contract in interfaces],
        "publishedAt": iso_time(sprint.view.published.get(sprint.task.id)),
    }


def _agent(sprint: ExportedSprint) -> Node:
    report = sprint.report
    return {
        "agentId": sprint.agent,
        "sprintId": sprint.native,
        "epicId": sprint.epic,
        "currentTask": sprint.title,
        "fileBeingEdited": report.file or None,
        "lineNumber": report.line,
        "taskProgress": {
            "started": sprint.started,
            "estimatedCompletion": None,
            "subtasksCompleted": [report.section_done] if report.section_done else [],
            "subtasksRemaining": [report.section_next] if report.section_next else [],
        },
        "context": {"dependencies": [], "relatedFiles": list(sprint.task.files), "testFile": None},
        "confidenceScore": report.confidence,
        "lastHeartbeat": iso_time(sprint.view.updated) if sprint.view.live else None,
    }


def _checkpoint(sprint: ExportedSprint) -> Node:
    return {
        "agentId": sprint.agent,
        "sprintId": sprint.native,
        "epicId": sprint.epic,
        "file": sprint.report.file or None,
        **_position(sprint.report),
        "progress": sprint.report.progress,
        "timestamp": iso_time(sprint.view.updated),
    }
