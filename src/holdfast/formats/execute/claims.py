"""What an Execute state claims about one task: its status, attempts, failures, commits, and its worktree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from holdfast.formats import extra_fields
from holdfast.formats.execute.documents import TASK_REFERENCE
from holdfast.formats.lenient_json import Key, Node, commits, count, items, node, nodes, text
from holdfast.formats.model import Claim, ClaimedStatus, PastFailure
from holdfast.formats.status_words import claim_from, claimed_status

GIVES_UP_AFTER = 5
"""Execute's own rule: the fifth failure abandons a task."""
_NO_ATTEMPT = "limit"
LISTS = {
    "completed": ClaimedStatus.DONE,
    "failed": ClaimedStatus.FAILED,
    "abandoned": ClaimedStatus.ABANDONED,
}
"""The lists of tasks at the root of a state, and the status that each implies."""

_STATUS = Key("status", "state")
_ATTEMPTS = Key("attempts", "attempt", "attempt_count")
_FILES = Key("files", "files_created", "files_changed")
_BRANCH = Key("branch", "worktree_branch")
_WORKTREE = Key("worktree_path", "worktree")
_SUMMARY = Key("summary", "result")
_ERRORS = Key("errors", "error", "last_error")
_ERROR_CLASS = Key("type", "class", "failure_class")
_MESSAGE = Key("message", "error", "summary", "type")
_DETAILS = Key("details", "detail")
_LEDGER_COMMIT = Key("commit", "hash")
_SINGLE_COMMITS = ("commit", "commit_hash", "merge_commit")
FEEDBACK = Key("feedback", "message")


def claim_of(entry: Node, worktree: Node | None = None) -> Claim:
    """Return what a task's entry and its worktree entry claim."""
    said, counted = _STATUS.text(entry), _ATTEMPTS.count(entry)
    failures = tuple(_failures(entry))
    made_in = [count(node(commit).get("attempt")) for commit in items(entry.get("commits"))]
    attempts = max([counted, *(failure.attempt for failure in failures), *made_in])
    has_failed = claimed_status(said) is ClaimedStatus.FAILED
    status = ClaimedStatus.ABANDONED if has_failed and counted >= GIVES_UP_AFTER else None
    claim = claim_from(said, attempts, status)
    # Waiting for a usage limit is not an attempt.
    waits = sum(_ERROR_CLASS.text(error) == _NO_ATTEMPT for error in nodes(entry.get("errors")))
    live = worktree if worktree and text(worktree.get("status")) != "cleaned" else {}
    claim = replace(
        claim,
        spent=max(claim.spent - waits, 0),
        failures=failures,
        # The merge, if it is recorded, comes last.
        commits=commits([*items(entry.get("commits")), *map(entry.get, _SINGLE_COMMITS)]),
        files=_FILES.texts(entry),
        branch=_BRANCH.text(entry) or text(live.get("branch")),
        worktree=_WORKTREE.text(entry) or text(live.get("path")),
        summary=_SUMMARY.text(entry),
    )
    return extra_fields.claim(claim, extra_fields.of(entry))


def _failures(entry: Node) -> Iterator[PastFailure]:
    """Pair each error with the feedback that the next attempt got."""
    listed = items(entry.get("retry_feedback"))
    numbered = nodes(entry.get("retry_feedback"))
    feedback = {count(each.get("attempt")): FEEDBACK.text(each) for each in numbered}
    unnumbered = [text(each) for each in listed if not isinstance(each, dict)]
    for place, error in enumerate(items(_ERRORS.raw(entry)), 1):
        attempt = count(node(error).get("attempt")) or place
        advice = feedback.pop(attempt + 1, "") or (unnumbered.pop(0) if unnumbered else "")
        message = _message(error, advice)
        if message or advice:
            yield PastFailure(attempt=attempt, error=message or advice, feedback=advice)
    rest = [(max(attempt - 1, 1), advice) for attempt, advice in feedback.items()]
    for attempt, advice in (*rest, *((1, advice) for advice in unnumbered)):
        if advice:
            yield PastFailure(attempt=attempt, error=advice, feedback=advice)


def _message(error: object, advice: str) -> str:
    """Return an error as one text, without what the feedback repeats."""
    if not isinstance(error, dict):
        return text(error)
    message, details = _MESSAGE.text(error), _DETAILS.text(error)
    return f"{message}: {details}" if message and details not in ("", advice) else message or details


def with_ledger(claim: Claim, entry: Node) -> Claim:
    """Return the claim corrected by the ledger.

    Its lines are written after the merge, so they outrank the state.
    """
    merged = commits(_LEDGER_COMMIT.raw(entry))
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


def listed_statuses(state: Node) -> Mapping[str, ClaimedStatus]:
    """Return the statuses from the lists at the root: some states keep no entry for a finished task."""
    return {name: status for key, status in LISTS.items() for name in listed(state.get(key))}


def listed(value: object) -> tuple[str, ...]:
    """Return the tasks of a list of names, or of objects with names."""
    return tuple(name for each in items(value) if (name := TASK_REFERENCE.text_or_self(each)))
