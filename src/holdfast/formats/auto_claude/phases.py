"""The phases and subtasks of a plan document: all their names, our ids, and their dependencies.

Reader and writer both use this module, so the same document always gives the same ids.

Auto-Claude works through a plan in order, one subtask after another, in one worktree. Holdfast runs tasks in
parallel unless they need each other. So where a plan is silent, its order counts: its author relied on it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from holdfast.formats.auto_claude.layout import ITEM_KEYS
from holdfast.formats.lenient_json import Key, Node, items, text
from holdfast.formats.plan_assembly import task_ids

_PHASE_ID = Key("id", "phase_id", "phaseId", "phase", "number")
_PHASE_TITLE = Key("name", "title", "phase_name", "phaseName")
_SUBTASK_ID = Key("id", "subtask_id", "subtaskId", "chunk_id", "chunkId", "task_id", "taskId", "number")
_REFERENCE = Key(*_SUBTASK_ID.names, *_PHASE_ID.names)
_PHASE_NAMES = (*_PHASE_ID.names, *_PHASE_TITLE.names)
_NEEDS = ("depends_on", "dependsOn", "dependencies", "depends", "needs", "blocked_by")
_NO_NEED = ("none", "n/a", "null", "-")


@dataclass(frozen=True, slots=True)
class Subtask:
    """A subtask: our id, its native name, and its object in the document."""

    id: str
    native: str
    entry: Node


@dataclass(frozen=True, slots=True)
class PlanPhase:
    """A phase: our id, all its native names, its object, and its subtasks."""

    id: str
    names: tuple[str, ...]
    title: str
    entry: Node
    subtasks: tuple[Subtask, ...]


def phases_of(document: Node) -> list[PlanPhase]:
    """Return the phases that have subtasks. A plan without phases is one phase with all its subtasks."""
    rows = [
        (hint, entry, listed)
        for hint, entry in children(document.get("phases"))
        if (listed := _listed(entry))
    ]
    if not rows and (flat := _listed(document)):
        rows = [("main", document, flat)]
    phase_ids = task_ids(_phase_id(hint, entry, place) for place, (hint, entry, _) in enumerate(rows, 1))
    natives = [
        native or f"subtask-{place}-{number}"
        for place, (_, _, listed) in enumerate(rows, 1)
        for number, (native, _) in enumerate(listed, 1)
    ]
    named = iter(zip(task_ids(natives), natives, strict=True))
    return [
        PlanPhase(
            id=own,
            names=tuple(filter(None, [*(text(entry.get(key)) for key in _PHASE_NAMES), hint])),
            title="" if hint == "main" else _PHASE_TITLE.text(entry),
            entry=entry,
            subtasks=tuple(Subtask(*next(named), subtask) for _, subtask in listed),
        )
        for own, (hint, entry, listed) in zip(phase_ids, rows, strict=True)
    ]


def _phase_id(hint: str, entry: Node, place: int) -> str:
    named = (hint != "main" and _PHASE_ID.text(entry)) or hint or str(place)
    return f"phase-{named}" if named.isdecimal() else named


def children(value: Any) -> list[tuple[str, Node]]:
    """Return the objects of a list, or of an object that maps names to objects, each with that name.

    A subtask that is only a sentence becomes an object in the document itself.
    """
    if isinstance(value, dict):
        return [(key, child) for key, child in value.items() if isinstance(child, dict)]
    if not isinstance(value, list):
        return []
    value[:] = [
        {"description": child} if isinstance(child, str) and child.strip() else child for child in value
    ]
    return [("", child) for child in value if isinstance(child, dict)]


def _listed(entry: Node) -> list[tuple[str, Node]]:
    """Return the subtasks of a phase with native names, from the first key that has any."""
    found = next((listed for key in ITEM_KEYS if (listed := children(entry.get(key)))), [])
    return [(_SUBTASK_ID.text(subtask) or hint, subtask) for hint, subtask in found]


def all_entries(phase: PlanPhase) -> Iterator[tuple[Subtask, Node]]:
    """Yield every object of a subtask, including copies under older keys."""
    lists = [children(phase.entry.get(key)) for key in ITEM_KEYS]
    for entries in filter(None, lists):
        if len(entries) == len(phase.subtasks):
            yield from zip(phase.subtasks, (entry for _, entry in entries), strict=True)


class Dependencies:
    """What every phase and subtask needs, by our ids. A phase without an entry needs the previous one.

    An unknown name is passed on unchanged: `plan_assembly.py` drops it and reports that.
    """

    def __init__(self, phases: list[PlanPhase]) -> None:
        self._phases: dict[str, PlanPhase] = {}
        self._subtasks: dict[str, list[Subtask]] = {}
        self._home = {subtask.id: phase for phase in phases for subtask in phase.subtasks}
        self._enter_names(phases)
        self.tasks = {who: needs for phase in phases for who, needs in self._of_subtasks(phase)}
        self.stages: dict[str, tuple[str, ...]] = {}
        if any(_names_needs(phase.entry) for phase in phases):
            self.stages = {phase.id: tuple(dict.fromkeys(self._of_phase(phase))) for phase in phases}

    def _enter_names(self, phases: list[PlanPhase]) -> None:
        """Add exact names first, then other spellings, then positions: a number is a name if one matches."""
        for phase in phases:
            for subtask in phase.subtasks:
                for name in dict.fromkeys((subtask.native, _bare(subtask.native), subtask.id)):
                    self._subtasks.setdefault(name, []).append(subtask)
            for name in (*phase.names, phase.id):
                self._phases.setdefault(name, phase)
        for place, phase in enumerate(phases, 1):
            for name in (*map(_bare, phase.names), str(place), f"phase{place}"):
                self._phases.setdefault(name, phase)

    def _subtask(self, ref: str, near: PlanPhase) -> Subtask | None:
        """Return the subtask with a name, preferably of the same phase: numbers restart in each phase."""
        found = self._subtasks.get(ref) or self._subtasks.get(_bare(ref)) or []
        return next((one for one in found if self._home[one.id] is near), found[0] if found else None)

    def _phase(self, ref: str) -> PlanPhase | None:
        return self._phases.get(ref) or self._phases.get(_bare(ref))

    def _references(self, entry: Node) -> list[str]:
        """Return the dependencies that an object names. A text with a list is split, unless it is a name."""
        said = dict.fromkeys(_REFERENCE.text_or_self(ref) for key in _NEEDS for ref in items(entry.get(key)))
        refs = (ref for ref in said if ref and ref.casefold() not in _NO_NEED)
        split = (one for ref in refs for one in ([ref] if self._is_name(ref) else re.split(r"[,;]", ref)))
        return [one.strip() for one in split if one.strip()]

    def _is_name(self, ref: str) -> bool:
        return ref in self._subtasks or ref in self._phases

    def _of_phase(self, phase: PlanPhase) -> Iterator[str]:
        for ref in self._references(phase.entry):
            subtask = self._subtask(ref, phase)
            meant = self._phase(ref) or (self._home[subtask.id] if subtask else None)
            yield meant.id if meant else ref

    def _of_subtasks(self, phase: PlanPhase) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield the needs of each subtask.

        If no subtask of a phase names any, each needs the previous one.
        """
        is_said = any(_names_needs(subtask.entry) for subtask in phase.subtasks)
        is_free = phase.entry.get("parallel_safe") is True
        for before, subtask in zip((None, *phase.subtasks), phase.subtasks, strict=False):
            if is_said:
                yield subtask.id, tuple(dict.fromkeys(self._of_subtask(subtask, phase)))
            else:
                yield subtask.id, (before.id,) if before and not is_free else ()

    def _of_subtask(self, subtask: Subtask, phase: PlanPhase) -> Iterator[str]:
        """Yield what a subtask needs. If it names another phase, it needs all subtasks of that phase."""
        for ref in self._references(subtask.entry):
            found, group = self._subtask(ref, phase), self._phase(ref)
            if found is not None or group is None:
                yield found.id if found else ref
            elif group is not phase:
                yield from (each.id for each in group.subtasks)


def _names_needs(entry: Node) -> bool:
    """Tell whether a phase or subtask states its dependencies, even if it has none."""
    return any(isinstance(entry.get(key), list | str | int | dict) for key in _NEEDS)


def _bare(name: str) -> str:
    return re.sub(r"[\W_]+", "", name.casefold())
