"""The model of an epic. Every kind of CFN Loop document is turned into it before it becomes a plan.

Epic files are read here. They share no schema: `epicId` or `epic_id` or `{epic: {}}`, sprints at the top or
within phases. Dependencies of a sprint are written in many ways, too: names, objects, nested groups, phases,
interfaces.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from holdfast.core.plan import Limits, Task
from holdfast.formats import extra_fields
from holdfast.formats.cfn.sprint import SPRINT_ID, TEST_SLOT, sprint_claim, task_of
from holdfast.formats.lenient_json import Key, Node, items, node, text, texts
from holdfast.formats.model import Claim, Finding
from holdfast.formats.plan_assembly import (
    Assembly,
    StageDraft,
    TaskDraft,
    assemble,
    distinct,
    levels,
    plain_name,
)

NAMELESS = "epic"
"""Stands for the name of an epic that has none."""
_EPIC_ID = Key("epicId", "epic_id", "id", "slug")
_EPIC_TITLE = Key("name", "title", "epic_name", "epicName", "epic_title")
_STATUS = Key("status", "state")
_EPIC_STATUS = Key("status", "production_status")
_LIMITS = Key("resource_limits", "resourceLimits", "limits")
_JOBS = Key("max_parallel_sprints", "maxParallelSprints", "max_parallel", "jobs")
PHASE_ID = Key("phaseId", "phase_id", "id", "phase", "name", "title")
_PHASE_TITLE = Key("name", "title")
_PHASE_NEEDS = Key("dependencies", "depends_on", "dependsOn")
_EDGES = Key("crossPhaseDependencies", "cross_phase_dependencies")
_EDGE_FROM = Key("from", "sprint")
_EDGE_TO = Key("to", "dependsOn", "depends_on")
_NEED = Key("sprintId", "sprint_id", "sprint", "id", "on", "to", "from", "task", "name")
_NEEDS = (
    "dependencies", "depends_on", "dependsOn", "crossPhaseDependencies", "cross_phase_dependencies", "blockedBy",
    "requires",
)  # fmt: skip
_NEEDS_INTERFACE = (
    "interfaceDependencies", "interface_dependencies", "waitsForInterface", "waits_for_interface", "needs_interface",
    "consumes",
)  # fmt: skip
_JOBS_MAX = 64
_OTHERS = "other-sprints"
_NUMBERED = re.compile(r"\W*(?:sprint|phase)?[\s_-]*(\d+(?:\.\d+)*)\b", re.IGNORECASE)


class Sprint(TaskDraft, kw_only=True):
    """The draft of a sprint, with its object in the file."""

    record: Node


class EpicModel(msgspec.Struct, kw_only=True):
    """The epic's names and status, its phases and sprints.

    With `by_levels` it has no phases: stages are dependency levels, and no stage waits for another.
    """

    name: str
    title: str = ""
    status: str = ""
    stages: list[StageDraft] = []
    sprints: list[Sprint] = []
    findings: list[Finding] = []
    limits: Limits = Limits()
    by_levels: bool = True
    extra: Node = {}
    stage_extra: dict[str, Node] = {}
    by_name: dict[str, Sprint] = {}
    by_phase: dict[str, tuple[str, ...]] = {}

    def add(
        self, native: str, task: Task, record: Node, *, claim: Claim | None = None, phase: str = ""
    ) -> None:
        """Add a sprint with what its record claims. Needs may also name it by its title."""
        sprint = Sprint(
            native=native,
            stage=self._stage_of(phase),
            task=task,
            claim=claim or sprint_claim(record),
            names=(task.title,) if task.title else (),
            record=record,
        )
        self.sprints.append(sprint)
        self.by_name[native] = sprint  # A sprint's own name wins over another's title.
        for name in (plain_name(native), task.title, plain_name(task.title)):
            self.by_name.setdefault(name, sprint)
        if plain_phase := plain_name(phase):
            self.by_phase[plain_phase] = (*self.by_phase.get(plain_phase, ()), native)

    def _stage_of(self, phase: str) -> str:
        """Return the stage of a sprint: its phase, or a stage for those that no phase lists."""
        if phase or self.by_levels:
            return phase
        if all(stage.native != _OTHERS for stage in self.stages):
            self.stages.append(StageDraft(native=_OTHERS, title="Sprints that no phase lists", needs=()))
        return _OTHERS

    def find(self, name: str) -> Sprint | None:
        """Return the sprint with a name, in any spelling."""
        ways = filter(None, (name, plain_name(name)))
        return next((self.by_name[way] for way in ways if way in self.by_name), None)

    def resolve(self, name: str) -> tuple[str, ...]:
        """Return the native names of the sprints that a name means: one, all of a phase, or none."""
        ways = (name, name.rsplit("/", 1)[-1])
        if sprint := next(filter(None, map(self.find, ways)), None):
            return (sprint.native,)
        if members := next((self.by_phase[way] for way in map(plain_name, ways) if way in self.by_phase), ()):
            return members
        number = _NUMBERED.match(name)
        sprint = self.find(number[1]) if number else None
        return (sprint.native,) if sprint else ()

    def report(self, kind: str, sentence: str) -> None:
        """Add a finding about the epic."""
        self.findings.append(Finding(kind, sentence))


def assemble_epic(model: EpicModel) -> Assembly:
    """Return the plan and the claims. The writer calls this too, to match its sprints."""
    if model.by_levels:
        _set_levels(model)
    sprints = model.sprints
    slots = {TEST_SLOT: 1} if any(sprint.task.slot == TEST_SLOT for sprint in sprints) else {}
    made = assemble(model.title or model.name, model.stages, sprints, limits=model.limits, slots=slots)
    return extra_fields.plan(made, model.extra, model.stage_extra)


def _set_levels(model: EpicModel) -> None:
    """Set the stages of an epic without phases: sprints that wait for nothing, those that wait for them, …"""
    level = levels({each.native: each.task.needs + each.task.needs_interface for each in model.sprints})
    for sprint in model.sprints:
        sprint.stage = f"level-{level[sprint.native]}"
    model.stages = [
        StageDraft(native=f"level-{number}", title=f"Dependency level {number}", needs=())
        for number in range(1, max(level.values(), default=0) + 1)
    ]


def read_epic(root: Node) -> EpicModel:
    """Return the model of an epic file, with every sprint it names."""
    inner = node(root.get("epic"))
    jobs = _JOBS.count(_LIMITS.node(root) or node(inner.get("resource_limits")))
    phases: dict[str, Node] = {}
    for phase, _ in phases_of(root):
        if _objects(phase.get("sprints")):
            phases.setdefault(PHASE_ID.text(phase), phase)
    model = EpicModel(
        name=epic_name(root),
        title=_EPIC_TITLE.text(inner) or _EPIC_TITLE.text(root) or text(root.get("epic")),
        status=_STATUS.text(inner) or _EPIC_STATUS.text(root),
        stages=[_stage(name, phase) for name, phase in phases.items()],
        limits=Limits(jobs=min(jobs, _JOBS_MAX)) if jobs else Limits(),
        by_levels=not phases,
        extra=extra_fields.of(root),
        stage_extra={name: extra_fields.of(phase) for name, phase in phases.items()},
    )
    _add_sprints(model, root, inner)
    elsewhere = _needs_elsewhere(model, root, inner)
    for sprint in model.sprints:
        _set_needs(model, sprint, elsewhere.get(sprint.native, ()))
    _report_prerequisites(model, root, inner)
    return model


def epic_name(root: Node) -> str:
    """Return the epic's id, from any place where files keep it."""
    named = _EPIC_ID.text(node(root.get("epic"))) or _EPIC_ID.text(root) or text(root.get("epic"))
    return named or _EPIC_TITLE.text(root) or NAMELESS


