"""Reads and writes `memory/`: attempts and failures of subtasks, stuck subtasks, good commits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from holdfast.formats.auto_claude.layout import ITEM_KEYS
from holdfast.formats.auto_claude.phases import Subtask
from holdfast.formats.exported_run import ExportedRun
from holdfast.formats.lenient_json import Key, Node, iso_time, node, nodes, text, texts
from holdfast.formats.model import Claim, ClaimedStatus, PastFailure
from holdfast.formats.status_words import claimed_status, kept_word

FAILURES_KEPT = 20
"""Real subtasks failed thousands of times. The count is exact; only the last texts are kept."""
_WORDS = {ClaimedStatus.DONE: "completed", ClaimedStatus.FAILED: "failed", ClaimedStatus.ABANDONED: "stuck"}
_HASH = re.compile(r"[0-9a-f]{7,64}", re.IGNORECASE)
_NAMED_COMMIT = re.compile(r"\bcommit(?:ted|s)?\b[^.\n]{0,20}?\b([0-9a-f]{7,40})\b", re.IGNORECASE)

_ID = Key("subtask_id", "subtaskId", "chunk_id", "chunkId", "task_id", "id")
_COMMIT = Key("hash", "commit", "sha")
_OUTPUT = Key("actual_output", "notes")
_ATTEMPT_COUNT = Key("attempt_count", "attemptCount")


@dataclass(slots=True)
class Memory:
    """Attempts, stuck reasons and commits by native name; `unnamed` are commits without a subtask."""

    attempts: dict[str, Node] = field(default_factory=dict)
    stuck: dict[str, str] = field(default_factory=dict)
    commits: dict[str, tuple[str, ...]] = field(default_factory=dict)
    unnamed: tuple[str, ...] = ()

    def names(self) -> list[str]:
        """Return every subtask in the memory, in order of first appearance."""
        return list(dict.fromkeys((*self.attempts, *self.commits, *self.stuck)))

    def entry(self, native: str) -> Node:
        """Return the entry of a subtask in the attempt history."""
        return self.attempts.get(native, {})

    def is_stuck(self, native: str) -> bool:
        """Tell whether a subtask was abandoned and handed to people."""
        return native in self.stuck or text(self.entry(native).get("status")) == "stuck"


def read_memory(history: Node, build: Node) -> Memory:
    """Return what the attempt history and the list of good commits say."""
    entries = next((found for key in ITEM_KEYS if (found := node(history.get(key)))), {})
    memory = Memory(attempts={name: node(entry) for name, entry in entries.items()})
    for key in ("stuck_subtasks", "stuck_chunks"):
        listed = history.get(key)
        for one in listed if isinstance(listed, list) else []:
            if name := _ID.text_or_self(one):
                memory.stuck[name] = text(node(one).get("reason"))
    made = [(_ID.text(one), _hash(_COMMIT.raw(one))) for one in nodes(build.get("commits"))]
    last = _hash(build.get("last_good_commit"))
    if last not in (commit for _, commit in made):
        made.append(("", last))
    for name, commit in made:
        if name and commit:
            memory.commits[name] = (*memory.commits.get(name, ()), commit)
    memory.unnamed = tuple(commit for name, commit in made if commit and not name)
    return memory


def _hash(value: Any) -> str:
    return found if _HASH.fullmatch(found := text(value)) else ""


def claim_of(subtask: Subtask, memory: Memory) -> Claim:
    """Return what plan and memory together say about a subtask."""
    native, entry = subtask.native, subtask.entry
    said, output = text(entry.get("status")), _OUTPUT.text(entry)
    status = _status(said, native, memory)
    tried = nodes(memory.entry(native).get("attempts"))
    failures = _failures(tried) or _own_failure(entry, status)
    counted = _ATTEMPT_COUNT.count(memory.entry(native))
    is_done = status is ClaimedStatus.DONE
    created = entry.get("files_to_create")
    return Claim(
        task=subtask.id,
        standing=status,
        said=said,
        attempts=max(len(tried) + (status is ClaimedStatus.RUNNING), len(failures), counted),
        spent=max(sum(one.get("success") is False for one in tried), len(failures)),
        failures=failures[-FAILURES_KEPT:],
        commits=memory.commits.get(native) or (tuple(_NAMED_COMMIT.findall(output)) if is_done else ()),
        files=texts(created) if is_done and isinstance(created, list) else (),
        summary=output if is_done else "",
    )


def _status(said: str, native: str, memory: Memory) -> ClaimedStatus:
    """Return the status of a subtask.

    One that landed is done, even if the plan does not say so; git decides.
    """
    planned = claimed_status(said)
    remembered = claimed_status(text(memory.entry(native).get("status")))
    if planned is ClaimedStatus.DONE or (remembered is ClaimedStatus.DONE and memory.commits.get(native)):
        return ClaimedStatus.DONE
    return ClaimedStatus.ABANDONED if memory.is_stuck(native) else planned


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


def _own_failure(entry: Node, status: ClaimedStatus) -> tuple[PastFailure, ...]:
    """Return the failure that the subtask itself names, for files without a history."""
    output = text(entry.get("actual_output"))
    if status is ClaimedStatus.FAILED and output:
        return (PastFailure(attempt=1, error=output.removeprefix("FAILED:").strip() or output),)
    return ()


def write_history(view: ExportedRun, history: Node, claims: Mapping[str, Claim]) -> Node:
    """Update an attempt history and return it. Its existing attempts stay as they are."""
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
    """Return a subtask's entry with the missing attempts added. An attempt is written once it is over."""
    tried = entry["attempts"] if isinstance(entry.get("attempts"), list) else []
    over = claim.attempts - (claim.standing is ClaimedStatus.RUNNING)
    failures = {failure.attempt: failure for failure in claim.failures}
    for number in range(len(tried) + 1, over + 1):
        tried.append(_attempt(view, claim, number, failures.get(number)))
    said = text(entry.get("status"))
    word = _WORDS.get(claim.standing, "failed" if failures else "pending")
    # Both `failed` and `stuck` mean failure, but only people can continue what is stuck.
    status = word if "stuck" in (said, word) else kept_word(said, word)
    return {**entry, "attempts": tried, "status": status}


