"""What `memory/` keeps beside the plan: each subtask's attempts and failures, what is stuck, and its good commits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from holdfast.formats.auto_claude.layout import ITEM_KEYS
from holdfast.formats.auto_claude.phases import PlanPhase, Subtask
from holdfast.formats.lenient_json import Node, count, first, iso_time, node, nodes, text
from holdfast.formats.model import Claim, ClaimedStatus, ExportedRun, PastFailure
from holdfast.formats.run_to_claims import error_of
from holdfast.formats.status_words import claimed_status

FAILURES_KEPT = 20
"""Real subtasks failed thousands of times; the count is kept whole, the texts of the last ones are."""
_IDS = ("subtask_id", "subtaskId", "chunk_id", "chunkId", "task_id", "id")
_HASH = re.compile(r"[0-9a-f]{7,64}", re.IGNORECASE)
_TOLD = re.compile(r"\bcommit(?:ted|s)?\b[^.\n]{0,20}?\b([0-9a-f]{7,40})\b", re.IGNORECASE)


@dataclass(slots=True)
class Memory:
    """Attempts, stuck reasons and commits by a subtask's native name; `loose` are commits of no named subtask."""

    attempts: dict[str, Node] = field(default_factory=dict)
    stuck: dict[str, str] = field(default_factory=dict)
    commits: dict[str, tuple[str, ...]] = field(default_factory=dict)
    loose: tuple[str, ...] = ()

    def names(self) -> list[str]:
        """Return every subtask that the memory speaks of, in the order in which it came up."""
        return list(dict.fromkeys((*self.attempts, *self.commits, *self.stuck)))


def read_memory(history: Node, build: Node) -> Memory:
    """Return what the two memory files say."""
    entries = next((kept for key in ITEM_KEYS if (kept := node(history.get(key)))), {})
    made = [
        (text(first(one, *_IDS)), _hash(first(one, "hash", "commit", "sha")))
        for one in nodes(build.get("commits"))
    ]
    by_name: dict[str, tuple[str, ...]] = {}
    for name, commit in made:
        if name and commit:
            by_name[name] = (*by_name.get(name, ()), commit)
    last = _hash(build.get("last_good_commit"))
    unnamed = [commit for name, commit in made if commit and not name]
    if last and last not in (commit for _, commit in made):
        unnamed.append(last)
    return Memory(
        {name: node(entry) for name, entry in entries.items()}, _stuck(history), by_name, tuple(unnamed)
    )


def _stuck(history: Node) -> dict[str, str]:
    listed = [*_listed(history.get("stuck_subtasks")), *_listed(history.get("stuck_chunks"))]
    return {text(first(one, *_IDS)): text(one.get("reason")) for one in listed if first(one, *_IDS)}


def _listed(value: Any) -> list[Node]:
    """Return the entries of a list in which some are mere names."""
    found = value if isinstance(value, list) else []
    return [one if isinstance(one, dict) else {"id": one} for one in found]


def _hash(value: Any) -> str:
    return found if _HASH.fullmatch(found := text(value)) else ""


def claim_of(part: Subtask, memory: Memory) -> Claim:
    """Return what plan and memory together say of a subtask."""
    native, found = part.native, part.node
    said = text(found.get("status"))
    standing = _standing(said, native, memory)
    entry = memory.attempts.get(native, {})
    tried = nodes(entry.get("attempts"))
    failures = _failures(tried) or _own_failure(found, standing)
    notes = text(first(found, "actual_output", "notes"))
    is_done = standing is ClaimedStatus.DONE
    return Claim(
        task=part.id,
        native=native,
        standing=standing,
        said=said,
        attempts=max(len(tried) + (standing is ClaimedStatus.RUNNING), len(failures), _stuck_count(entry)),
        spent=max(sum(one.get("success") is False for one in tried), len(failures)),
        failures=failures[-FAILURES_KEPT:],
        commits=memory.commits.get(native) or (tuple(_TOLD.findall(notes)) if is_done else ()),
        files=_created(found) if is_done else (),
        summary=notes if is_done else "",
    )


def _stuck_count(entry: Node) -> int:
    return count(first(entry, "attempt_count", "attemptCount"))


def _standing(said: str, native: str, memory: Memory) -> ClaimedStatus:
    """Return where a subtask stands. A landed one that the plan had not heard of counts, for git will judge it."""
    standing = claimed_status(said)
    remembered = claimed_status(text(memory.attempts.get(native, {}).get("status")))
    if standing is ClaimedStatus.DONE or (remembered is ClaimedStatus.DONE and memory.commits.get(native)):
        return ClaimedStatus.DONE
    return ClaimedStatus.ABANDONED if is_stuck(native, memory) else standing


def is_stuck(native: str, memory: Memory) -> bool:
    """Tell whether a subtask was given up and handed to people."""
    return native in memory.stuck or text(memory.attempts.get(native, {}).get("status")) == "stuck"


def _failures(tried: list[Node]) -> tuple[PastFailure, ...]:
    return tuple(
        PastFailure(
            attempt=number,
            error=text(one.get("error")) or "It failed; no reason was recorded.",
            feedback=text(one.get("approach")),
        )
        for number, one in enumerate(tried, 1)
        if one.get("success") is False or text(one.get("error"))
    )