def phases_of(root: Node) -> list[tuple[Node, Node]]:
    """Return the phases of an epic file, each as parsed and as its object in the file."""
    return _objects(root.get("phases") or node(root.get("epic")).get("phases"))


def _add_sprints(model: EpicModel, root: Node, inner: Node) -> None:
    """Add every sprint of a file once. If it has phases but no sprints, each phase counts as a sprint."""
    phases = phases_of(root)
    listed = [(phase, entry) for phase, _ in phases for entry in _objects(phase.get("sprints"))]
    listed += [({}, entry) for entry in _objects(root.get("sprints") or inner.get("sprints"))]
    listed = listed or [({}, phase) for phase in phases]
    names = distinct((SPRINT_ID.text(sprint) for _, (sprint, _) in listed), "sprint")
    for native, (phase, (sprint, original)) in zip(names, listed, strict=True):
        model.add(native, task_of(sprint, phase, inner, root), original, phase=PHASE_ID.text(phase))


def _objects(value: object) -> list[tuple[Node, Node]]:
    """Return the objects of a list or mapping: name, parsed object, object in the file."""
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


def _set_needs(model: EpicModel, sprint: Sprint, elsewhere: tuple[str, ...]) -> None:
    """Set what a sprint waits for, by its own keys and the epic's other parts. Extra fields win."""
    record = sprint.record
    said = [found for key in _NEEDS for found in _named(model, record.get(key), interface=False)]
    said += [found for key in _NEEDS_INTERFACE for found in _named(model, record.get(key), interface=True)]
    landed: dict[str, None] = {}
    interface: dict[str, None] = {}
    for name, by_interface in dict.fromkeys(said):
        meant = model.resolve(name)
        (interface if by_interface else landed).update(dict.fromkeys(meant))
        if not meant:
            what = f"{sprint.native} waits for {name}, which is no sprint of this epic"
            model.report("unknown-need", f"{what}; it does not wait for that.")
    by_interface_only = tuple(name for name in interface if name not in landed)
    landed.update(dict.fromkeys(name for name in elsewhere if name not in by_interface_only))
    needs = {"needs": tuple(landed), "needs_interface": by_interface_only}
    known = extra_fields.of(record)
    sprint.task = replace(sprint.task, **{key: names for key, names in needs.items() if key not in known})


