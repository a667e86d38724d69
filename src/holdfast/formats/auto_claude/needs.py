"""What phases and subtasks depend on, by our ids, whatever the plan calls it.

Auto-Claude works through a plan in order, one subtask after another, in one worktree. Here tasks run side by side
unless they need each other; so where a plan is silent, its order is what its author relied on. A name that means
nothing is passed on as it is: whoever assembles the plan drops and tells it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from holdfast.formats.auto_claude.phases import Part, Phase, names_its_needs, needs_of


class Needs:
    """The needs of every phase and subtask, by id. A phase without an entry needs the one before."""

    def __init__(self, phases: list[Phase]) -> None:
        names = _Names(phases)
        self.stages: dict[str, tuple[str, ...]] = {}
        if any(names_its_needs(phase.node) for phase in phases):
            self.stages = {phase.id: tuple(dict.fromkeys(_of_phase(phase, names))) for phase in phases}
        self.tasks = {who: needs for phase in phases for who, needs in _of_parts(phase, names)}


class _Names:
    """Everything that a dependency may be called, and what is meant: ids, numbers, titles, however spelled."""

    def __init__(self, phases: list[Phase]) -> None:
        self.phases: dict[str, Phase] = {}
        self.parts: dict[str, list[Part]] = {}
        self.home = {part.id: phase for phase in phases for part in phase.parts}
        for phase in phases:
            for part in phase.parts:
                for name in dict.fromkeys((part.native, _bare(part.native), part.id)):
                    self.parts.setdefault(name, []).append(part)
        self._name_phases(phases)

    def _name_phases(self, phases: list[Phase]) -> None:
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

    def part(self, ref: str, near: Phase) -> Part | None:
        """Return the subtask meant: one of the same phase first, for numbers begin again in each."""
        found = self.parts.get(ref) or self.parts.get(_bare(ref)) or []
        return next((part for part in found if self.home[part.id] is near), found[0] if found else None)

    def phase(self, ref: str) -> Phase | None:
        """Return the phase meant."""
        return self.phases.get(ref) or self.phases.get(_bare(ref))


def _bare(name: str) -> str:
    return re.sub(r"[\W_]+", "", name.casefold())


def _split(refs: list[str], names: _Names) -> list[str]:
    """Take a list that was written as one text apart, unless the text as it stands is a name."""
    apart = (one for ref in refs for one in ([ref] if names.knows(ref) else re.split(r"[,;]", ref)))
    return [one.strip() for one in apart if one.strip()]


def _of_phase(phase: Phase, names: _Names) -> Iterator[str]:
    for ref in _split(needs_of(phase.node), names):
        part = names.part(ref, phase)
        meant = names.phase(ref) or (names.home[part.id] if part else None)
        yield meant.id if meant else ref


def _of_parts(phase: Phase, names: _Names) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the needs of each subtask. If none of a phase says anything, each needs the one before it."""
    is_told = any(names_its_needs(part.node) for part in phase.parts)
    is_free = phase.node.get("parallel_safe") is True
    for before, part in zip((None, *phase.parts), phase.parts, strict=False):
        if is_told:
            yield part.id, tuple(dict.fromkeys(_of_part(part, phase, names)))
        else:
            yield part.id, (before.id,) if before and not is_free else ()


def _of_part(part: Part, phase: Phase, names: _Names) -> Iterator[str]:
    """Yield what a subtask needs. A whole phase that it names is all subtasks of that; its own says nothing."""
    for ref in _split(needs_of(part.node), names):
        found, group = names.part(ref, phase), names.phase(ref)
        if found is not None or group is None:
            yield found.id if found else ref
        elif group is not phase:
            yield from (each.id for each in group.parts)
