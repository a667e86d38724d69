"""One task of ours as an entry of an Execute state. What an entry held before and we do not know stays in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec.structs import replace

from holdfast.core.ids import snapshot_ref
from holdfast.core.plan import Stage, stage_waves
from holdfast.core.projection import AttemptCommit, Failure, StageRow, TaskRow
from holdfast.core.status import TASK_IS_SETTLED, AttemptKind, FailureKind, StageStatus, TaskStatus
from holdfast.formats import extra_fields, run_to_claims
from holdfast.formats.execute.claims import claim_of
from holdfast.formats.execute.tasks import layer_name
from holdfast.formats.lenient_json import Node, count, first, iso_time, items, node, nodes, text
from holdfast.formats.model import ClaimedStatus, ExportedRun, Times
from holdfast.formats.run_to_claims import row_of
from holdfast.formats.status_words import claimed_status
from holdfast.paths import StateDir

_S = TaskStatus
_WORDS = {
    _S.PENDING: "pending",
    _S.RUNNING: "in_progress",
    _S.WAITING_LIMIT: "in_progress",
    _S.VERIFYING: "verifying",
    _S.VERIFIED: "verified",
    _S.MERGING: "merging",
    _S.COMPLETED: "completed",
    _S.FAILED: "failed",
    _S.BLOCKED: "pending",
    _S.ABANDONED: "abandoned",
    _S.SKIPPED: "skipped",
}
_MERGED = "merged"
"""Version 3 knows only what the ledger shows: merged, failed, abandoned, or still to be done."""
_DERIVED_WORDS = {
    **dict.fromkeys(_WORDS, "pending"),
    _S.COMPLETED: _MERGED,
    _S.FAILED: "failed",
    _S.ABANDONED: "abandoned",
    _S.SKIPPED: "skipped",
}
_SHORT_HASH = 7
_CHECKED = (FailureKind.CHECK, FailureKind.MERGED_CHECK, FailureKind.VALIDATION, FailureKind.SYNTAX)
_MERGING = (FailureKind.CONFLICT, FailureKind.SIDE_LOST)


def word_for(status: TaskStatus, *, derived: bool) -> str:
    """Return Execute's word for where a task stands; `derived` is version 3."""
    return (_DERIVED_WORDS if derived else _WORDS)[status]


def entry_of(view: ExportedRun, task: str, before: Node, *, derived: bool) -> Node:
    """Return the entry of a task, made from what it was before."""
    row = run_to_claims.row_of(view, task)
    if before and _is_untouched(row, before):
        said = claim_of(task, before, {}).standing
        # A task that git did not prove is to be done, whatever the file said.
        return {**before, "status": "pending"} if said is ClaimedStatus.DONE else before
    times = view.task_times.get(task, Times())
    entry = {**before, "status": word_for(row.status, derived=derived)}
    entry["attempts"] = max(row.attempt, count(before.get("attempts")))
    entry |= _place(view, row, before) | _times(row, times, before) | _history(row, before, derived=derived)
    return _noted(view, task, entry)


def _noted(view: ExportedRun, task: str, entry: Node) -> Node:
    """Add what Execute would conclude otherwise: which attempts count, and a standing it has no word for."""
    plain = extra_fields.without(entry)
    read, ours = claim_of(task, plain, {}), run_to_claims.claim_of(view, task)
    wanted = replace(read, attempts=ours.attempts, spent=ours.spent, standing=ours.standing)
    return plain | extra_fields.carried(extra_fields.claim_difference(read, wanted))


def _is_untouched(row: TaskRow, before: Node) -> bool:
    """Tell whether nothing has happened to a task since it was adopted."""
    return row.status is TaskStatus.PENDING and row.attempt <= claim_of("", before, {}).attempts


def _place(view: ExportedRun, row: TaskRow, before: Node) -> Node:
    """Say where the work lies: a workspace while an agent is in it, a ref while it is unfinished."""
    workspace = (
        StateDir.of_checkout(Path(view.project)).run(view.row.run).workspace(str(row.latest.workspace_number))
    )
    landed = row.status is TaskStatus.COMPLETED
    branch = snapshot_ref(view.row.run, row.id) if row.latest.snapshot else first(before, "branch")
    return {
        "worktree_path": str(workspace) if row.latest.workspace_number >= 0 and not landed else None,
        "branch": None if landed else branch,
    }


def _times(row: TaskRow, times: Times, before: Node) -> Node:
    ended = times.ended if row.status is TaskStatus.COMPLETED else None
    return {
        "started_at": iso_time(times.started) or before.get("started_at"),
        "completed_at": iso_time(ended) or before.get("completed_at"),
        "merged_at": iso_time(ended) or before.get("merged_at"),
    }


