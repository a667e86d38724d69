"""What a sprint waits for, however it is written: names, objects, nested groups, other phases, interfaces."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from holdfast.core.plan import Limits
from holdfast.formats import extra_fields
from holdfast.formats.cfn.epic_model import EpicModel
from holdfast.formats.cfn.sprint import native_of, sprint_claim, task_of, title_of
from holdfast.formats.lenient_json import Node, count, first, items, node, text, texts
from holdfast.formats.model import Finding
from holdfast.formats.plan_assembly import StageDraft, TaskDraft, distinct, plain_name

_NEEDS = ("dependencies", "depends_on", "dependsOn", "crossPhaseDependencies", "cross_phase_dependencies", "blockedBy", "requires")  # fmt: skip
_NEEDS_INTERFACE = ("interfaceDependencies", "interface_dependencies", "waitsForInterface", "waits_for_interface", "needs_interface", "consumes")  # fmt: skip
_NAME = ("sprintId", "sprint_id", "sprint", "id", "on", "to", "from", "task", "name")


class SprintNeeds(msgspec.Struct, frozen=True, kw_only=True):
    """What a sprint waits for, by native names: landings, interfaces, and what no sprint of the epic provides."""

    landed: tuple[str, ...] = ()
    interface: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()


class EpicNames(msgspec.Struct, frozen=True, kw_only=True):
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


def names_of_epic(sprints: Sequence[tuple[str, str, str]]) -> EpicNames:
    """Return the lookup for sprints given as (native name, title, phase)."""
    ways: dict[str, str] = {native: native for native, _, _ in sprints}
    phases: dict[str, tuple[str, ...]] = {}
    for native, title, phase in sprints:
        for way in (plain_name(native), title, plain_name(title)):
            if way:
                ways.setdefault(way, native)
        phases[plain_name(phase)] = (*phases.get(plain_name(phase), ()), native)
    return EpicNames(sprints=ways, phases={name: members for name, members in phases.items() if name})


def needs_of(sprint: Node, known: EpicNames) -> SprintNeeds:
    """Return what a sprint's own keys say that it waits for."""
    said = [found for key in _NEEDS for found in _named(sprint.get(key), known, interface=False)]
    said += [found for key in _NEEDS_INTERFACE for found in _named(sprint.get(key), known, interface=True)]
    landed: list[str] = []
    interface: list[str] = []
    outside: list[str] = []
    for name, by_interface in dict.fromkeys(said):
        meant = known.meant(name)
        (interface if by_interface else landed).extend(meant)
        if not meant:
            outside.append(name)
    waits_fully = tuple(dict.fromkeys(landed))
    return SprintNeeds(
        landed=waits_fully,
        interface=tuple(name for name in dict.fromkeys(interface) if name not in waits_fully),
        outside=tuple(outside),
    )


def _named(value: object, known: EpicNames, *, interface: bool) -> Iterator[tuple[str, bool]]:
    """Yield the names in a list, an object of lists, or a single name, and whether an interface is enough."""
    if isinstance(value, dict):
        yield from _grouped(value, known, interface=interface)
        return
    for each in items(value):
        if isinstance(each, dict):
            yield from _one(each, known, interface=interface)
        elif name := text(each):
            yield name, interface


def _one(entry: Node, known: EpicNames, *, interface: bool) -> Iterator[tuple[str, bool]]:
    """Read an object that names one sprint, or groups of them."""
    name = text(first(entry, *_NAME))
    by_interface = interface or "interface" in entry or text(entry.get("type")) == "interface"
    if name:
        yield name, by_interface
    else:
        yield from _grouped(entry, known, interface=by_interface)


def _grouped(groups: Node, known: EpicNames, *, interface: bool) -> Iterator[tuple[str, bool]]:
    """Read `{sprint: …}` by its keys and `{kind: [names]}` by its values."""
    for key, value in groups.items():
        by_interface = interface or "interface" in key.casefold()
        if known.meant(key):
            yield key, by_interface or (isinstance(value, dict) and "interface" in value)
        else:
            yield from _named(value, known, interface=by_interface)


_EPIC_ID = ("epicId", "epic_id", "id", "slug")
_EPIC_TITLE = ("name", "title", "epic_name", "epicName", "epic_title")
_JOBS_MAX = 64


class _Place(msgspec.Struct, kw_only=True):
    """A sprint in its file: its object, as it is read and as it lies in the file, its name and its phase."""

    sprint: Node
    own: Node
    native: str
    phase: str
    phase_node: Node


def read_epic(root: Node) -> EpicModel:
    """Return the sheet of an epic file, with every sprint it names."""
    inner = node(root.get("epic"))
    places = _places(root)
    phases = _phases(root)
    known = names_of_epic([(place.native, title_of(place.sprint), place.phase) for place in places])
    sheet = EpicModel(
        name=epic_name(root),
        title=text(first(inner, *_EPIC_TITLE)) or text(first(root, *_EPIC_TITLE)) or text(root.get("epic")),
        status=text(first(inner, "status", "state")) or text(first(root, "status", "production_status")),
        stages=[_stage(name, phase) for name, phase in phases.items()],
        limits=_limits(root, inner),
        leveled=not phases,
        note=extra_fields.of(root),
        stage_notes={name: extra_fields.of(phase) for name, phase in phases.items()},
    )
    elsewhere = _said_elsewhere(root, inner, known)
    for place in places:
        waits = _joined(needs_of(place.sprint, known), elsewhere.get(place.native, ()))
        sheet.drafts.append(_draft(place, sheet.home(place.phase), waits, inner, root))
        sheet.nodes.append(place.sprint)
        sheet.own.append(place.own)
        sheet.findings += [_outside(place.native, name) for name in waits.outside]
    sheet.findings += _prerequisites(root, inner, known)
    return sheet


