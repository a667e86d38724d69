"""A run of ours as `memory/attempt_history.json` and `memory/build_commits.json`: what was tried, and what landed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.formats.auto_claude.layout import ITEM_KEYS
from holdfast.formats.loose import Node, first, node, nodes, text
from holdfast.formats.model import Claim, PastFailure, RunView, Standing
from holdfast.formats.rows import error_of
from holdfast.formats.stamps import stamp
from holdfast.formats.words import standing_of

_WORDS = {Standing.DONE: "completed", Standing.FAILED: "failed", Standing.ABANDONED: "stuck"}


def write_history(view: RunView, history: Node, claims: Mapping[str, Claim]) -> Node:
    """Bring an attempt history up to date, and return it. Attempts that it has already stay as they are."""
    key = next((key for key in ITEM_KEYS if isinstance(history.get(key), dict)), ITEM_KEYS[0])
    entries = history[key] = node(history.get(key))
    for claim in claims.values():
        if claim.attempts or claim.native in entries:
            entries[claim.native] = _entry(view, node(entries.get(claim.native)), claim)
    stuck = "stuck_chunks" if "stuck_chunks" in history else "stuck_subtasks"
    history[stuck] = _stuck(view, history.get(stuck), claims)
    _date(view, history)
    return history


def _entry(view: RunView, entry: Node, claim: Claim) -> Node:
    """Return a subtask's entry with the attempts that it lacks. An attempt is written once it is over."""
    tried = entry["attempts"] if isinstance(entry.get("attempts"), list) else []
    over = claim.attempts - (claim.standing is Standing.RUNNING)
    failures = {failure.attempt: failure for failure in claim.failures}
    for number in range(len(tried) + 1, over + 1):
        is_last = number == claim.attempts
        tried.append(_attempt(view, claim, number, failures.get(number), is_last=is_last))
    said = text(entry.get("status"))
    word = _WORDS.get(claim.standing, "failed" if failures else "pending")
    same = said and standing_of(said)[0] is standing_of(word)[0] and (said == "stuck") == (word == "stuck")
    return {**entry, "attempts": tried, "status": said if same else word}


def _attempt(view: RunView, claim: Claim, number: int, failure: PastFailure | None, *, is_last: bool) -> Node:
    """Return one attempt. One that was neither good nor bad, cut off by a crash, has no `success` at all."""
    is_good = is_last and claim.standing is Standing.DONE
    return {
        "session": number,
        "timestamp": stamp(_time_of(view, claim.task)),
        "approach": failure.feedback if failure else claim.summary if is_good else "",
        "success": False if failure else True if is_good else None,
        "error": failure.error if failure else None,
    }


def _time_of(view: RunView, task: str) -> float:
    times = view.task_times.get(task)
    known = (times.ended, times.started) if times else ()
    return next((at for at in known if at is not None), view.updated)


def _stuck(view: RunView, listed: Any, claims: Mapping[str, Claim]) -> list[Any]:
    """Return what people must look at: whoever was given up, each with the entry it had."""
    had = {text(first(one, "subtask_id", "chunk_id", "id")): one for one in nodes(listed)}
    ours = {claim.native for claim in claims.values()}
    kept = [one for name, one in had.items() if name not in ours]
    given_up = [claim for claim in claims.values() if claim.standing is Standing.ABANDONED]
    return [*kept, *(had.get(claim.native) or _given_up(view, claim) for claim in given_up)]


def _given_up(view: RunView, claim: Claim) -> Node:
    return {
        "subtask_id": claim.native,
        "reason": error_of(view, claim.task) or "No attempts are left",
        "escalated_at": stamp(_time_of(view, claim.task)),
        "attempt_count": claim.attempts,
    }


def write_commits(view: RunView, build: Node, claims: Mapping[str, Claim]) -> Node:
    """Bring the list of good commits up to date, and return it: each landing once, in the order of landing."""
    commits = build["commits"] if isinstance(build.get("commits"), list) else []
    known = {text(first(one, "hash", "commit", "sha")) for one in nodes(commits)}
    landed = [(claim, commit) for claim in claims.values() for commit in claim.commits if commit not in known]
    landed.sort(key=lambda each: _time_of(view, each[0].task))
    for claim, commit in landed:
        at = stamp(_time_of(view, claim.task))
        commits.append({"hash": commit, "subtask_id": claim.native, "timestamp": at})
    build["commits"] = commits
    build["last_good_commit"] = landed[-1][1] if landed else build.get("last_good_commit")
    _date(view, build)
    return build


def _date(view: RunView, document: Node) -> None:
    metadata = {"created_at": stamp(view.started), **node(document.get("metadata"))}
    document["metadata"] = metadata | {"last_updated": stamp(view.updated)}
