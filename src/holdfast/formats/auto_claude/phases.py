"""The phases and subtasks of a plan document under all their names, with the ids that they have here.

Reading and writing both walk a document this way, so the same document always gives the same ids.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from holdfast.formats.auto_claude.layout import ITEM_KEYS
from holdfast.formats.lenient_json import Node, first, items, text
from holdfast.formats.plan_assembly import task_ids

_PHASE_IDS = ("id", "phase_id", "phaseId", "phase", "number")
_PHASE_TITLES = ("name", "title", "phase_name", "phaseName")
_PART_IDS = ("id", "subtask_id", "subtaskId", "chunk_id", "chunkId", "task_id", "taskId", "number")
_NEEDS = ("depends_on", "dependsOn", "dependencies", "depends", "needs", "blocked_by")
_NO_NEED = ("none", "n/a", "null", "-")


@dataclass(frozen=True, slots=True)
class Subtask:
    """A subtask: its id here, its name there, and its own object in the document."""

    id: str
    native: str
    node: Node


@dataclass(frozen=True, slots=True)
class PlanPhase:
    """A phase: its id here, all names it goes by there, its own object, and its subtasks."""

    id: str
    names: tuple[str, ...]
    title: str
    node: Node
    parts: tuple[Subtask, ...]


def phases_of(document: Node) -> list[PlanPhase]:
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
    made = iter([Subtask(*each) for each in named])
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


def twins_of(phase: PlanPhase) -> Iterator[tuple[Subtask, Node]]:
    """Yield the copies of subtasks that a phase keeps under an older name of the list beside the present one."""
    lists = [children(phase.node.get(key)) for key in ITEM_KEYS]
    for copies in [kept for kept in lists if kept][1:]:
        if len(copies) == len(phase.parts):
            yield from ((part, copy) for part, (_, copy) in zip(phase.parts, copies, strict=True))


def _phase_id(hint: str, found: Node, place: int) -> str:
    named = text(first(found, *_PHASE_IDS)) if hint != "main" else ""
    named = named or hint or str(place)
    return f"phase-{named}" if named.isdecimal() else named


def _phase(own: str, row: _Row, made: Iterator[Subtask]) -> PlanPhase:
    hint, found, parts = row
    names = [text(found.get(key)) for key in (*_PHASE_IDS, *_PHASE_TITLES)]
    title = "" if hint == "main" else text(first(found, *_PHASE_TITLES))
    taken = tuple(next(made) for _ in parts)
    return PlanPhase(own, tuple(name for name in (*names, hint) if name), title, found, taken)


def names_its_needs(found: Node) -> bool:
    """Tell whether a phase or subtask says what it depends on, be it that it depends on nothing."""
    return any(isinstance(found.get(key), list | str | int | dict) for key in _NEEDS)


def needs_of(found: Node) -> list[str]:
    """Return what a phase or subtask says it depends on, in its own words."""
    refs = [_reference(ref) for key in _NEEDS for ref in items(found.get(key))]
    return [ref for ref in dict.fromkeys(refs) if ref and ref.casefold() not in _NO_NEED]


def _reference(ref: Any) -> str:
    return text(first(ref, *_PART_IDS, *_PHASE_IDS)) if isinstance(ref, dict) else text(ref)


class Dependencies:
    """The needs of every phase and subtask, by id. A phase without an entry needs the one before."""

    def __init__(self, phases: list[PlanPhase]) -> None:
        names = _Names(phases)
        self.stages: dict[str, tuple[str, ...]] = {}
        if any(names_its_needs(phase.node) for phase in phases):
            self.stages = {phase.id: tuple(dict.fromkeys(_of_phase(phase, names))) for phase in phases}
        self.tasks = {who: needs for phase in phases for who, needs in _of_parts(phase, names)}


class _Names:
    """Everything that a dependency may be called, and what is meant: ids, numbers, titles, however spelled."""

    def __init__(self, phases: list[PlanPhase]) -> None:
        self.phases: dict[str, PlanPhase] = {}
        self.parts: dict[str, list[Subtask]] = {}
        self.home = {part.id: phase for phase in phases for part in phase.parts}
        for phase in phases:
            for part in phase.parts:
                for name in dict.fromkeys((part.native, _bare(part.native), part.id)):
                    self.parts.setdefault(name, []).append(part)
        self._name_phases(phases)

    def _name_phases(self, phases: list[PlanPhase]) -> None:
        """Enter exact names before spellings of them, and places last: a number means a name where there is one."""
        for phase in phases:
            for name in (*phase.names, phase.id):
                self.phases.setdefault(name, phase)
        for place, phase in enumerate(phases, 1):
            for name in (*(_bare(each) for each in phase.names), str(place), f"phase{place}"):
                self.phases.setdefault(name, phase)

    def knows(self, ref: str) -> bool:
        """Tell whether a text as it stands is a name."""
        return ref in self.parts or ref in self.phases

    def part(self, ref: str, near: PlanPhase) -> Subtask | None:
        """Return the subtask meant: one of the same phase first, for numbers begin again in each."""
        found = self.parts.get(ref) or self.parts.get(_bare(ref)) or []
        return next((part for part in found if self.home[part.id] is near), found[0] if found else None)

    def phase(self, ref: str) -> PlanPhase | None:
        """Return the phase meant."""
        return self.phases.get(ref) or self.phases.get(_bare(ref))


def _bare(name: str) -> str:
    return re.sub(r"[\W_]+", "", name.casefold())


def _split(refs: list[str], names: _Names) -> list[str]:
    """Take a list that was written as one text apart, unless the text as it stands is a name."""
    apart = (one for ref in refs for one in ([ref] if names.knows(ref) else re.split(r"[,;]", ref)))
    return [one.strip() for one in apart if one.strip()]


def _of_phase(phase: PlanPhase, names: _Names) -> Iterator[str]:
    for ref in _split(needs_of(phase.node), names):
        part = names.part(ref, phase)
        meant = names.phase(ref) or (names.home[part.id] if part else None)
        yield meant.id if meant else ref


def _of_parts(phase: PlanPhase, names: _Names) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the needs of each subtask. If none of a phase says anything, each needs the one before it."""
    is_told = any(names_its_needs(part.node) for part in phase.parts)
    is_free = phase.node.get("parallel_safe") is True
    for before, part in zip((None, *phase.parts), phase.parts, strict=False):
        if is_told:
            yield part.id, tuple(dict.fromkeys(_of_part(part, phase, names)))
        else:
            yield part.id, (before.id,) if before and not is_free else ()


def _of_part(part: Subtask, phase: PlanPhase, names: _Names) -> Iterator[str]:
    """Yield what a subtask needs. A whole phase that it names is all subtasks of that; its own says nothing."""
    for ref in _split(needs_of(part.node), names):
        found, group = names.part(ref, phase), names.phase(ref)
        if found is not None or group is None:
            yield found.id if found else ref
        elif group is not phase:
            yield from (each.id for each in group.parts)
