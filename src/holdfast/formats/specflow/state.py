"""Reads a SpecFlow state, even one that deviates from the format, as waves and groups, and as a run.

Waves become stages, groups become tasks, results become claims. Reader and writer use the same order of
groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from holdfast.core.plan import Task
from holdfast.formats import extra_fields, markdown
from holdfast.formats.lenient_json import Key, Node, commits, items, message, node, nodes, text, texts
from holdfast.formats.model import Claim, ClaimedStatus, PastFailure
from holdfast.formats.plan_assembly import Assembly, StageDraft, TaskDraft, assemble, task_ids
from holdfast.formats.specflow import layout
from holdfast.formats.specflow.specification import Spec, SpecGroup, parse_spec
from holdfast.formats.status_words import claim_from, claimed_status

_SPEC_ID = Key("spec_id", "specId", "spec")
_ATTEMPTS = Key("attempts", "attempt")
_COMMITS = Key("commits", "commit")
_WAVE_ID = Key("id", "wave", "number")
_GROUP_ID = Key("id", "group", "name")


@dataclass(frozen=True, slots=True)
class Wave:
    """One wave: its stage name, and its entry in the state; empty if only the specification names it."""

    name: str
    entry: Node

    @property
    def said(self) -> str:
        """Its status word."""
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
    """Return the groups of all waves in order, then those that only the specification names.

    A state without waves (models omit them) has the groups of its specification, or is one group by itself.
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
    """Return the waves; results at the top level belong to a single one."""
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
    """Return the results of a wave by group, in any of the ways that states list them."""
    found = wave.get("results")
    if isinstance(found, list):
        return {_GROUP_ID.text(each): each for each in nodes(found)}
    if not found and isinstance(wave.get("groups"), dict):
        return dict(wave["groups"])
    return {str(name): result for name, result in node(found).items()}


@dataclass(frozen=True, slots=True)
class ParsedState:
    """A state with its specification: the groups by the ids of their tasks, and the resulting plan."""

    spec: Spec | None
    groups: dict[str, Group]
    made: Assembly

    @property
    def waves_by_stage(self) -> dict[str, Node]:
        """The entries of the waves by the ids of their stages."""
        entries = {group.wave.name: group.wave.entry for group in self.groups.values()}
        return {stage: entries[wave] for wave, stage in self.made.stages.items()}


def spec_id(document: Node, main: str) -> str:
    """Return the id of the specification that a run implements."""
    return _SPEC_ID.text(document) or layout.spec_in(main) or "SPEC"


def parse_state(name: str, document: Node, documents: Mapping[str, bytes], main: str = "") -> ParsedState:
    """Return the waves as consecutive stages, the groups as their tasks, and the claims about them."""
    spec = _spec_of(name, main, documents)
    groups = groups_of(document, spec)
    waves = {group.wave.name: group.wave for group in groups}
    extra = {wave.name: node(extra_fields.of(wave.entry).get("stage")) for wave in waves.values()}
    stages = [
        extra_fields.stage(StageDraft(native=wave.name), extra[wave.name])
        # Those that only the specification names come last.
        for wave in sorted(waves.values(), key=lambda wave: not wave.entry)
    ]
    drafts = [_draft(group, name, spec, document) for group in groups]
    made = assemble(spec.title if spec and spec.title else name, stages, drafts)
    made = extra_fields.plan(made, extra_fields.of(document), extra)
    return ParsedState(spec, dict(zip(made.ids, groups, strict=True)), made)


def _spec_of(name: str, main: str, documents: Mapping[str, bytes]) -> Spec | None:
    """Return the specification, if it is among the documents: by its name, or because it is the file itself."""
    if main.endswith(".md"):
        spec = parse_spec(markdown.decoded(documents[main]))
        if layout.is_spec(main) or spec.groups:
            return spec
    found = next((path for path in documents if layout.is_spec(path, name)), None)
    return parse_spec(markdown.decoded(documents[found])) if found else None


def _draft(group: Group, name: str, spec: Spec | None, document: Node) -> TaskDraft:
    """Return a group as a task: its row in the specification, and the specification as a whole."""
    tasks = group.planned.tasks if group.planned else ""
    place = f"This is group {group.name} of {name}." if group.planned or not spec else ""
    whole = f"The specification:\n\n{spec.whole}" if spec and spec.whole else ""
    task = Task(
        id="",
        title=tasks if len(tasks) <= 80 else group.name,
        prompt="\n\n".join(part for part in (tasks, place, whole) if part),
        needs=group.planned.needs if group.planned else (),
        acceptance=spec.criteria if spec and not spec.groups else (),
    )
    extra = extra_fields.of(group.entry)
    claim = extra_fields.claim(_claim(group, document), extra)
    return TaskDraft(
        native=group.name, stage=group.wave.name, task=extra_fields.task(task, extra), claim=claim
    )


def _claim(group: Group, document: Node) -> Claim:
    """Return what the state says about a group.

    A run that is one group by itself has all commits of the state.
    """
    entry = group.entry
    # A group without a status is complete if its wave or the whole run is marked complete.
    whole = group.wave.said if group.wave.entry else text(document.get("status"))
    said = text(entry.get("status")) or (whole if claimed_status(whole) is ClaimedStatus.DONE else "")
    claim = claim_from(said, _ATTEMPTS.count(entry))
    error = message(entry.get("error"))
    is_whole_run = not group.wave.entry and group.planned is None
    return replace(
        claim,
        failures=(PastFailure(attempt=max(claim.attempts, 1), error=error),) if error else (),
        commits=commits(document.get("commits") if is_whole_run else _COMMITS.raw(entry)),
        files=(*texts(entry.get("files_created")), *texts(entry.get("files_modified"))),
        summary="\n".join((*texts(entry.get("criteria_met")), *texts(entry.get("deviations")))),
    )