def _history(row: TaskRow, before: Node, *, derived: bool) -> Node:
    """Return commits, errors and feedback: those that were there, and ours that were not."""
    kept = [name for each in items(before.get("commits")) if (name := _hash(each))]
    commits = items(before.get("commits")) + [
        _commit(each) for each in row.commits if not _is_kept(each.commit, kept)
    ]
    told = {count(error.get("attempt")) for error in nodes(before.get("errors"))}
    ours = [failure for failure in row.failures if failure.attempt not in told]
    history: Node = {
        "commits": commits,
        "errors": items(before.get("errors")) + [_error(failure) for failure in ours],
        "retry_feedback": items(before.get("retry_feedback")) + [_feedback(failure) for failure in ours],
    }
    if row.merge_commit and row.status is TaskStatus.COMPLETED:
        history["commit" if derived else "merge_commit"] = row.merge_commit
    return history


def _is_kept(commit: str, kept: list[str]) -> bool:
    """Tell whether a commit is on record already, perhaps by the beginning of its hash."""
    return any(commit.startswith(each) if len(each) >= _SHORT_HASH else commit == each for each in kept)


def _hash(commit: object) -> str:
    return text(first(node(commit), "hash", "sha", "commit")) or text(commit)


def _commit(commit: AttemptCommit) -> Node:
    kind = "implementation" if commit.kind is AttemptKind.IMPLEMENTATION else "fix"
    return {"hash": commit.commit, "type": kind, "attempt": commit.attempt}


def _error(failure: Failure) -> Node:
    kind = "implementation_error"
    if failure.kind in _CHECKED:
        kind = "verification_failed"
    elif failure.kind in _MERGING:
        kind = "merge_conflict"
    step = {"step": failure.check} if failure.check else {}
    details = {"details": failure.detail} if failure.detail else {}
    return {"attempt": failure.attempt, "type": kind, **step, "message": failure.error, **details}


def _feedback(failure: Failure) -> Node:
    """Return what the next attempt was told: the evidence, or at least the error."""
    return {"attempt": failure.attempt + 1, "feedback": failure.detail or failure.error}


def restated(said: str, standing: ClaimedStatus, word: str) -> str:
    """Return the word for a standing: the one that was there if it says this already, or if nothing has begun since."""
    was = claimed_status(said)
    stays = was is standing or (standing is ClaimedStatus.PENDING and was is ClaimedStatus.RUNNING)
    return said if said and stays else word


_LAYER_WORDS = {
    StageStatus.PENDING: ("pending", ClaimedStatus.PENDING),
    StageStatus.OPENING: ("in_progress", ClaimedStatus.RUNNING),
    StageStatus.RUNNING: ("in_progress", ClaimedStatus.RUNNING),
    StageStatus.CLOSING: ("in_progress", ClaimedStatus.RUNNING),
    StageStatus.COMPLETED: ("completed", ClaimedStatus.DONE),
    StageStatus.BLOCKED: ("blocked", ClaimedStatus.BLOCKED),
}
_QUEUE_WORDS = {
    TaskStatus.RUNNING: "pending",
    TaskStatus.VERIFYING: "pending",
    TaskStatus.VERIFIED: "ready",
    TaskStatus.MERGING: "merging",
    TaskStatus.COMPLETED: "merged",
}
_GIVEN_UP = (TaskStatus.FAILED, TaskStatus.ABANDONED)

Names = Mapping[str, str]
"""Native names by our ids."""


def _statuses(view: ExportedRun, stage: Stage | None = None) -> list[TaskStatus]:
    tasks = stage.tasks if stage else [task for _, task in view.plan.tasks()]
    return [row_of(view, task.id).status for task in tasks]


def layers(view: ExportedRun, names: Names, before: object) -> object:
    """Return the layers with their counters, as an object or as a list, as they were before."""
    if isinstance(before, list):
        known = {layer_name(layer): layer for layer in nodes(before)}
        ours = {
            names[stage.id]: _layer(view, stage, known.get(names[stage.id], {})) for stage in view.plan.stages
        }
        kept = [ours.pop(layer_name(node(layer)), layer) for layer in before]
        return kept + [{"id": name, **layer} for name, layer in ours.items()]
    old = node(before)
    return {
        **old,
        **{
            names[stage.id]: _layer(view, stage, node(old.get(names[stage.id]))) for stage in view.plan.stages
        },
    }


