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
_BACKWARD = re.compile(r"\bdepends?\s+on\b|\brequires?\b|\bneeds?\b|\bafter\b|依赖|依賴", re.IGNORECASE)
_TASKS = re.compile(r"T(\d{1,9})([a-z]?)(?:\s*(?:-|\u2013|to|\.\.)\s*T(\d{1,9}))?")
_PHASES = re.compile(r"phase\s+([\w.]+)", re.IGNORECASE)
_STORIES = re.compile(r"(?:user\s+story|\bUS)\s*-?(\d+)", re.IGNORECASE)
_RANGE_MAX = 200
# What follows a dash or a `but` is another thought: "after Phase 2 - may integrate with US1" needs no US1.
_CLAUSE = re.compile(r"\n|;|\.\s|\s[-\u2013\u2014]\s|\sbut\s", re.IGNORECASE)


class Relations(msgspec.Struct, kw_only=True):
    """Who needs whom: tasks by id, phases and stories by number."""

    tasks: dict[str, tuple[str, ...]] = {}
    phases: dict[str, tuple[str, ...]] = {}
    stories: dict[str, tuple[str, ...]] = {}


def relations(text: str) -> Relations:
    """Return what a text says about who needs whom."""
    made = Relations()
    for clause in _CLAUSE.split(text):
        for before, after in _pairs(clause):
            for names, kept in ((_tasks, made.tasks), (_phases, made.phases), (_stories, made.stories)):
                for name in names(after):
                    kept[name] = (*kept.get(name, ()), *names(before))
    return made


def _pairs(clause: str) -> Iterator[tuple[str, str]]:
    """Yield (what comes first, what needs it) for each relation of a clause."""
    if _BACKWARD.search(clause):
        after, *before = _BACKWARD.split(clause)
        yield from ((part, after) for part in before)
        return
    steps = _FORWARD.split(clause)
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
