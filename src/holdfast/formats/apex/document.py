"""A state.json as a list of phases, whichever of its three lists each stands in.

Reading and writing back find a phase again by the same ids, because both come here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from holdfast.formats import loose, notes
from holdfast.formats.loose import Node
from holdfast.formats.naming import task_ids

Place = Literal["completed", "current", "pending"]
_NUMBER = re.compile(r"(\d{1,6})([a-z]{0,2})")


@dataclass(slots=True)
class Phase:
    """One phase: where it is listed, its entry there, and the earlier entries of the same phase (its iterations).

    `doubled` says that it is listed as finished and as still to do; `listed` is the entry of the phase under way
    among those to come, where the document shows it as well.
    """

    number: str
    name: str
    place: Place
    entry: Node
    earlier: list[Node] = field(default_factory=list)
    doubled: bool = False
    listed: Node | None = None
    id: str = ""

    @property
    def label(self) -> str:
        """Its number and name, as its id would be if nothing else had it."""
        return "-".join(part for part in (self.number, self.name) if part)


def is_state(document: Node) -> bool:
    """Tell whether an object has the lists that only an APEX state has."""
    return any(key in document for key in ("completed_phases", "pending_phases", "current_phase"))


def phases_of(document: Node) -> list[Phase]:
    """Return the phases in the order of their numbers, or as listed where some have none, each with its id."""
    found: dict[tuple[str, str], Phase] = {}
    for place, entry in _entries(document):
        _take(found, place, entry)
    phases = list(found.values())
    if all(_NUMBER.fullmatch(phase.number) for phase in phases):
        phases.sort(key=_order)
    natives = [loose.text(notes.of(phase.entry).get("id")) or phase.label for phase in phases]
    for phase, name in zip(phases, task_ids(natives, "phase"), strict=True):
        phase.id = name
    return phases


def _entries(document: Node) -> Iterator[tuple[Place, Node]]:
    """Yield every entry with its list. A phase may be given by its bare name or number."""
    keys: tuple[tuple[Place, str], ...] = (
        ("completed", "completed_phases"), ("current", "current_phase"), ("pending", "pending_phases"),
    )  # fmt: skip
    for place, key in keys:
        for item in loose.items(document.get(key)):
            entry = item if isinstance(item, dict) else _named(loose.text(item))
            if entry:
                yield place, entry


def _named(word: str) -> Node:
    """Return an entry for `4`, `validate` or `4-validate`."""
    found = re.fullmatch(r"(\d{1,3}[a-z]?)(?:[-_ ]+(.+))?", word)
    if found:
        return {"number": found[1], "name": found[2] or ""}
    return {"name": word} if word else {}


def _take(found: dict[tuple[str, str], Phase], place: Place, entry: Node) -> None:
    """Add an entry. APEX lists the phase under way among those to come too; that it is under way counts."""
    number, name = _number_of(entry).casefold(), _name_of(entry)
    key = _key(found, number, name)
    known = found.setdefault(key, Phase(number, name, place, entry))
    known.number, known.name = known.number or number, known.name or name
    if known.entry is entry:
        return
    if place == known.place:
        known.earlier.append(known.entry)
        known.entry = entry
    elif known.place == "completed":
        known.doubled = True
        known.earlier.append(known.entry)
        known.place, known.entry = place, entry
    else:
        known.listed = entry


def _number_of(entry: Node) -> str:
    return loose.text(loose.first(entry, "number", "phase", "phase_number", "step"))


def _name_of(entry: Node) -> str:
    return loose.text(loose.first(entry, "name", "phase_name", "title"))


def named_fully(entry: Node, number: int | str, name: str) -> Node:
    """Return an entry that has a number and a name, whichever of them it had."""
    missing = {} if _number_of(entry) or number == "" else {"number": number}
    return missing | ({} if _name_of(entry) or not name else {"name": name}) | entry


def _key(found: dict[tuple[str, str], Phase], number: str, name: str) -> tuple[str, str]:
    """Return under which key a phase is known: lists that leave out its number or its name mean the same one."""
    key = (number, name.casefold())
    if key in found:
        return key
    whole = bool(number and name)
    near = (other for other in found if not (whole and all(other)) and _is_same(key, other))
    return next(near, key)


def _is_same(one: tuple[str, str], other: tuple[str, str]) -> bool:
    """Tell whether two keys agree in what both have, and have something in common."""
    pairs = [pair for pair in zip(one, other, strict=True) if all(pair)]
    return bool(pairs) and all(mine == theirs for mine, theirs in pairs)


def _order(phase: Phase) -> tuple[int, str]:
    found = _NUMBER.fullmatch(phase.number)
    return (int(found[1]), found[2]) if found else (0, "")