def _attempt(view: ExportedRun, claim: Claim, number: int, failure: PastFailure | None) -> Node:
    """Return one attempt. One that a crash cut off was neither good nor bad, so it has no `success`."""
    is_good = number == claim.attempts and claim.standing is ClaimedStatus.DONE
    return {
        "session": number,
        "timestamp": iso_time(_time_of(view, claim.task)),
        "approach": failure.feedback if failure else claim.summary if is_good else "",
        "success": False if failure else True if is_good else None,
        "error": failure.error if failure else None,
    }


def _time_of(view: ExportedRun, task: str) -> float:
    times = view.times_of(task)
    return next((at for at in (times.ended, times.started) if at is not None), view.updated)


def _stuck_entries(view: ExportedRun, listed: Any, claims: Mapping[str, Claim]) -> list[Any]:
    """Return the abandoned subtasks, which people must look at, each with its previous entry."""
    had = {_ID.text(one): one for one in nodes(listed)}
    ours = {claim.native for claim in claims.values()}
    kept = [one for name, one in had.items() if name not in ours]
    abandoned = [claim for claim in claims.values() if claim.standing is ClaimedStatus.ABANDONED]
    return [*kept, *(had.get(claim.native) or _stuck_entry(view, claim) for claim in abandoned)]


def _stuck_entry(view: ExportedRun, claim: Claim) -> Node:
    return {
        "subtask_id": claim.native,
        "reason": view.error_of(claim.task) or "No attempts are left",
        "escalated_at": iso_time(_time_of(view, claim.task)),
        "attempt_count": claim.attempts,
    }


def write_commits(view: ExportedRun, build: Node, claims: Mapping[str, Claim]) -> Node:
    """Update the list of good commits and return it: each landing once, in landing order."""
    commits = build["commits"] if isinstance(build.get("commits"), list) else []
    known = {_COMMIT.text(one) for one in nodes(commits)}
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
