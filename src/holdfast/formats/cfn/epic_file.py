"""Epic files, which share no schema: `epicId` or `epic_id` or `{epic: {}}`, sprints at the top or within phases.

What a sprint waits for is written in many ways, too: names, objects, nested groups, other phases, interfaces.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from holdfast.core.plan import Limits
from holdfast.formats import extra_fields
from holdfast.formats.cfn.epic_model import EpicModel
from holdfast.formats.cfn.sprint import SPRINT_ID, SPRINT_TITLE, task_of
from holdfast.formats.lenient_json import Field, Node, items, node, text, texts
from holdfast.formats.plan_assembly import StageDraft, distinct, plain_name

_EPIC_ID = Field("epicId", "epic_id", "id", "slug")
_EPIC_TITLE = Field("name", "title", "epic_name", "epicName", "epic_title")
_STATUS = Field("status", "state")
_EPIC_STATUS = Field("status", "production_status")
_LIMITS = Field("resource_limits", "resourceLimits", "limits")
_JOBS = Field("max_parallel_sprints", "maxParallelSprints", "max_parallel", "jobs")
_PHASE_ID = Field("phaseId", "phase_id", "id", "phase", "name", "title")
_PHASE_TITLE = Field("name", "title")
_PHASE_NEEDS = Field("dependencies", "depends_on", "dependsOn")
_EDGES = Field("crossPhaseDependencies", "cross_phase_dependencies")
_EDGE_FROM = Field("from", "sprint")
_EDGE_TO = Field("to", "dependsOn", "depends_on")
_NEED = Field("sprintId", "sprint_id", "sprint", "id", "on", "to", "from", "task", "name")
_NEEDS = (
    "dependencies", "depends_on", "dependsOn", "crossPhaseDependencies", "cross_phase_dependencies", "blockedBy",
    "requires",
)  # fmt: skip
_NEEDS_INTERFACE = (
    "interfaceDependencies", "interface_dependencies", "waitsForInterface", "waits_for_interface", "needs_interface",
    "consumes",
)  # fmt: skip
_JOBS_MAX = 64


class SprintNeeds(msgspec.Struct, frozen=True, kw_only=True):
    """What a sprint waits for, by native names: landings, interfaces, and what no sprint of the epic provides."""

    landed: tuple[str, ...]
    interface: tuple[str, ...]
    unknown: tuple[str, ...]


class EpicNames(msgspec.Struct, frozen=True, kw_only=True):
    """The names of an epic: each sprint under every way of writing it, and the sprints of each phase."""

    sprints: Mapping[str, str]
    phases: Mapping[str, tuple[str, ...]]

    def resolve(self, name: str) -> tuple[str, ...]:
        """Return the sprints that a name means: one, all of a phase, or none."""
        last = name.rsplit("/", 1)[-1]
        for way in (name, plain_name(name), last, plain_name(last)):
            if way in self.sprints:
                return (self.sprints[way],)
        for way in (plain_name(name), plain_name(last)):
            if way in self.phases:
                return self.phases[way]
        number = re.match(r"\W*(?:sprint|phase)?[\s_-]*(\d+(?:\.\d+)*)\b", name, re.IGNORECASE)
        return (self.sprints[number[1]],) if number and number[1] in self.sprints else ()


class _Place(msgspec.Struct, frozen=True, kw_only=True):
    """A sprint in its file: its name, its object as it is read and as it lies in the file, and its phase."""

    native: str
    sprint: Node
    original: Node
    phase: Node


def read_epic(root: Node) -> EpicModel:
    """Return the model of an epic file, with every sprint it names."""
    inner = node(root.get("epic"))
    phases: dict[str, Node] = {}
    for phase, _ in phases_of(root):
        if _objects(phase.get("sprints")):
            phases.setdefault(phase_name(phase), phase)
    model = EpicModel(
        name=epic_name(root),
        title=_EPIC_TITLE.text(inner) or _EPIC_TITLE.text(root) or text(root.get("epic")),
        status=_STATUS.text(inner) or _EPIC_STATUS.text(root),
        stages=[_stage(name, phase) for name, phase in phases.items()],
        limits=_limits(root, inner),
        by_levels=not phases,
        extra=extra_fields.of(root),
        stage_extra={name: extra_fields.of(phase) for name, phase in phases.items()},
    )
    places = _places(root)
    names = _names(places)
    elsewhere = _needs_elsewhere(root, inner, names)
    for place in places:
        needs = _needs(place.sprint, names, elsewhere.get(place.native, ()))
        _add_sprint(model, place, needs, inner, root)
    _report_prerequisites(model, root, inner, names)
    return model


def epic_name(root: Node) -> str:
    """Return the epic's id, from all the places where files keep it."""
    named = _EPIC_ID.text(node(root.get("epic"))) or _EPIC_ID.text(root) or text(root.get("epic"))
    return named or _EPIC_TITLE.text(root) or "epic"


