"""What a section on dependencies says in half a sentence: `T016 blocks T018`, `Tests (T004-T007) before T008`,
`T001 → T002`, `Phase 4 depends on Phase 3`, `User Story 2 depends on US1`.

Only lines that name both sides count; prose that names none is for people.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

import msgspec

_FORWARD = re.compile(r"\bblocks\b|\bbefore\b|-+>|→|⇒|=>", re.IGNORECASE)
_BACKWARD = re.compile(r"\bdepends?\s+on\b|\brequires?\b|\bneeds?\b|\bafter\b", re.IGNORECASE)
_TASKS = re.compile(r"T(\d{1,9})([a-z]?)(?:\s*(?:-|\u2013|to|\.\.)\s*T(\d{1,9}))?")
_PHASES = re.compile(r"phase\s+([\w.]+)", re.IGNORECASE)
_STORIES = re.compile(r"(?:user\s+story|\bUS)\s*-?(\d+)", re.IGNORECASE)
_RANGE_MAX = 200


class Relations(msgspec.Struct, kw_only=True):
    """Who needs whom: tasks by id, phases and stories by number."""

    tasks: dict[str, tuple[str, ...]] = {}
    phases: dict[str, tuple[str, ...]] = {}
    stories: dict[str, tuple[str, ...]] = {}


def relations(text: str) -> Relations:
    """Return what a text says about who needs whom."""
    made = Relations()
    for line in text.splitlines():
        for before, after in _pairs(line):
            for names, kept in ((_tasks, made.tasks), (_phases, made.phases), (_stories, made.stories)):
                for name in names(after):
                    kept[name] = (*kept.get(name, ()), *names(before))
    return made


def _pairs(line: str) -> Iterator[tuple[str, str]]:
    """Yield (what comes first, what needs it) for each relation of a line."""
    if _BACKWARD.search(line):
        after, *before = _BACKWARD.split(line)
        yield from ((part, after) for part in before)
        return
    steps = _FORWARD.split(line)
    yield from pairwise(steps)


def _tasks(text: str) -> list[str]:
    names: list[str] = []
    for first, letter, last in _TASKS.findall(text):
        if last and int(first) <= int(last) <= int(first) + _RANGE_MAX:
            names += [f"T{number:0{len(first)}d}" for number in range(int(first), int(last) + 1)]
        else:
            names += [f"T{first}{letter}", *([f"T{last}"] if last else [])]
    return names


def _phases(text: str) -> list[str]:
    return [name.rstrip(".") for name in _PHASES.findall(text)]


def _stories(text: str) -> list[str]:
    return _STORIES.findall(text)