def _own_failure(found: Node, standing: ClaimedStatus) -> tuple[PastFailure, ...]:
    """Return the failure that a subtask itself tells of, for files without a history."""
    output = text(found.get("actual_output"))
    if standing is ClaimedStatus.FAILED and output:
        return (PastFailure(attempt=1, error=output.removeprefix("FAILED:").strip() or output),)
    return ()


def _created(found: Node) -> tuple[str, ...]:
    return tuple(
        path
        for one in [found.get("files_to_create")]
        if isinstance(one, list)
        for path in map(text, one)
        if path
    )


def unknown_names(phases: list[PlanPhase], memory: Memory) -> list[str]:
    """Return the subtasks that the memory knows and the plan does not."""
    known = {part.native for phase in phases for part in phase.parts}
    return [name for name in memory.names() if name not in known]


_WORDS = {ClaimedStatus.DONE: "completed", ClaimedStatus.FAILED: "failed", ClaimedStatus.ABANDONED: "stuck"}


def write_history(view: ExportedRun, history: Node, claims: Mapping[str, Claim]) -> Node:
    """Bring an attempt history up to date, and return it. Attempts that it has already stay as they are."""
    key = next((key for key in ITEM_KEYS if isinstance(history.get(key), dict)), ITEM_KEYS[0])
    entries = history[key] = node(history.get(key))
    for claim in claims.values():
        if claim.attempts or claim.native in entries:
            entries[claim.native] = _entry(view, node(entries.get(claim.native)), claim)
    stuck = "stuck_chunks" if "stuck_chunks" in history else "stuck_subtasks"
    history[stuck] = _stuck_entries(view, history.get(stuck), claims)
    _date(view, history)
    return history


def _entry(view: ExportedRun, entry: Node, claim: Claim) -> Node:
    """Return a subtask's entry with the attempts that it lacks. An attempt is written once it is over."""
    tried = entry["attempts"] if isinstance(entry.get("attempts"), list) else []
    over = claim.attempts - (claim.standing is ClaimedStatus.RUNNING)
    failures = {failure.attempt: failure for failure in claim.failures}
    for number in range(len(tried) + 1, over + 1):
        is_last = number == claim.attempts
        tried.append(_attempt(view, claim, number, failures.get(number), is_last=is_last))
    said = text(entry.get("status"))
    word = _WORDS.get(claim.standing, "failed" if failures else "pending")
    same = said and claimed_status(said) is claimed_status(word) and (said == "stuck") == (word == "stuck")
    return {**entry, "attempts": tried, "status": said if same else word}


def _attempt(
    view: ExportedRun, claim: Claim, number: int, failure: PastFailure | None, *, is_last: bool
) -> Node:
    """Return one attempt. One that was neither good nor bad, cut off by a crash, has no `success` at all."""
    is_good = is_last and claim.standing is ClaimedStatus.DONE
    return {
        "session": number,
        "timestamp": iso_time(_time_of(view, claim.task)),
        "approach": failure.feedback if failure else claim.summary if is_good else "",
        "success": False if failure else True if is_good else None,
        "error": failure.error if failure else None,
    }


def _time_of(view: ExportedRun, task: str) -> float:
    times = view.task_times.get(task)
    known = (times.ended, times.started) if times else ()
    return next((at for at in known if at is not None), view.updated)


def _stuck_entries(view: ExportedRun, listed: Any, claims: Mapping[str, Claim]) -> list[Any]:
    """Return what people must look at: whoever was given up, each with the entry it had."""
    had = {text(first(one, "subtask_id", "chunk_id", "id")): one for one in nodes(listed)}
    ours = {claim.native for claim in claims.values()}
    kept = [one for name, one in had.items() if name not in ours]
    given_up = [claim for claim in claims.values() if claim.standing is ClaimedStatus.ABANDONED]
    return [*kept, *(had.get(claim.native) or _given_up(view, claim) for claim in given_up)]


def _given_up(view: ExportedRun, claim: Claim) -> Node:
    return {
        "subtask_id": claim.native,
        "reason": error_of(view, claim.task) or "No attempts are left",
        "escalated_at": iso_time(_time_of(view, claim.task)),
        "attempt_count": claim.attempts,
    }


def write_commits(view: ExportedRun, build: Node, claims: Mapping[str, Claim]) -> Node:
    """Bring the list of good commits up to date, and return it: each landing once, in the order of landing."""
    commits = build["commits"] if isinstance(build.get("commits"), list) else []
    known = {text(first(one, "hash", "commit", "sha")) for one in nodes(commits)}
    landed = [(claim, commit) for claim in claims.values() for commit in claim.commits if commit not in known]
    landed.sort(key=lambda each: _time_of(view, each[0].task))
    for claim, commit in landed:
        at = iso_time(_time_of(view, claim.task))
        commits.append({"hash": commit, "subtask_id": claim.native, "timestamp": at})
    build["commits"] = commits
    build["last_good_commit"] = landed[-1][1] if landed else build.get("last_good_commit")
    _date(view, build)
    return build


def _date(view: ExportedRun, document: Node) -> None:
    metadata = {"created_at": iso_time(view.started), **node(document.get("metadata"))}
    document["metadata"] = metadata | {"last_updated": iso_time(view.updated)}
