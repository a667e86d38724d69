"""A run of ours as the records that CFN Loop keeps, under its own keys: one place for files, Redis and exports alike.

Records of a run have no time to live: what is unfinished must be there whenever somebody comes back to it.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from holdfast.core.claims import Report
from holdfast.core.ids import snapshot_ref
from holdfast.core.plan import Task
from holdfast.core.projection import TaskRow
from holdfast.core.status import TASK_IS_SETTLED, RunStatus, TaskStatus
from holdfast.formats import extra_fields, run_to_claims
from holdfast.formats.cfn.layout import (
    agent_key,
    checkpoint_key,
    epic_key,
    files_key,
    interface_key,
    sprint_key,
)
from holdfast.formats.cfn.sprint import sprint_claim
from holdfast.formats.lenient_json import Node, iso_time
from holdfast.formats.model import ExportedRun, Times
from holdfast.formats.run_to_claims import row_of
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
_AT_WORK = (_S.RUNNING, _S.WAITING_LIMIT, _S.VERIFYING)

NativeNames = Mapping[str, str]
"""The sprints' native names, by our ids."""


def records(view: ExportedRun, epic: str, names: NativeNames) -> dict[str, Node]:
    """Return every record of a run by its key: the epic's first, then each sprint's with its files and agents."""
    found = {epic_key(epic): _epic(view, epic, names)}
    for _, task in view.plan.tasks():
        row, native = row_of(view, task.id), names[task.id]
        found[sprint_key(native)] = _sprint(view, epic, native, task, row)
        found[files_key(native)] = _files(view, row)
        if row.interfaces:
            found[interface_key(native)] = _interface(view, epic, native, row)
        if row.status in _AT_WORK:
            agent = agent_name(native, row)
            found[agent_key(agent)] = _agent(view, epic, native, task, row)
            found[checkpoint_key(agent)] = _checkpoint(view, native, row)
    return found


def agent_name(native: str, row: TaskRow) -> str:
    """Return what the agent of a sprint's present attempt is called."""
    return f"{native}-coder-{row.attempt}"


def word_of(view: ExportedRun, task: Task) -> str:
    """Return the word for where a sprint stands: also that it waits for another, or was cut short and has work left."""
    row = row_of(view, task.id)
    if row.status is _S.PENDING and row.attempt and (row.carry or row.last_report):
        return "interrupted"
    needs = (*task.needs, *task.needs_interface)
    waits = any(row_of(view, need).status not in TASK_IS_SETTLED for need in needs)
    if row.status is _S.PENDING and waits:
        return "waiting"
    return "validating" if row.status is _S.VERIFYING and row.tested else SPRINT_WORDS[row.status]


def progress(row: TaskRow) -> int:
    """Return how far a sprint is, in percent; of one that was cut short, how far it had got."""
    left = row.last_report.progress if row.last_report and row.status is _S.PENDING else None
    return progress_of(row) if left is None else round(left)


def _epic(view: ExportedRun, epic: str, names: NativeNames) -> Node:
    tasks = [task for _, task in view.plan.tasks()]
    words = [word_of(view, task) for task in tasks]
    statuses = [row_of(view, task.id).status for task in tasks]
    waiting = [word for word in words if word in ("waiting", "pending")]
    return {
        "epicId": epic,
        "name": view.plan.goal,
        "status": EPIC_WORDS[view.row.status],
        "startTime": iso_time(view.started),
        "lastCheckpoint": iso_time(view.updated),
        "totalSprints": len(tasks),
        "completedSprints": statuses.count(_S.COMPLETED),
        "inProgressSprints": sum(status in (*_AT_WORK, _S.VERIFIED, _S.MERGING) for status in statuses),
        "waitingSprints": len(waiting),
        "sprints": [
            {"id": names[task.id], "status": word, "progress": progress(row_of(view, task.id))}
            for task, word in zip(tasks, words, strict=True)
        ],
        "dependencies": {
            names[task.id]: [names[need] for need in (*task.needs, *task.needs_interface)]
            for task in tasks
            if task.needs or task.needs_interface
        },
    }


