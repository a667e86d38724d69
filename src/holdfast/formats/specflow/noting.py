"""Adding to a SpecFlow state what it has no words for: it is read as anybody would, and the difference is noted."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.formats import loose, notes
from holdfast.formats.loose import Node
from holdfast.formats.model import RunView
from holdfast.formats.specflow import layout
from holdfast.formats.specflow.document import groups_of
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
    about = notes.beyond(view, read.plan, read.claims)
    for group, task in zip(groups, read.ids, strict=True):
        if group.wave.entry and (note := about.tasks.get(task)):
            group.wave.entry["results"][group.name] = group.entry | notes.carried(note)
    for entry, stage in zip(state["waves"], view.plan.stages, strict=True):
        _note_wave(entry, about.stages[stage.id])
    state |= notes.carried(about.plan)


def _note_wave(entry: Node, about: Node) -> None:
    """Note what a wave is as a stage, and leave out the results of groups of which there is nothing to say."""
    if about:
        entry[notes.KEY] = notes.of(entry) | {"stage": about}
    entry["results"] = {name: result for name, result in entry["results"].items() if result != _NOT_BEGUN}
