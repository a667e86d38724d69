"""One task of ours as an entry of an Execute state. What an entry held before and we do not know stays in it."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from holdfast.core.events import AttemptKind, FailureKind
from holdfast.core.ids import wip_ref
from holdfast.core.projection import AttemptCommit, Failure, TaskRow
from holdfast.core.status import TaskStatus
from holdfast.formats import notes, rows
from holdfast.formats.execute.claims import claim_of
from holdfast.formats.loose import Node, count, first, items, node, nodes, text
from holdfast.formats.model import RunView, Standing, Times
from holdfast.formats.stamps import stamp
from holdfast.formats.words import standing_of
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


def entry_of(view: RunView, task: str, before: Node, *, derived: bool) -> Node:
    """Return the entry of a task, made from what it was before."""
    row = rows.row_of(view, task)
    if before and _is_untouched(row, before):
        said = claim_of(task, before, {}).standing
        # A task that git did not prove is to be done, whatever the file said.
        return {**before, "status": "pending"} if said is Standing.DONE else before
    times = view.task_times.get(task, Times())
    entry = {**before, "status": word_for(row.status, derived=derived)}
    entry["attempts"] = max(row.attempt, count(before.get("attempts")))
    entry |= _place(view, row, before) | _times(row, times, before) | _history(row, before, derived=derived)
    return _noted(view, task, entry)


def _noted(view: RunView, task: str, entry: Node) -> Node:
    """Add what Execute would conclude otherwise: which attempts count, and a standing it has no word for."""
    plain = notes.without(entry)
    read, ours = claim_of(task, plain, {}), rows.claim_of(view, task)
    wanted = replace(read, attempts=ours.attempts, spent=ours.spent, standing=ours.standing)
    return plain | notes.carried(notes.about_claim(read, wanted))


def _is_untouched(row: TaskRow, before: Node) -> bool:
    """Tell whether nothing has happened to a task since it was adopted."""
    return row.status is TaskStatus.PENDING and row.attempt <= claim_of("", before, {}).attempts


def _place(view: RunView, row: TaskRow, before: Node) -> Node:
    """Say where the work lies: a workspace while an agent is in it, a ref while it is unfinished."""
    workspace = StateDir.of_checkout(Path(view.project)).run(view.row.run).workspace(str(row.slot))
    landed = row.status is TaskStatus.COMPLETED
    branch = wip_ref(view.row.run, row.id) if row.wip else first(before, "branch")
    return {
        "worktree_path": str(workspace) if row.slot >= 0 and not landed else None,
        "branch": None if landed else branch,
    }


def _times(row: TaskRow, times: Times, before: Node) -> Node:
    ended = times.ended if row.status is TaskStatus.COMPLETED else None
    return {
        "started_at": stamp(times.started) or before.get("started_at"),
        "completed_at": stamp(ended) or before.get("completed_at"),
        "merged_at": stamp(ended) or before.get("merged_at"),
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


def restated(said: str, standing: Standing, word: str) -> str:
    """Return the word for a standing: the one that was there if it says this already, or if nothing has begun since."""
    was = standing_of(said)[0]
    stays = was is standing or (standing is Standing.PENDING and was is Standing.RUNNING)
    return said if said and stays else word
