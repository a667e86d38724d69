"""A SpecFlow state as waves and groups, also where it drifted. Reading and writing find a group by the same order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from holdfast.formats import extra_fields
from holdfast.formats.lenient_json import Key, Node, items, node, nodes, text
from holdfast.formats.plan_assembly import task_ids
from holdfast.formats.specflow.specification import Spec, SpecGroup

_WAVE_ID = Key("id", "wave", "number")
_GROUP_ID = Key("id", "group", "name")


@dataclass(frozen=True, slots=True)
class Wave:
    """One wave: its name as a stage, and its entry in the state, which is empty if only the specification knows it."""

    name: str
    entry: Node

    @property
    def said(self) -> str:
        """The word for where it stands."""
        return text(self.entry.get("status"))


@dataclass(frozen=True, slots=True)
class Group:
    """One group: its name, its wave, its result in the state (a word, an object, nothing), and its row in the
    specification. `listed` is false if the state has waves, and none of them names the group."""

    name: str
    wave: Wave
    result: Any
    planned: SpecGroup | None
    listed: bool = True

    @property
    def entry(self) -> Node:
        """Its result as an object; a bare word is its status."""
        if isinstance(self.result, dict):
            return self.result
        word = text(self.result)
        return {"status": word} if word else {}


def is_state(document: Node) -> bool:
    """Tell whether an object is the state of a SpecFlow run."""
    return bool(document.get("spec_id")) and not {"waves", "mode", "commits", "started"}.isdisjoint(document)


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
    return found or [Group(text(document.get("spec_id")) or "spec", Wave("wave-1", {}), None, None)]


def _waves(document: Node) -> list[Wave]:
    """Return the waves; results that stand at the top belong to a single one."""
    entries = nodes(document.get("waves"))
    if not entries and (document.get("results") or document.get("groups")):
        entries = [document]
    natives = [
        text(extra_fields.of(entry).get("id")) or f"wave-{_WAVE_ID.text(entry) or place}"
        for place, entry in enumerate(entries, 1)
    ]
    return [Wave(name, entry) for name, entry in zip(task_ids(natives), entries, strict=True)]


def _in_wave(wave: Wave, planned: dict[str, SpecGroup]) -> Iterator[Group]:
    """Yield the groups that a wave lists, then those that it only has results for."""
    listed = (
        (_GROUP_ID.text_or_self(each), each if isinstance(each, dict) else None)
        for each in items(wave.entry.get("groups"))
    )
    results = results_of(wave.entry)
    names: set[str] = set()
    for name, held in (*listed, *results.items()):
        if name and name not in names:
            names.add(name)
            yield Group(name, wave, results.get(name, held), planned.get(name))


def results_of(wave: Node) -> Node:
    """Return the results of a wave by group, in all the ways that states list them."""
    found = wave.get("results")
    if isinstance(found, list):
        return {_GROUP_ID.text(each): each for each in nodes(found)}
    if not found and isinstance(wave.get("groups"), dict):
        return dict(wave["groups"])
    return {str(name): result for name, result in node(found).items()}
