"""An epic on one sheet: what every kind of CFN Loop's documents is turned into before it becomes a plan."""

from __future__ import annotations

import msgspec

from holdfast.core.plan import Limits
from holdfast.formats.lenient_json import Node
from holdfast.formats.model import Finding
from holdfast.formats.plan_assembly import StageDraft, TaskDraft, acyclic, in_order, plain_name

_OTHERS = "other-sprints"


class EpicModel(msgspec.Struct, kw_only=True):
    """The epic's names and status, its phases and sprints. `nodes` are the objects of the sprints, in order, and
    `own` the same as they lie in an epic file, so that they can be written to.

    `leveled` says that it names no phases, so that stages are dependency levels, which hold nobody back.
    """

    name: str
    title: str = ""
    status: str = ""
    stages: list[StageDraft] = []
    drafts: list[TaskDraft] = []
    nodes: list[Node] = []
    own: list[Node] = []
    findings: list[Finding] = []
    limits: Limits = Limits()
    leveled: bool = False
    note: Node = {}
    stage_notes: dict[str, Node] = {}

    def home(self, phase: str) -> str:
        """Return the stage of a sprint: its phase, or one for those that no phase of an epic with phases lists."""
        if phase or self.leveled:
            return phase
        if all(stage.native != _OTHERS for stage in self.stages):
            self.stages.append(StageDraft(native=_OTHERS, title="Sprints that no phase lists", needs=()))
        return _OTHERS


class SprintIndex:
    """The sprints of a sheet by every way of writing their names, made once."""

    def __init__(self, sheet: EpicModel) -> None:
        self._by_name: dict[str, TaskDraft] = {draft.native: draft for draft in sheet.drafts}
        for draft in sheet.drafts:
            for way in (plain_name(draft.native), draft.task.title, plain_name(draft.task.title)):
                if way:
                    self._by_name.setdefault(way, draft)

    def find(self, name: str) -> TaskDraft | None:
        """Return the sprint of a name, however it is written."""
        return self._by_name.get(name) or self._by_name.get(plain_name(name) or name)


def fill_in_levels(sheet: EpicModel) -> EpicModel:
    """Fill in the stages of a sheet without phases: the sprints that wait for nobody, those that wait for them, …

    A level waits for no other as a whole: each sprint starts as soon as its own needs allow.
    """
    if not sheet.leveled:
        return sheet
    known = {draft.native for draft in sheet.drafts}
    wanted = {
        draft.native: tuple(need for need in draft.task.needs + draft.task.needs_interface if need in known)
        for draft in sheet.drafts
    }
    edges, _ = acyclic(wanted)
    level: dict[str, int] = {}
    for name in in_order(edges):
        level[name] = max((level[need] + 1 for need in edges[name]), default=1)
    for draft in sheet.drafts:
        draft.stage = f"level-{level[draft.native]}"
    numbers = range(1, max(level.values(), default=0) + 1)
    sheet.stages = [StageDraft(native=f"level-{n}", title=f"Dependency level {n}", needs=()) for n in numbers]
    return sheet
