"""What an Execute state says of one task, as a claim: standing, attempts, failures, commits, where its work lies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from holdfast.formats import extra_fields
from holdfast.formats.lenient_json import Node, commits, count, first, items, node, nodes, text, texts
from holdfast.formats.model import UNBEGUN, Claim, ClaimedStatus, PastFailure, spent_of
from holdfast.formats.status_words import claimed_status

GIVES_UP_AFTER = 5
"""Execute's own rule: the fifth failure abandons a task."""
_NO_ATTEMPT = "limit"


def claim_of(native: str, entry: Node, worktree: Node) -> Claim:
    """Return what a task's entry, and its entry among the worktrees, claim."""
    said = text(first(entry, "status", "state"))
    failures = tuple(_failures(entry))
    seen = max(
        [count(f.attempt) for f in failures]
        + [count(node(c).get("attempt")) for c in items(entry.get("commits"))]
        + [0]
    )
    standing = _standing(said, entry)
    attempts = max(
        count(first(entry, "attempts", "attempt", "attempt_count")), seen, int(standing not in UNBEGUN)
    )
    claim = Claim(
        task="",
        native=native,
        standing=standing,
        said=said,
        attempts=attempts,
        spent=_spent(standing, attempts, entry),
        failures=failures,
        commits=_commits(entry),
        files=texts(first(entry, "files", "files_created", "files_changed")),
        branch=text(first(entry, "branch", "worktree_branch")) or _live(worktree, "branch"),
        worktree=text(first(entry, "worktree_path", "worktree")) or _live(worktree, "path"),
        summary=text(first(entry, "summary", "result")),
    )
    return extra_fields.claim(claim, extra_fields.of(entry))


def _standing(said: str, entry: Node) -> ClaimedStatus:
    standing = claimed_status(said)
    spent = count(first(entry, "attempts", "attempt", "attempt_count"))
    return (
        ClaimedStatus.ABANDONED if standing is ClaimedStatus.FAILED and spent >= GIVES_UP_AFTER else standing
    )


def _spent(standing: ClaimedStatus, attempts: int, entry: Node) -> int:
    """Return the attempts that count: not the one that succeeded or was cut short, and no wait for a usage limit."""
    waits = sum(
        text(first(error, "type", "class", "failure_class")) == _NO_ATTEMPT
        for error in nodes(entry.get("errors"))
    )
    return max(spent_of(standing, attempts) - waits, 0)


def _failures(entry: Node) -> Iterator[PastFailure]:
    """Pair each error with the feedback that the attempt after it was given."""
    feedback = {
        count(each.get("attempt")): text(first(each, "feedback", "message"))
        for each in nodes(entry.get("retry_feedback"))
    }
    loose = [text(each) for each in items(entry.get("retry_feedback")) if not isinstance(each, dict)]
    errors = items(first(entry, "errors", "error", "last_error"))
    for place, error in enumerate(errors, 1):
        attempt = count(node(error).get("attempt")) or place
        told = feedback.pop(attempt + 1, "") or (loose.pop(0) if loose else "")
        message = _message(error, told)
        if message or told:
            yield PastFailure(attempt=attempt, error=message or told, feedback=told)
    for attempt, told in feedback.items():
        if told:
            yield PastFailure(attempt=max(attempt - 1, 1), error=told, feedback=told)
    for told in filter(None, loose):
        yield PastFailure(attempt=1, error=told, feedback=told)


def _message(error: object, told: str) -> str:
    """Return an error as one text; what the feedback repeats is not said twice."""
    if not isinstance(error, dict):
        return text(error)
    message = text(first(error, "message", "error", "summary", "type"))
    details = text(first(error, "details", "detail"))
    return f"{message}: {details}" if message and details not in ("", told) else message or details


def _commits(entry: Node) -> tuple[str, ...]:
    """Return the hashes, oldest first; the merge, if it is recorded, comes last."""
    single = [entry.get(key) for key in ("commit", "commit_hash", "merge_commit")]
    return commits([*items(entry.get("commits")), *single])


def _live(worktree: Node, key: str) -> str:
    """Return a fact of a worktree that still stands."""
    return "" if text(worktree.get("status")) == "cleaned" else text(worktree.get(key))


def with_ledger(claim: Claim, entry: Node) -> Claim:
    """Return the claim as the ledger has it: a line there was written after the merge, so it outranks the state."""
    merged = commits(first(entry, "commit", "hash"))
    if not merged:
        return claim
    attempts = max(count(entry.get("attempts")), claim.attempts, 1)
    return replace(
        claim,
        standing=ClaimedStatus.DONE,
        attempts=attempts,
        spent=min(claim.spent, attempts - 1),
        commits=tuple(dict.fromkeys((*claim.commits, *merged))),
    )


def listed_standings(state: Node) -> Mapping[str, ClaimedStatus]:
    """Return what the lists at the root say: some states keep no entry for a task that was done."""
    lists = {
        "completed": ClaimedStatus.DONE,
        "failed": ClaimedStatus.FAILED,
        "abandoned": ClaimedStatus.ABANDONED,
    }
    return {name: standing for key, standing in lists.items() for name in listed(state.get(key))}


def listed(value: object) -> tuple[str, ...]:
    """Return the tasks of a list, which names them or holds objects that do."""
    return tuple(
        name
        for each in items(value)
        if (name := text(first(each, "task_id", "id", "task")) if isinstance(each, dict) else text(each))
    )
