"""What a sprint waits for, however it is written: names, objects, nested groups, other phases, interfaces."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from holdfast.formats.drafts import plain_name
from holdfast.formats.loose import Node, first, items, text

_WAITS = ("dependencies", "depends_on", "dependsOn", "crossPhaseDependencies", "cross_phase_dependencies", "blockedBy", "requires")  # fmt: skip
_WAITS_FOR_INTERFACES = ("interfaceDependencies", "interface_dependencies", "waitsForInterface", "waits_for_interface", "needs_interface", "consumes")  # fmt: skip
_NAME = ("sprintId", "sprint_id", "sprint", "id", "on", "to", "from", "task", "name")


class Waits(msgspec.Struct, frozen=True, kw_only=True):
    """What a sprint waits for, by native names: landings, interfaces, and what no sprint of the epic provides."""

    landed: tuple[str, ...] = ()
    interface: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """The names of an epic: each sprint under every way of writing it, and the sprints of each phase."""

    sprints: Mapping[str, str]
    phases: Mapping[str, tuple[str, ...]]

    def meant(self, name: str) -> tuple[str, ...]:
        """Return the sprints that a name means: one, all of a phase, or none."""
        last = name.rsplit("/", 1)[-1]
        number = re.match(r"\W*(?:sprint|phase)?[\s_-]*(\d+(?:\.\d+)*)\b", name, re.IGNORECASE)
        for way in (name, plain_name(name), last, plain_name(last)):
            if way in self.sprints:
                return (self.sprints[way],)
        for way in (plain_name(name), plain_name(last)):
            if way in self.phases:
                return self.phases[way]
        return (self.sprints[number[1]],) if number and number[1] in self.sprints else ()


def known_names(sprints: Sequence[tuple[str, str, str]]) -> Known:
    """Return the lookup for sprints given as (native name, title, phase)."""
    ways: dict[str, str] = {native: native for native, _, _ in sprints}
    phases: dict[str, tuple[str, ...]] = {}
    for native, title, phase in sprints:
        for way in (plain_name(native), title, plain_name(title)):
            if way:
                ways.setdefault(way, native)
        phases[plain_name(phase)] = (*phases.get(plain_name(phase), ()), native)
    return Known(sprints=ways, phases={name: members for name, members in phases.items() if name})


def waits_of(sprint: Node, known: Known) -> Waits:
    """Return what a sprint's own keys say that it waits for."""
    said = [found for key in _WAITS for found in _named(sprint.get(key), known, interface=False)]
    said += [
        found for key in _WAITS_FOR_INTERFACES for found in _named(sprint.get(key), known, interface=True)
    ]
    landed: list[str] = []
    interface: list[str] = []
    outside: list[str] = []
    for name, by_interface in dict.fromkeys(said):
        meant = known.meant(name)
        (interface if by_interface else landed).extend(meant)
        if not meant:
            outside.append(name)
    waits_fully = tuple(dict.fromkeys(landed))
    return Waits(
        landed=waits_fully,
        interface=tuple(name for name in dict.fromkeys(interface) if name not in waits_fully),
        outside=tuple(outside),
    )


def _named(value: object, known: Known, *, interface: bool) -> Iterator[tuple[str, bool]]:
    """Yield the names in a list, an object of lists, or a single name, and whether an interface is enough."""
    if isinstance(value, dict):
        yield from _grouped(value, known, interface=interface)
        return
    for each in items(value):
        if isinstance(each, dict):
            yield from _one(each, known, interface=interface)
        elif name := text(each):
            yield name, interface


def _one(entry: Node, known: Known, *, interface: bool) -> Iterator[tuple[str, bool]]:
    """Read an object that names one sprint, or groups of them."""
    name = text(first(entry, *_NAME))
    by_interface = interface or "interface" in entry or text(entry.get("type")) == "interface"
    if name:
        yield name, by_interface
    else:
        yield from _grouped(entry, known, interface=by_interface)


def _grouped(groups: Node, known: Known, *, interface: bool) -> Iterator[tuple[str, bool]]:
    """Read `{sprint: …}` by its keys and `{kind: [names]}` by its values."""
    for key, value in groups.items():
        by_interface = interface or "interface" in key.casefold()
        if known.meant(key):
            yield key, by_interface or (isinstance(value, dict) and "interface" in value)
        else:
            yield from _named(value, known, interface=by_interface)