def _sprint(view: ExportedRun, epic: str, native: str, task: Task, row: TaskRow) -> Node:
    times = view.task_times.get(task.id, Times())
    validating = row.status is _S.VERIFYING and row.tested
    record: Node = {
        "sprintId": native,
        "epicId": epic,
        "name": task.title or native,
        "status": word_of(view, task),
        "phase": "Loop 2 - Validation" if validating else _LOOPS.get(row.status, "Waiting"),
        "progress": progress(row),
        "startTime": iso_time(times.started),
        "lastCheckpoint": iso_time(view.updated),
        "agents": _crew(native, task, row),
        **_files(view, row),
        "confidence": {"loop3": _said(row).confidence, "loop2": _consensus(row)},
        "validators": [{"id": name, "score": score.score} for name, score in row.scores.items()],
        "attempts": row.attempt,
        "errors": [
            {"attempt": failure.attempt, "message": failure.error, "feedback": failure.detail}
            for failure in row.failures
        ],
        "commits": _commits(row),
        "wipBranch": snapshot_ref(view.row.run, task.id)
        if row.wip and row.status is not _S.COMPLETED
        else None,
    }
    return record | _noted(view, task.id, record)


def _noted(view: ExportedRun, task: str, record: Node) -> Node:
    """Return a note on what a reader would conclude otherwise: which attempts count, and what was done."""
    read, ours = sprint_claim(task, record), run_to_claims.claim_of(view, task)
    wanted = replace(
        read,
        standing=ours.standing,
        attempts=ours.attempts,
        spent=ours.spent,
        failures=ours.failures,
        summary=ours.summary,
    )
    return extra_fields.carried(extra_fields.claim_difference(read, wanted))


def _commits(row: TaskRow) -> list[str]:
    landed = [row.merge_commit] if row.merge_commit and row.status is _S.COMPLETED else []
    return list(dict.fromkeys([*(commit.commit for commit in row.commits), *landed]))


def _said(row: TaskRow) -> Report:
    return row.report or row.last_report or Report()


def _consensus(row: TaskRow) -> float | None:
    scores = [score.score for score in row.scores.values()]
    return round(sum(scores) / len(scores), 4) if scores else None


def _crew(native: str, task: Task, row: TaskRow) -> list[Node]:
    if row.status not in _AT_WORK:
        return []
    at_work = {"id": agent_name(native, row), "status": "active", "task": task.title or native}
    judges = [
        {"id": judge.id, "status": "completed" if judge.id in row.scores else "idle", "task": None}
        for judge in task.validators
    ]
    return [at_work, *judges]


def _files(view: ExportedRun, row: TaskRow) -> Node:
    """Return the files that a sprint landed, and the one that its agent was in when it last reported."""
    report = _said(row)
    landed = view.files.get(row.id, ()) if row.status is _S.COMPLETED else ()
    in_progress = bool(report.file) and row.status is not _S.COMPLETED
    return {
        "filesWritten": [
            {"path": path, "completed": True, "confidence": report.confidence} for path in landed
        ],
        "filesInProgress": [{"path": report.file, "completed": False, **_position(report)}]
        if in_progress
        else [],
    }


def _position(report: Report) -> Node:
    return {
        "lastCompletedSection": report.section_done or None,
        "nextSection": report.section_next or None,
        "currentLine": report.line,
        "confidence": report.confidence,
    }


def _interface(view: ExportedRun, epic: str, native: str, row: TaskRow) -> Node:
    return {
        "sprintId": native,
        "epicId": epic,
        "ready": True,
        "interfaces": [{"name": name, "contract": contract} for name, contract in row.interfaces.items()],
        "publishedAt": iso_time(view.updated),
    }


def _agent(view: ExportedRun, epic: str, native: str, task: Task, row: TaskRow) -> Node:
    report = _said(row)
    return {
        "agentId": agent_name(native, row),
        "sprintId": native,
        "epicId": epic,
        "currentTask": task.title or native,
        "fileBeingEdited": report.file or None,
        "lineNumber": report.line,
        "taskProgress": {
            "started": iso_time(view.task_times.get(task.id, Times()).started),
            "estimatedCompletion": None,
            "subtasksCompleted": [report.section_done] if report.section_done else [],
            "subtasksRemaining": [report.section_next] if report.section_next else [],
        },
        "context": {"dependencies": [], "relatedFiles": list(task.files), "testFile": None},
        "confidenceScore": report.confidence,
        "lastHeartbeat": iso_time(view.updated) if view.live else None,
    }


def _checkpoint(view: ExportedRun, native: str, row: TaskRow) -> Node:
    report = _said(row)
    return {
        "agentId": agent_name(native, row),
        "sprintId": native,
        "file": report.file or None,
        **_position(report),
        "progress": report.progress,
        "timestamp": iso_time(view.updated),
    }
