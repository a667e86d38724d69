"""An epic in one model: what every kind of CFN Loop's documents is turned into before it becomes a plan."""

from __future__ import annotations

import re

import msgspec

from holdfast.core.plan import Limits, Task
from holdfast.formats import extra_fields
from holdfast.formats.cfn.sprint import TEST_SLOT, sprint_claim
from holdfast.formats.lenient_json import Node
from holdfast.formats.model import Claim, Finding
from holdfast.formats.plan_assembly import Assembly, StageDraft, TaskDraft, assemble, levels, plain_name

_OTHERS = "other-sprints"
_NUMBERED = re.compile(r"\W*(?:sprint|phase)?[\s_-]*(\d+(?:\.\d+)*)\b", re.IGNORECASE)


class Sprint(TaskDraft, kw_only=True):
    """The draft of a sprint, with its object as it was read, and as it lies in the file, to be changed there."""

    record: Node
    original: Node


class EpicModel(msgspec.Struct, kw_only=True):
    """The epic's names and status, its phases and sprints.

    With `by_levels` it names no phases: stages are dependency levels, and no stage waits for another.
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
    by_other_name: dict[str, Sprint] = {}
    by_phase: dict[str, tuple[str, ...]] = {}

    def add(
        self,
        native: str,
        task: Task,
        record: Node,
        *,
        claim: Claim | None = None,
        phase: str = "",
        original: Node | None = None,
    ) -> None:
        """Add a sprint with what its record claims. Needs may also call it by its title."""
        sprint = Sprint(
            native=native,
            stage=self._stage_of(phase),
            task=task,
            claim=claim or sprint_claim(record),
            names=(task.title,) if task.title else (),
            record=record,
            original=record if original is None else original,
        )
        self.sprints.append(sprint)
        self.by_name[native] = sprint
        for name in (plain_name(native), task.title, plain_name(task.title)):
            self.by_other_name.setdefault(name, sprint)
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
        """Return the sprint of a name, in any way of writing it."""
        ways = (name, plain_name(name) or name)
        found = (self.by_name.get(way) or self.by_other_name.get(way) for way in ways if way)
        return next(filter(None, found), None)

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
    """Return the plan and the claims. The writer asks for the same, to find its sprints again."""
    if model.by_levels:
        _set_levels(model)
    sprints = model.sprints
    slots = {TEST_SLOT: 1} if any(sprint.task.slot == TEST_SLOT for sprint in sprints) else {}
    made = assemble(model.title or model.name, model.stages, sprints, limits=model.limits, slots=slots)
    return extra_fields.plan(made, model.extra, model.stage_extra)


def _set_levels(model: EpicModel) -> None:
    """Set the stages of an epic without phases: the sprints that wait for nobody, those that wait for them, …"""
    level = levels({each.native: each.task.needs + each.task.needs_interface for each in model.sprints})
    for sprint in model.sprints:
        sprint.stage = f"level-{level[sprint.native]}"
    model.stages = [
        StageDraft(native=f"level-{number}", title=f"Dependency level {number}", needs=())
        for number in range(1, max(level.values(), default=0) + 1)
    ]
