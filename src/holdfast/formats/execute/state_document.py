"""Writes the parts of an Execute state: entries of tasks, layers, the merge queue, lists and metrics.

Unknown fields of an entry stay in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from pathlib import Path

from msgspec.structs import replace

from holdfast.core.ids import snapshot_ref
from holdfast.core.plan import Stage
from holdfast.core.projection import Failure, StageRow, TaskRow
from holdfast.core.status import TASK_IS_SETTLED, AttemptKind, FailureKind, StageStatus, TaskStatus
from holdfast.formats import extra_fields
from holdfast.formats.execute.claims import LISTS, claim_of
from holdfast.formats.execute.tasks import layer_name
from holdfast.formats.exported_run import ExportedRun, Times
from holdfast.formats.lenient_json import Key, Node, count, iso_time, items, node, nodes, text
from holdfast.formats.model import ClaimedStatus
from holdfast.formats.status_words import kept_word
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
_LEDGER_WORDS = {
    **dict.fromkeys(_WORDS, "pending"),
    _S.COMPLETED: "merged",
    _S.FAILED: "failed",
    _S.ABANDONED: "abandoned",
    _S.SKIPPED: "skipped",
}
"""Version 3 knows only what the ledger shows: merged, failed, abandoned, or open."""
_LAYER_WORDS = {
    StageStatus.PENDING: "pending",
    StageStatus.OPENING: "in_progress",
    StageStatus.RUNNING: "in_progress",
    StageStatus.CLOSING: "in_progress",
    StageStatus.COMPLETED: "completed",
    StageStatus.BLOCKED: "blocked",
}
_QUEUE_WORDS = {
    _S.RUNNING: "pending",
    _S.VERIFYING: "pending",
    _S.VERIFIED: "ready",
    _S.MERGING: "merging",
    _S.COMPLETED: "merged",
}
_ERROR_TYPES = {
    FailureKind.CHECK: "verification_failed",
    FailureKind.MERGED_CHECK: "verification_failed",
    FailureKind.VALIDATION: "verification_failed",
    FailureKind.SYNTAX: "verification_failed",
    FailureKind.CONFLICT: "merge_conflict",
    FailureKind.SIDE_LOST: "merge_conflict",
}
_COMMIT_TYPES = {
    AttemptKind.IMPLEMENTATION: "implementation",
    AttemptKind.CONTINUATION: "implementation",
}
_SHORT_HASH = 7
_HASH = Key("hash", "sha", "commit")

Names = Mapping[str, str]
"""Native names by our ids."""


def task_entry(view: ExportedRun, task: str, before: Node, *, has_ledger: bool) -> Node:
    """Return the entry of a task, based on its old one. Version 3 has a ledger."""
    row = view.row_of(task)
    adopted = claim_of(before)
    if before and row.status is TaskStatus.PENDING and row.attempt <= adopted.attempts:
        # Nothing has happened since. A task that git did not prove is open, even if the file said otherwise.
        return {**before, "status": "pending"} if adopted.standing is ClaimedStatus.DONE else before
    entry = {
        **before,
        "status": (_LEDGER_WORDS if has_ledger else _WORDS)[row.status],
        "attempts": max(row.attempt, count(before.get("attempts"))),
        **_place(view, row, before),
        **_times(row, view.times_of(task), before),
        **_history(row, before, has_ledger=has_ledger),
    }
    return _with_extra_fields(view, task, entry)


def _with_extra_fields(view: ExportedRun, task: str, entry: Node) -> Node:
    """Add what Execute cannot express: which attempts count, and a status it has no word for."""
    plain = extra_fields.without(entry)
    read, ours = claim_of(plain), view.claim_of(task)
    wanted = replace(read, attempts=ours.attempts, spent=ours.spent, standing=ours.standing)
    return plain | extra_fields.carried(extra_fields.claim_difference(read, wanted))


def _place(view: ExportedRun, row: TaskRow, before: Node) -> Node:
    """Set where the work is: a workspace while an agent uses it, a ref while it is unfinished."""
    workspace = (
        StateDir.of_checkout(Path(view.project)).run(view.row.run).workspace(str(row.latest.workspace_number))
    )
    landed = row.status is TaskStatus.COMPLETED
    branch = snapshot_ref(view.row.run, row.id) if row.latest.snapshot else before.get("branch") or None
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


def _history(row: TaskRow, before: Node, *, has_ledger: bool) -> Node:
    """Return commits, errors and feedback: the old ones, and ours that are new."""
    commits, errors = items(before.get("commits")), items(before.get("errors"))
    known = [name for each in commits if (name := _HASH.text_or_self(each))]
    recorded = {count(error.get("attempt")) for error in nodes(before.get("errors"))}
    failures = [failure for failure in row.failures if failure.attempt not in recorded]
    history: Node = {
        "commits": commits
        + [
            {"hash": one.commit, "type": _COMMIT_TYPES.get(one.kind, "fix"), "attempt": one.attempt}
            for one in row.commits
            if not any(_is_same(one.commit, name) for name in known)
        ],
        "errors": errors + [_error(failure) for failure in failures],
        "retry_feedback": items(before.get("retry_feedback"))
        + [
            {"attempt": failure.attempt + 1, "feedback": failure.detail or failure.error}
            for failure in failures
        ],
    }
    if row.merge_commit and row.status is TaskStatus.COMPLETED:
        history["commit" if has_ledger else "merge_commit"] = row.merge_commit
    return history


def _is_same(commit: str, recorded: str) -> bool:
    """Tell whether a commit is already recorded, possibly by an abbreviated hash."""
    return commit.startswith(recorded) if len(recorded) >= _SHORT_HASH else commit == recorded


def _error(failure: Failure) -> Node:
    kind = _ERROR_TYPES.get(failure.kind, "implementation_error")
    step = {"step": failure.check} if failure.check else {}
    details = {"details": failure.detail} if failure.detail else {}
    return {"attempt": failure.attempt, "type": kind, **step, "message": failure.error, **details}


def layers(view: ExportedRun, names: Names, before: object) -> object:
    """Return the layers with their counters, as an object or a list like before."""
    is_list = isinstance(before, list)
    known = {layer_name(layer): layer for layer in nodes(before)} if is_list else node(before)
    ours = {
        names[stage.id]: _layer(view, stage, node(known.get(names[stage.id]))) for stage in view.plan.stages
    }
    if not is_list:
        return {**known, **ours}
    kept = [ours.pop(layer_name(node(layer)), layer) for layer in items(before)]
    return kept + [{"id": name, **layer} for name, layer in ours.items()]


def _layer(view: ExportedRun, stage: Stage, before: Node) -> Node:
    statuses = [view.row_of(task.id).status for task in stage.tasks]
    times = view.stage_times.get(stage.id, Times())
    status = view.row.stages.get(stage.id, StageRow(id=stage.id)).status
    if status is StageStatus.PENDING and all(status in TASK_IS_SETTLED for status in statuses):
        status = StageStatus.COMPLETED  # Its tasks were done elsewhere, so it never started here.
    done, failed = statuses.count(_S.COMPLETED), statuses.count(_S.FAILED) + statuses.count(_S.ABANDONED)
    counters = {"total": len(statuses), "merged": done}
    if not counters.keys() & before.keys():
        counters = {"tasks_total": len(statuses), "tasks_completed": done, "tasks_failed": failed}
    return {
        **before,
        "status": kept_word(text(before.get("status")), _LAYER_WORDS[status], stays_begun=True),
        **counters,
        "started_at": iso_time(times.started) or before.get("started_at"),
        "completed_at": iso_time(times.ended) or before.get("completed_at"),
    }


def merge_queue(view: ExportedRun, names: Names, before: object) -> list[object]:
    """Return the queue by completion order. Old entries keep their place, also those of unknown tasks."""
    words = {names[row.id]: _QUEUE_WORDS[row.status] for row in view.rows if row.status in _QUEUE_WORDS}
    kept: list[object] = []
    present: set[str] = set()
    for entry in items(before):
        name = text(node(entry).get("task_id"))
        kept.append({**node(entry), "status": words[name]} if name in words else entry)
        present.add(name)
    last = max([count(node(entry).get("priority")) for entry in kept] + [len(kept)])
    queued = sorted(view.rows, key=lambda row: row.queue_number or inf)
    fresh = [names[row.id] for row in queued if names[row.id] in words and names[row.id] not in present]
    return kept + [
        {"task_id": name, "priority": place, "status": words[name]}
        for place, name in enumerate(fresh, last + 1)
    ]


def lists(view: ExportedRun, names: Names) -> Node:
    """Return the tasks that are done, failed and abandoned, by native name."""
    claimed = {names[row.id]: view.claim_of(row.id).standing for row in view.rows}
    return {key: [name for name in claimed if claimed[name] is status] for key, status in LISTS.items()}


def metrics(view: ExportedRun, before: object) -> Node:
    """Return the metrics under their old names, or under all documented ones if there were none."""
    statuses = [row.status for row in view.rows]
    total, done = len(statuses), statuses.count(_S.COMPLETED)
    failed, abandoned = statuses.count(_S.FAILED), statuses.count(_S.ABANDONED)
    elapsed = round(max(view.updated - view.started, 0.0))
    attempts = [row.attempt for row in view.tasks.values()]
    now = {
        "total_tasks": total,
        "completed_tasks": done,
        "failed_tasks": failed + abandoned,
        "total_attempts": sum(attempts),
        "total_commits": sum(len(row.commits) for row in view.tasks.values()),
        "elapsed_time_seconds": elapsed,
        "tasks_total": total,
        "tasks_completed": done,
        "tasks_failed": failed,
        "tasks_abandoned": abandoned,
        "tasks_remaining": sum(status not in TASK_IS_SETTLED for status in statuses),
        "total_retries": sum(max(attempt - 1, 0) for attempt in attempts),
        "elapsed_seconds": elapsed,
    }
    old = node(before)
    return {**old, **{key: value for key, value in now.items() if key in old or not old}}


def current(view: ExportedRun, names: Names) -> Node:
    """Return the current layer and batch: the first with an unfinished task."""
    for stage in view.plan.stages:
        for number, batch in enumerate(stage.batches(), 1):
            if any(view.row_of(task.id).status not in TASK_IS_SETTLED for task in batch):
                return {"current_layer": names[stage.id], "current_batch": number}
    return {"current_layer": None, "current_batch": None}