def phases_of(root: Node) -> list[tuple[Node, Node]]:
    """Return the phases of an epic file, each as it is read and as it lies in the file."""
    return _objects(root.get("phases") or node(root.get("epic")).get("phases"))


def phase_name(phase: Node) -> str:
    """Return what a phase is called."""
    return _PHASE_ID.text(phase)


def _places(root: Node) -> list[_Place]:
    """Return every sprint of a file, once. Where it has phases but no sprints, the phases are the work."""
    phases = phases_of(root)
    listed = [(phase, entry) for phase, _ in phases for entry in _objects(phase.get("sprints"))]
    top = root.get("sprints") or node(root.get("epic")).get("sprints")
    listed += [({}, entry) for entry in _objects(top)]
    listed = listed or [({}, phase) for phase in phases]
    names = distinct((SPRINT_ID.text(sprint) for _, (sprint, _) in listed), "sprint")
    return [
        _Place(native=native, sprint=sprint, original=original, phase=phase)
        for native, (phase, (sprint, original)) in zip(names, listed, strict=True)
    ]


def _objects(value: object) -> list[tuple[Node, Node]]:
    """Return the objects of a list or of an object of them, with their names, and as they lie in the file."""
    if isinstance(value, dict):
        return [({"id": key, **own}, own) for key, own in value.items() if isinstance(own, dict)]
    listed = value if isinstance(value, list) else []
    named = (each if isinstance(each, dict) else {"id": text(each)} for each in listed)
    return [(own, own) for own in named if own and own != {"id": ""}]


def _stage(name: str, phase: Node) -> StageDraft:
    title = _PHASE_TITLE.text(phase)
    needs = None if phase.keys().isdisjoint(_PHASE_NEEDS.names) else _PHASE_NEEDS.texts(phase)
    draft = StageDraft(native=name, title=title if title != name else "", needs=needs)
    return extra_fields.stage(draft, extra_fields.of(phase))


def _limits(root: Node, inner: Node) -> Limits:
    said = _LIMITS.node(root) or node(inner.get("resource_limits"))
    jobs = _JOBS.count(said)
    return Limits(jobs=min(jobs, _JOBS_MAX)) if jobs else Limits()


def _add_sprint(model: EpicModel, place: _Place, needs: SprintNeeds, inner: Node, root: Node) -> None:
    sprint = place.sprint
    task = task_of(sprint, place.phase, inner, root)
    extra = extra_fields.of(sprint)
    task = replace(
        task,
        needs=task.needs if "needs" in extra else needs.landed,
        needs_interface=task.needs_interface if "needs_interface" in extra else needs.interface,
    )
    model.add(place.native, task, sprint, phase=phase_name(place.phase), original=place.original)
    for name in needs.unknown:
        said = f"{place.native} waits for {name}, which is no sprint of this epic; it does not wait for that."
        model.report("unknown-need", said)


