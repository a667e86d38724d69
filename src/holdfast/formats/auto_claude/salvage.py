"""A plan for a spec that has none that can be read: from its memory and its progress notes, else one task for all."""

from __future__ import annotations

import re

from holdfast.formats.auto_claude.memory import Memory
from holdfast.formats.loose import Node, nodes, text

ALL_IN_ONE = "build"
_SPEC_CHARS = 20_000
_COMPLETED = re.compile(r"^\W*(?:sub-?task|chunk) completed:\s*(.+)$", re.IGNORECASE | re.MULTILINE)
_NEXT = re.compile(r"^\W*next (?:sub-?task|chunk):\s*(.+)$", re.IGNORECASE | re.MULTILINE)


def from_remains(memory: Memory, progress: str) -> Node:
    """Return a plan of what memory and progress notes name, or an empty object if they name nothing."""
    found = {name: _remembered(memory, name) for name in memory.names()}
    for line, status in (*_noted(_COMPLETED, progress, "completed"), *_noted(_NEXT, progress, "pending")):
        name, words = _taken_apart(line)
        entry = found.setdefault(name, {"id": name, "status": status})
        entry.setdefault("description", words or f"Do subtask {name}.")
    return {"subtasks": list(found.values())} if found else {}


def _noted(line: re.Pattern[str], progress: str, status: str) -> list[tuple[str, str]]:
    return [(said.strip(), status) for said in line.findall(progress) if said.strip()]


def _taken_apart(line: str) -> tuple[str, str]:
    """Return the name and the words of a line such as `subtask-1-2 - Add the button`."""
    found = re.fullmatch(r"(\S+?)(?::|\s+\W)\s+(.*)", line)
    return (found[1], found[2]) if found else (line.split()[0], line)


def _remembered(memory: Memory, name: str) -> Node:
    entry = memory.attempts.get(name, {})
    tried = nodes(entry.get("attempts"))
    words = next((said for one in tried if (said := text(one.get("approach")))), "")
    status = text(entry.get("status")) or ("completed" if name in memory.commits else "pending")
    told = {"description": words.removeprefix("Implemented:").strip()} if words else {}
    return {"id": name, "status": status, **told}


def all_in_one(goal: str, about: str, spec: str, *, is_planless: bool) -> Node:
    """Return a plan of one task that is the whole spec: what planning would have taken apart.

    If a plan was made and merely is not here, the task is blocked: doing it would do everything twice.
    """
    told = "\n\n".join(part for part in (goal, about if about != goal else "", spec[:_SPEC_CHARS]) if part)
    status = "pending" if is_planless else "blocked"
    asked = f"Plan this first, in steps that you can check; then do it all.\n\n{told}"
    return {"subtasks": [{"id": ALL_IN_ONE, "title": goal, "description": asked, "status": status}]}
