"""The phases and subtasks of a plan document under all their names, with the ids that they have here.

Reading and writing both walk a document this way, so the same document always gives the same ids.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from holdfast.formats.auto_claude.layout import ITEM_KEYS
from holdfast.formats.loose import Node, first, items, text
from holdfast.formats.naming import task_ids

_PHASE_IDS = ("id", "phase_id", "phaseId", "phase", "number")
_PHASE_TITLES = ("name", "title", "phase_name", "phaseName")
_PART_IDS = ("id", "subtask_id", "subtaskId", "chunk_id", "chunkId", "task_id", "taskId", "number")
_NEEDS = ("depends_on", "dependsOn", "dependencies", "depends", "needs", "blocked_by")
_NO_NEED = ("none", "n/a", "null", "-")


@dataclass(frozen=True, slots=True)
class Part:
    """A subtask: its id here, its name there, and its own object in the document."""

    id: str
    native: str
    node: Node


@dataclass(frozen=True, slots=True)
class Phase:
    """A phase: its id here, all names it goes by there, its own object, and its subtasks."""

    id: str
    names: tuple[str, ...]
    title: str
    node: Node
    parts: tuple[Part, ...]


def phases_of(document: Node) -> list[Phase]:
    """Return the phases that have subtasks. A plan without phases is one phase with all its subtasks."""
    rows = [row for row in _rows(document.get("phases")) if row[2]]
    if not rows:
        flat = _parts(document)
        rows = [("main", document, flat)] if flat else []
    phase_ids = task_ids((_phase_id(hint, found, place) for place, (hint, found, _) in enumerate(rows, 1)))
    natives = [
        native or f"subtask-{place}-{number}"
        for place, (_, _, parts) in enumerate(rows, 1)
        for number, (native, _) in enumerate(parts, 1)
    ]
    named = zip(task_ids(natives), natives, (found for row in rows for _, found in row[2]), strict=True)
    made = iter([Part(*each) for each in named])
    return [_phase(own, row, made) for own, row in zip(phase_ids, rows, strict=True)]


_Row = tuple[str, Node, list[tuple[str, Node]]]


def _rows(phases: Any) -> Iterator[_Row]:
    for hint, found in children(phases):
        yield hint, found, _parts(found)


def children(value: Any) -> list[tuple[str, Node]]:
    """Return the objects of a list, or of an object that maps names to objects, each with that name.

    A subtask written as a mere sentence becomes an object in the document itself.
    """
    if isinstance(value, dict):
        return [(key, child) for key, child in value.items() if isinstance(child, dict)]
    if not isinstance(value, list):
        return []
    value[:] = [
        {"description": child} if isinstance(child, str) and child.strip() else child for child in value
    ]
    return [("", child) for child in value if isinstance(child, dict)]


def _parts(found: Node) -> list[tuple[str, Node]]:
    """Return the subtasks of a phase, each with its native name, whatever the list is called."""
    kept = next((parts for key in ITEM_KEYS if (parts := children(found.get(key)))), [])
    return [(text(first(part, *_PART_IDS)) or hint, part) for hint, part in kept]


def twins_of(phase: Phase) -> Iterator[tuple[Part, Node]]:
    """Yield the copies of subtasks that a phase keeps under an older name of the list beside the present one."""
    lists = [children(phase.node.get(key)) for key in ITEM_KEYS]
    for copies in [kept for kept in lists if kept][1:]:
        if len(copies) == len(phase.parts):
            yield from ((part, copy) for part, (_, copy) in zip(phase.parts, copies, strict=True))


def _phase_id(hint: str, found: Node, place: int) -> str:
    named = text(first(found, *_PHASE_IDS)) if hint != "main" else ""
    named = named or hint or str(place)
    return f"phase-{named}" if named.isdecimal() else named


def _phase(own: str, row: _Row, made: Iterator[Part]) -> Phase:
    hint, found, parts = row
    names = [text(found.get(key)) for key in (*_PHASE_IDS, *_PHASE_TITLES)]
    title = "" if hint == "main" else text(first(found, *_PHASE_TITLES))
    taken = tuple(next(made) for _ in parts)
    return Phase(own, tuple(name for name in (*names, hint) if name), title, found, taken)


def names_its_needs(found: Node) -> bool:
    """Tell whether a phase or subtask says what it depends on, be it that it depends on nothing."""
    return any(isinstance(found.get(key), list | str | int | dict) for key in _NEEDS)


def needs_of(found: Node) -> list[str]:
    """Return what a phase or subtask says it depends on, in its own words."""
    refs = [_reference(ref) for key in _NEEDS for ref in items(found.get(key))]
    return [ref for ref in dict.fromkeys(refs) if ref and ref.casefold() not in _NO_NEED]


def _reference(ref: Any) -> str:
    return text(first(ref, *_PART_IDS, *_PHASE_IDS)) if isinstance(ref, dict) else text(ref)