def epic_name(root: Node) -> str:
    """Return the epic's id, wherever the file keeps it."""
    inner = node(root.get("epic"))
    said = text(first(inner, *_EPIC_ID)) or text(first(root, *_EPIC_ID)) or text(root.get("epic"))
    return said or text(first(root, *_EPIC_TITLE)) or "epic"


def _phases(root: Node) -> dict[str, Node]:
    found: dict[str, Node] = {}
    for phase, _ in phases_of(root):
        if _objects(phase.get("sprints")):
            found.setdefault(phase_name(phase), phase)
    return found


def phases_of(root: Node) -> list[tuple[Node, Node]]:
    """Return the phases of an epic file, each as it is read and as it lies in the file."""
    return _objects(first(root, "phases") or node(root.get("epic")).get("phases"))


def phase_name(phase: Node) -> str:
    """Return what a phase is called."""
    return text(first(phase, "phaseId", "phase_id", "id", "phase", "name", "title"))


def _places(root: Node) -> list[_Place]:
    """Return every sprint of a file, once. Where it has phases but no sprints, the phases are the work."""
    phases = phases_of(root)
    listed = [(phase, entry) for phase, _ in phases for entry in _objects(phase.get("sprints"))]
    top = first(root, "sprints") or node(root.get("epic")).get("sprints")
    listed += [({}, entry) for entry in _objects(top)]
    listed = listed or [({}, phase) for phase in phases]
    names = distinct((native_of(sprint) for _, (sprint, _) in listed), "sprint")
    return [
        _Place(sprint=sprint, own=own, native=native, phase=phase_name(phase), phase_node=phase)
        for native, (phase, (sprint, own)) in zip(names, listed, strict=True)
    ]


def _objects(value: object) -> list[tuple[Node, Node]]:
    """Return the objects of a list or of an object of them, with their names, and as they lie in the file."""
    if isinstance(value, dict):
        return [({"id": key, **own}, own) for key, own in value.items() if isinstance(own, dict)]
    found: list[tuple[Node, Node]] = []
    for each in value if isinstance(value, list) else []:
        own = each if isinstance(each, dict) else {"id": text(each)} if text(each) else {}
        if own:
            found.append((own, own))
    return found


def _stage(name: str, phase: Node) -> StageDraft:
    title = text(first(phase, "name", "title"))
    keys = {"dependencies", "depends_on", "dependsOn"} & phase.keys()
    needs = texts(first(phase, *keys)) if keys else None
    return extra_fields.stage(
        StageDraft(native=name, title=title if title != name else "", needs=needs), extra_fields.of(phase)
    )


def _limits(root: Node, inner: Node) -> Limits:
    said = node(first(root, "resource_limits", "resourceLimits", "limits")) or node(
        inner.get("resource_limits")
    )
    jobs = count(first(said, "max_parallel_sprints", "maxParallelSprints", "max_parallel", "jobs"))
    return Limits(jobs=min(jobs, _JOBS_MAX)) if jobs else Limits()


def _draft(place: _Place, stage: str, waits: SprintNeeds, inner: Node, root: Node) -> TaskDraft:
    task = task_of(place.sprint, place.phase_node, inner, root)
    noted = extra_fields.of(place.sprint)
    landed = task.needs if "needs" in noted else waits.landed
    interface = task.needs_interface if "needs_interface" in noted else waits.interface
    return TaskDraft(
        native=place.native,
        stage=stage,
        task=msgspec.structs.replace(task, needs=landed, needs_interface=interface),
        claim=sprint_claim(place.native, place.sprint),
        names=tuple(filter(None, [title_of(place.sprint)])),
    )


def _joined(waits: SprintNeeds, more: tuple[str, ...]) -> SprintNeeds:
    landed = (*waits.landed, *(name for name in more if name not in waits.interface))
    return msgspec.structs.replace(waits, landed=tuple(dict.fromkeys(landed)))


def _said_elsewhere(root: Node, inner: Node, known: EpicNames) -> dict[str, tuple[str, ...]]:
    """Return dependencies that the epic lists for its sprints: `{sprint: [names]}`, or edges from one to another."""
    found: dict[str, tuple[str, ...]] = {}
    for who, name in _edges(root, inner):
        for sprint in known.meant(who):
            needs = tuple(need for need in known.meant(name) if need != sprint)
            found[sprint] = (*found.get(sprint, ()), *needs)
    return found


def _edges(root: Node, inner: Node) -> Iterator[tuple[str, str]]:
    for place in (root, inner):
        for who, names in node(place.get("dependencies")).items():
            yield from ((who, name) for name in texts(names))
        for edge in items(first(place, "crossPhaseDependencies", "cross_phase_dependencies")):
            if isinstance(edge, dict):
                yield text(first(edge, "from", "sprint")), text(first(edge, "to", "dependsOn", "depends_on"))


def _outside(native: str, name: str) -> Finding:
    sentence = f"{native} waits for {name}, which is no sprint of this epic; it does not wait for that."
    return Finding(kind="unknown-need", sentence=sentence)


def _prerequisites(root: Node, inner: Node, known: EpicNames) -> list[Finding]:
    """Tell of what the epic as a whole takes for granted: nothing here can see to that."""
    wanted = {**node(inner.get("dependencies")), **node(root.get("dependencies"))}
    return [
        Finding(
            kind="prerequisite", sentence=f"The epic takes for granted ({group}): {', '.join(texts(names))}."
        )
        for group, names in wanted.items()
        if not known.meant(group) and texts(names)
    ]