def _names(places: Sequence[_Place]) -> EpicNames:
    sprints = {place.native: place.native for place in places}
    phases: dict[str, tuple[str, ...]] = {}
    for place in places:
        title = SPRINT_TITLE.text(place.sprint)
        for way in filter(None, (plain_name(place.native), title, plain_name(title))):
            sprints.setdefault(way, place.native)
        if phase := plain_name(phase_name(place.phase)):
            phases[phase] = (*phases.get(phase, ()), place.native)
    return EpicNames(sprints=sprints, phases=phases)


def _needs(sprint: Node, names: EpicNames, elsewhere: tuple[str, ...]) -> SprintNeeds:
    """Return what a sprint waits for: by its own keys, and by what the epic says elsewhere."""
    said = [found for key in _NEEDS for found in _named(sprint.get(key), names, interface=False)]
    said += [found for key in _NEEDS_INTERFACE for found in _named(sprint.get(key), names, interface=True)]
    found = [(name, by_interface, names.resolve(name)) for name, by_interface in dict.fromkeys(said)]
    landed = [name for _, by_interface, meant in found if not by_interface for name in meant]
    interface = [name for _, by_interface, meant in found if by_interface for name in meant]
    interface = [name for name in dict.fromkeys(interface) if name not in landed]
    landed += [name for name in elsewhere if name not in interface]
    return SprintNeeds(
        landed=tuple(dict.fromkeys(landed)),
        interface=tuple(interface),
        unknown=tuple(name for name, _, meant in found if not meant),
    )


def _named(value: object, names: EpicNames, *, interface: bool) -> Iterator[tuple[str, bool]]:
    """Yield the names in a list, an object of lists, or a single name, and whether an interface is enough."""
    if isinstance(value, dict):
        yield from _grouped(value, names, interface=interface)
        return
    for each in items(value):
        if isinstance(each, dict):
            by_interface = interface or "interface" in each or text(each.get("type")) == "interface"
            if name := _NEED.text(each):
                yield name, by_interface
            else:
                yield from _grouped(each, names, interface=by_interface)
        elif name := text(each):
            yield name, interface


def _grouped(groups: Node, names: EpicNames, *, interface: bool) -> Iterator[tuple[str, bool]]:
    """Read `{sprint: …}` by its keys and `{kind: [names]}` by its values."""
    for key, value in groups.items():
        by_interface = interface or "interface" in key.casefold()
        if names.resolve(key):
            yield key, by_interface or (isinstance(value, dict) and "interface" in value)
        else:
            yield from _named(value, names, interface=by_interface)


def _needs_elsewhere(root: Node, inner: Node, names: EpicNames) -> dict[str, tuple[str, ...]]:
    """Return dependencies that the epic lists for its sprints: `{sprint: [names]}`, or edges from one to another."""
    found: dict[str, tuple[str, ...]] = {}
    for who, name in _edges(root, inner):
        for sprint in names.resolve(who):
            needs = tuple(need for need in names.resolve(name) if need != sprint)
            found[sprint] = (*found.get(sprint, ()), *needs)
    return found


def _edges(root: Node, inner: Node) -> Iterator[tuple[str, str]]:
    for place in (root, inner):
        for who, needs in node(place.get("dependencies")).items():
            yield from ((who, name) for name in texts(needs))
        for edge in items(_EDGES.raw(place)):
            if isinstance(edge, dict):
                yield _EDGE_FROM.text(edge), _EDGE_TO.text(edge)


def _report_prerequisites(model: EpicModel, root: Node, inner: Node, names: EpicNames) -> None:
    """Tell what the epic as a whole takes for granted: nothing here can see to that."""
    wanted = {**node(inner.get("dependencies")), **node(root.get("dependencies"))}
    for group, needs in wanted.items():
        if texts(needs) and not names.resolve(group):
            said = f"The epic takes for granted ({group}): {', '.join(texts(needs))}."
            model.report("prerequisite", said)
