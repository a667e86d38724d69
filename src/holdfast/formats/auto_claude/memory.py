"""What `memory/` keeps beside the plan: each subtask's attempts and failures, what is stuck, and its good commits."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from holdfast.formats.auto_claude.layout import ITEM_KEYS
from holdfast.formats.auto_claude.phases import Part, Phase
from holdfast.formats.loose import Node, count, first, node, nodes, text
from holdfast.formats.model import Claim, PastFailure, Standing
from holdfast.formats.words import standing_of

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


def remember(history: Node, build: Node) -> Memory:
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


def claim_of(part: Part, memory: Memory) -> Claim:
    """Return what plan and memory together say of a subtask."""
    native, found = part.native, part.node
    said = text(found.get("status"))
    standing = _standing(said, native, memory)
    entry = memory.attempts.get(native, {})
    tried = nodes(entry.get("attempts"))
    failures = _failures(tried) or _own_failure(found, standing)
    notes = text(first(found, "actual_output", "notes"))
    is_done = standing is Standing.DONE
    return Claim(
        task=part.id,
        native=native,
        standing=standing,
        said=said,
        attempts=max(len(tried) + (standing is Standing.RUNNING), len(failures), _stuck_count(entry)),
        spent=max(sum(one.get("success") is False for one in tried), len(failures)),
        failures=failures[-FAILURES_KEPT:],
        commits=memory.commits.get(native) or (tuple(_TOLD.findall(notes)) if is_done else ()),
        files=_created(found) if is_done else (),
        summary=notes if is_done else "",
    )


def _stuck_count(entry: Node) -> int:
    return count(first(entry, "attempt_count", "attemptCount"))


def _standing(said: str, native: str, memory: Memory) -> Standing:
    """Return where a subtask stands. A landed one that the plan had not heard of counts, for git will judge it."""
    standing, _ = standing_of(said)
    remembered, _ = standing_of(text(memory.attempts.get(native, {}).get("status")))
    if standing is Standing.DONE or (remembered is Standing.DONE and memory.commits.get(native)):
        return Standing.DONE
    return Standing.ABANDONED if is_stuck(native, memory) else standing


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


def _own_failure(found: Node, standing: Standing) -> tuple[PastFailure, ...]:
    """Return the failure that a subtask itself tells of, for files without a history."""
    output = text(found.get("actual_output"))
    if standing is Standing.FAILED and output:
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


def unknown_names(phases: list[Phase], memory: Memory) -> list[str]:
    """Return the subtasks that the memory knows and the plan does not."""
    known = {part.native for phase in phases for part in phase.parts}
    return [name for name in memory.names() if name not in known]
