"""From what phases and subtasks say they depend on to needs that a plan may have.

Auto-Claude works through a plan in order, one subtask after another, in one worktree. Here tasks run side by side
unless they need each other; so where a plan is silent, its order is what its author relied on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from holdfast.formats.auto_claude.phases import Part, Phase, names_its_needs, needs_of
from holdfast.formats.model import Finding
from holdfast.formats.order import Edges, acyclic, in_order


@dataclass(slots=True)
class Ordered:
    """The phases so that each comes after what it needs, and the needs of each phase and each subtask."""

    phases: list[Phase]
    stage_needs: Edges
    task_needs: Edges
    findings: list[Finding] = field(default_factory=list)


def settle(phases: list[Phase]) -> Ordered:
    """Return phases and needs as a plan may have them, and a finding for each dependency that it may not."""
    findings: list[Finding] = []
    names = _Names(phases)
    stage_needs, circular = acyclic(_stage_needs(phases, names, findings))
    place = {name: number for number, name in enumerate(in_order(stage_needs))}
    ordered = sorted(phases, key=lambda phase: place[phase.id])
    wanted = {who: needs for phase in ordered for who, needs in _task_needs(phase, names, findings)}
    task_needs, in_circles = acyclic(_no_later(wanted, ordered, findings))
    findings += [_circular(who, what) for who, what in (*circular, *in_circles)]
    return Ordered(ordered, stage_needs, task_needs, findings)


def _circular(who: str, what: str) -> Finding:
    said = f"{who} depends on itself" if who == what else f"{who} and {what} depend on each other"
    return Finding(kind="circular-dependency", sentence=f"{said}; {who} no longer waits for it.")


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


def _stage_needs(phases: list[Phase], names: _Names, findings: list[Finding]) -> Edges:
    """Return the needs of phases. If none says anything, each needs the one before, as Auto-Claude would go."""
    if not any(names_its_needs(phase.node) for phase in phases):
        return {phase.id: (before.id,) if before else () for before, phase in _pairs(phases)}
    return {phase.id: _named_phases(phase, names, findings) for phase in phases}


def _pairs(phases: list[Phase]) -> zip[tuple[Phase | None, Phase]]:
    return zip((None, *phases), phases, strict=False)


def _named_phases(phase: Phase, names: _Names, findings: list[Finding]) -> tuple[str, ...]:
    needs: list[str] = []
    for ref in _split(needs_of(phase.node), names):
        part = names.part(ref, phase)
        meant = names.phase(ref) or (names.home[part.id] if part else None)
        if meant is None:
            findings.append(_unknown(f"phase {phase.id}", ref))
        else:
            needs.append(meant.id)
    return tuple(dict.fromkeys(needs))


def _task_needs(
    phase: Phase, names: _Names, findings: list[Finding]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the needs of each subtask. If none of a phase says anything, each needs the one before it."""
    is_told = any(names_its_needs(part.node) for part in phase.parts)
    is_free = phase.node.get("parallel_safe") is True
    for before, part in zip((None, *phase.parts), phase.parts, strict=False):
        if is_told:
            yield part.id, _named_parts(part, phase, names, findings)
        else:
            yield part.id, (before.id,) if before and not is_free else ()


def _named_parts(part: Part, phase: Phase, names: _Names, findings: list[Finding]) -> tuple[str, ...]:
    needs: list[str] = []
    for ref in _split(needs_of(part.node), names):
        found, group = names.part(ref, phase), names.phase(ref)
        if found is not None:
            needs.append(found.id)
        elif group is None:
            findings.append(_unknown(part.id, ref, part.id))
        elif group is not phase:
            needs += [each.id for each in group.parts]
    return tuple(dict.fromkeys(needs))


def _unknown(who: str, ref: str, task: str = "") -> Finding:
    said = f"{who} depends on {ref!r}, which is not in the plan; the dependency is dropped."
    return Finding(kind="unknown-task", sentence=said, task=task)


def _no_later(wanted: Edges, ordered: list[Phase], findings: list[Finding]) -> Edges:
    """Drop what would wait for a later phase: that phase would wait for this one."""
    place = {part.id: number for number, phase in enumerate(ordered) for part in phase.parts}
    late = {(who, what): None for who, needs in wanted.items() for what in needs if place[what] > place[who]}
    findings += [
        Finding(
            kind="later-dependency",
            sentence=f"{who} depends on {what}, which is in a later phase; it no longer waits for it.",
            task=who,
        )
        for who, what in late
    ]
    return {who: tuple(what for what in needs if (who, what) not in late) for who, needs in wanted.items()}
