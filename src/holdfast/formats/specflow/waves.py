"""A state file as waves and groups, whatever drifted in it. Reading and writing back find a group by the same order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from holdfast.formats import extra_fields, lenient_json
from holdfast.formats.lenient_json import Node
from holdfast.formats.plan_assembly import task_ids
from holdfast.formats.specflow.specification import Spec, SpecGroup


@dataclass(frozen=True, slots=True)
class Wave:
    """One wave: its name as a stage, its entry, and its word for where it stands."""

    name: str
    entry: Node

    @property
    def said(self) -> str:
        """The word for where it stands."""
        return lenient_json.text(self.entry.get("status"))


@dataclass(frozen=True, slots=True)
class Group:
    """One group: its name, its wave, what the state has for a result (a word, an object, nothing), what the
    specification says of it, and whether only one of the two knows it."""

    name: str
    wave: Wave
    result: Any
    planned: SpecGroup | None
    listed: bool = True

    @property
    def entry(self) -> Node:
        """Its result as an object, a bare word being its status."""
        if isinstance(self.result, dict):
            return self.result
        word = lenient_json.text(self.result)
        return {"status": word} if word else {}

    @property
    def note(self) -> Node:
        """What we noted of it."""
        return extra_fields.of(self.entry)


def is_state(document: Node) -> bool:
    """Tell whether an object is the state of a SpecFlow run."""
    return bool(document.get("spec_id")) and any(
        key in document for key in ("waves", "mode", "commits", "started")
    )


def groups_of(document: Node, spec: Spec | None) -> list[Group]:
    """Return the groups of all waves in order, then those that only the specification knows.

    A state without waves (they drift) has the groups of its specification, or is one group by itself.
    """
    waves = _waves(document)
    planned = {group.name: group for group in spec.groups} if spec else {}
    found = [group for wave in waves for group in _in_wave(wave, planned)]
    known = {group.name for group in found}
    missing = [group for name, group in planned.items() if name not in known]
    named = {wave.name: wave for wave in waves}
    for group in sorted(missing, key=lambda each: each.wave):
        name = f"wave-{group.wave}"
        wave = named.setdefault(name, Wave(name, {}))
        found.append(Group(group.name, wave, None, group, listed=not waves))
    return found or [
        Group(lenient_json.text(document.get("spec_id")) or "spec", Wave("wave-1", {}), None, None)
    ]


def _waves(document: Node) -> list[Wave]:
    """Return the waves; results that stand at the top belong to a single one."""
    entries = lenient_json.nodes(document.get("waves"))
    if not entries and (document.get("results") or document.get("groups")):
        entries = [document]
    natives = [
        lenient_json.text(extra_fields.of(entry).get("id")) or f"wave-{lenient_json.text(lenient_json.first(entry, 'id', 'wave', 'number')) or place}"
        for place, entry in enumerate(entries, 1)
    ]  # fmt: skip
    return [Wave(name, entry) for name, entry in zip(task_ids(natives), entries, strict=True)]


def _in_wave(wave: Wave, planned: dict[str, SpecGroup]) -> Iterator[Group]:
    """Yield the groups that a wave lists, then those that it only has results for."""
    results = results_of(wave.entry)
    names: list[str] = []
    for item in lenient_json.items(wave.entry.get("groups")):
        held = item if isinstance(item, dict) else None
        name = lenient_json.text(
            lenient_json.first(held, "id", "group", "name") if held is not None else item
        )
        if name and name not in names:
            names.append(name)
            yield Group(name, wave, results.get(name, held), planned.get(name))
    for name, result in results.items():
        if name and name not in names:
            yield Group(name, wave, result, planned.get(name))


def results_of(wave: Node) -> Node:
    """Return the results of a wave by group, however they are listed."""
    found = wave.get("results")
    if isinstance(found, list):
        return {
            lenient_json.text(lenient_json.first(each, "id", "group", "name")): each
            for each in lenient_json.nodes(found)
        }
    if not found and isinstance(wave.get("groups"), dict):
        return dict(wave["groups"])
    return {str(name): result for name, result in lenient_json.node(found).items()}