def _layer(view: ExportedRun, stage: Stage, before: Node) -> Node:
    statuses = _statuses(view, stage)
    times = view.stage_times.get(stage.id, Times())
    word, standing = _LAYER_WORDS[_stage_status(view, stage)]
    done = statuses.count(TaskStatus.COMPLETED)
    counters = {"total": len(statuses), "merged": done}
    if not counters.keys() & before.keys():
        failed = sum(status in _GIVEN_UP for status in statuses)
        counters = {"tasks_total": len(statuses), "tasks_completed": done, "tasks_failed": failed}
    return {
        **before,
        "status": restated(text(before.get("status")), standing, word),
        **counters,
        "started_at": iso_time(times.started) or before.get("started_at"),
        "completed_at": iso_time(times.ended) or before.get("completed_at"),
    }


def _stage_status(view: ExportedRun, stage: Stage) -> StageStatus:
    """Return where a stage stands; one whose tasks were all done elsewhere is, though it never opened here."""
    status = view.row.stages.get(stage.id, StageRow(id=stage.id)).status
    settled = all(status in TASK_IS_SETTLED for status in _statuses(view, stage))
    return StageStatus.COMPLETED if status is StageStatus.PENDING and settled else status


def merge_queue(view: ExportedRun, names: Names, before: object) -> list[object]:
    """Return the queue by completion order. Entries that were there keep their place, also for unknown tasks."""
    ids = {native: task for task, native in names.items()}
    kept: list[object] = [_requeued(view, ids, entry) for entry in items(before)]
    present = {text(node(entry).get("task_id")) for entry in kept}
    last = max([count(node(entry).get("priority")) for entry in kept] + [len(kept)])
    queued = [row for _, task in view.plan.tasks() if (row := row_of(view, task.id)).status in _QUEUE_WORDS]
    queued.sort(key=lambda row: row.queue_number or len(view.tasks) + view.row.queue_number + 1)
    fresh = [row for row in queued if names[row.id] not in present]
    return kept + [
        {"task_id": names[row.id], "priority": place, "status": _QUEUE_WORDS[row.status]}
        for place, row in enumerate(fresh, last + 1)
    ]


def _requeued(view: ExportedRun, ids: Names, entry: object) -> object:
    task = ids.get(text(node(entry).get("task_id")), "")
    word = _QUEUE_WORDS.get(row_of(view, task).status) if task else None
    return {**node(entry), "status": word} if word else entry


def lists(view: ExportedRun, names: Names) -> Node:
    """Return the tasks that are done, failed and given up, by native name."""
    rows = [row_of(view, task.id) for _, task in view.plan.tasks()]
    return {
        key: [names[row.id] for row in rows if row.status is status]
        for key, status in (
            ("completed", TaskStatus.COMPLETED),
            ("failed", TaskStatus.FAILED),
            ("abandoned", TaskStatus.ABANDONED),
        )
    }


def metrics(view: ExportedRun, before: object) -> Node:
    """Return the metrics: under the names that were there before, under all documented ones if there were none."""
    now = {key: measure(view) for key, measure in _METRICS.items()}
    old = node(before)
    return {**old, **{key: value for key, value in now.items() if key in old or not old}}


def _attempts(view: ExportedRun) -> int:
    return sum(row.attempt for row in view.tasks.values())


def _counted(*wanted: TaskStatus) -> Callable[[ExportedRun], float]:
    return lambda view: sum(status in wanted for status in _statuses(view))


def _elapsed(view: ExportedRun) -> float:
    return round(max(view.updated - view.started, 0.0))


_METRICS: dict[str, Callable[[ExportedRun], float]] = {
    "total_tasks": lambda view: len(_statuses(view)),
    "completed_tasks": _counted(TaskStatus.COMPLETED),
    "failed_tasks": _counted(*_GIVEN_UP),
    "total_attempts": _attempts,
    "total_commits": lambda view: sum(len(row.commits) for row in view.tasks.values()),
    "elapsed_time_seconds": _elapsed,
    "tasks_total": lambda view: len(_statuses(view)),
    "tasks_completed": _counted(TaskStatus.COMPLETED),
    "tasks_failed": _counted(TaskStatus.FAILED),
    "tasks_abandoned": _counted(TaskStatus.ABANDONED),
    "tasks_remaining": lambda view: sum(status not in TASK_IS_SETTLED for status in _statuses(view)),
    "total_retries": lambda view: sum(max(row.attempt - 1, 0) for row in view.tasks.values()),
    "elapsed_seconds": _elapsed,
}


def current(view: ExportedRun, names: Names) -> Node:
    """Return the layer and the batch that are being worked on: the first that hold something unfinished."""
    for stage in stage_waves(view.plan):
        for number, batch in enumerate(stage.batches, 1):
            if any(row_of(view, task.id).status not in TASK_IS_SETTLED for task in batch):
                return {"current_layer": names[stage.stage.id], "current_batch": number}
    return {"current_layer": None, "current_batch": None}