def _named(model: EpicModel, value: object, *, interface: bool) -> Iterator[tuple[str, bool]]:
    """Yield the names in a list, an object of lists, or a single name, and whether an interface is enough."""
    if isinstance(value, dict):
        yield from _grouped(model, value, interface=interface)
        return
    for each in items(value):
        if isinstance(each, dict):
            by_interface = interface or "interface" in each or text(each.get("type")) == "interface"
            if name := _NEED.text(each):
                yield name, by_interface
            else:
                yield from _grouped(model, each, interface=by_interface)
        elif name := text(each):
            yield name, interface


def _grouped(model: EpicModel, groups: Node, *, interface: bool) -> Iterator[tuple[str, bool]]:
    """Read `{sprint: …}` by its keys and `{kind: [names]}` by its values."""
    for key, value in groups.items():
        by_interface = interface or "interface" in key.casefold()
        if model.resolve(key):
            yield key, by_interface or (isinstance(value, dict) and "interface" in value)
        else:
            yield from _named(model, value, interface=by_interface)


def _needs_elsewhere(model: EpicModel, root: Node, inner: Node) -> dict[str, tuple[str, ...]]:
    """Return dependencies that the epic lists for its sprints: `{sprint: [names]}`, or edges from one to another."""
    found: dict[str, tuple[str, ...]] = {}
    for who, name in _edges(root, inner):
        for sprint in model.resolve(who):
            needs = tuple(need for need in model.resolve(name) if need != sprint)
            found[sprint] = (*found.get(sprint, ()), *needs)
    return found


def _edges(root: Node, inner: Node) -> Iterator[tuple[str, str]]:
    for place in (root, inner):
        for who, needs in node(place.get("dependencies")).items():
            yield from ((who, name) for name in texts(needs))
        for edge in items(_EDGES.raw(place)):
            if isinstance(edge, dict):
                yield _EDGE_FROM.text(edge), _EDGE_TO.text(edge)


def _report_prerequisites(model: EpicModel, root: Node, inner: Node) -> None:
    """Report what the epic as a whole requires: nothing here can provide that."""
    wanted = {**node(inner.get("dependencies")), **node(root.get("dependencies"))}
    for group, needs in wanted.items():
        if texts(needs) and not model.resolve(group):
            said = f"The epic takes for granted ({group}): {', '.join(texts(needs))}."
            model.report("prerequisite", said)
