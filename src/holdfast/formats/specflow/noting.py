"""Adding to a SpecFlow state what it has no words for: it is read as anybody would, and the difference is noted."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.core.plan import Stage
from holdfast.formats import loose, notes
from holdfast.formats.drafts import Assembly
from holdfast.formats.loose import Node
from holdfast.formats.model import RunView
from holdfast.formats.rows import claim_of
from holdfast.formats.specflow import layout
from holdfast.formats.specflow.document import Group, groups_of
from holdfast.formats.specflow.read import assembled, spec_of

_NOT_BEGUN = {"status": "pending"}


def add_notes(view: RunView, name: str, state: Node, documents: Mapping[str, bytes]) -> None:
    """Note what would be read differently. The state's waves are the run's stages, in order."""
    for entry, stage in zip(state["waves"], view.plan.stages, strict=True):
        if f"wave-{loose.text(entry.get('id'))}" != stage.id:
            entry[notes.KEY] = {"id": stage.id}
    spec = spec_of(name, layout.state_path(name), documents)
    groups = groups_of(state, spec)
    read = assembled(name, state, spec, groups)
    _note_groups(view, groups, read)
    for entry, stage in zip(state["waves"], view.plan.stages, strict=True):
        _note_wave(entry, stage, {each.id: each for each in read.plan.stages})
    if about := notes.about_plan(read.plan, view.plan):
        state[notes.KEY] = about


def _note_groups(view: RunView, groups: list[Group], read: Assembly) -> None:
    tasks = {task.id: task for _, task in read.plan.tasks()}
    wanted = {task.id: task for _, task in view.plan.tasks()}
    claims = {claim.task: claim for claim in read.claims}
    for group, task in zip(groups, read.ids, strict=True):
        if task not in wanted or not group.wave.entry:
            continue
        note = notes.about_task(tasks[task], wanted[task]) | notes.about_claim(
            claims[task], claim_of(view, task)
        )
        if note:
            group.wave.entry["results"][group.name] = group.entry | {notes.KEY: note}


def _note_wave(entry: Node, stage: Stage, read: Mapping[str, Stage]) -> None:
    """Note what a wave is as a stage, and leave out the results of groups of which there is nothing to say."""
    about = notes.about_stage(read[stage.id], stage) if stage.id in read else {}
    if about:
        entry[notes.KEY] = notes.of(entry) | {"stage": about}
    entry["results"] = {name: result for name, result in entry["results"].items() if result != _NOT_BEGUN}
