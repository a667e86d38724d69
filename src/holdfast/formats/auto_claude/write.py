"""From a run of ours to the files of a spec, at their native places, state before what is derived from it."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from holdfast.formats import notes
from holdfast.formats.auto_claude import layout
from holdfast.formats.auto_claude.documents import Papers, sort_out
from holdfast.formats.auto_claude.layout import Kind
from holdfast.formats.auto_claude.memory_document import write_commits, write_history
from holdfast.formats.auto_claude.phases import phases_of
from holdfast.formats.auto_claude.plan_document import write_plan
from holdfast.formats.auto_claude.read import read
from holdfast.formats.auto_claude.status_document import progress_notes, spec_text, write_status
from holdfast.formats.loose import Node, to_json
from holdfast.formats.model import Claim, NativeFile, RunView
from holdfast.formats.rows import claim_of


def write(view: RunView, originals: Mapping[str, bytes]) -> list[NativeFile]:
    """Return the files of a run's spec. Adopted documents are edited; keys that nobody here knows stay."""
    papers = sort_out("", originals)
    document = papers.plan if papers.plan is not None else {}
    claims = _claims(view, document)
    write_plan(view, document, claims)
    name = layout.native_name(view.name)
    folder = f"{layout.SPECS}/{name}"
    state = {
        f"{folder}/{layout.PLAN}": document,
        f"{folder}/{layout.ATTEMPTS}": write_history(view, papers.nodes.get(Kind.ATTEMPTS, {}), claims),
        f"{folder}/{layout.COMMITS}": write_commits(view, papers.nodes.get(Kind.COMMITS, {}), claims),
        layout.STATUS: write_status(view, name, papers.nodes.get(Kind.STATUS, {}), claims),
    }
    _add_notes(view, document, state, f"{folder}/{layout.PLAN}")
    files = [NativeFile(path=path, content=to_json(node)) for path, node in state.items()]
    return [*files, *_words(view, folder, papers, claims)]


def _claims(view: RunView, document: Node) -> dict[str, Claim]:
    """Return what the run says of each task, under the name that the task has over there."""
    natives = {part.id: part.native for phase in phases_of(document) for part in phase.parts}
    return {
        task.id: replace(claim_of(view, task.id), native=natives.get(task.id, task.id))
        for _, task in view.plan.tasks()
    }


def _add_notes(view: RunView, document: Node, state: Mapping[str, Node], main: str) -> None:
    """Read the files as anybody would, and note in the plan what would come out differently."""
    again = read(main, {path: to_json(node) for path, node in state.items()})
    about = notes.beyond(view, again.plan, again.claims)
    for phase in phases_of(document):
        phase.node.update(notes.carried(about.stages.get(phase.id, {})))
        for part in phase.parts:
            part.node.update(notes.carried(about.tasks.get(part.id, {})))
    # A plan without phases is itself the phase of all its parts: what is said of both stands in one note.
    document |= notes.carried(notes.of(document) | about.plan)


def _words(view: RunView, folder: str, papers: Papers, claims: Mapping[str, Claim]) -> list[NativeFile]:
    """Return the files that people read; a spec that exists is theirs and is not written."""
    told = progress_notes(view, claims, papers.texts.get(Kind.PROGRESS, ""))
    files = [NativeFile(path=f"{folder}/{layout.PROGRESS}", content=told.encode())]
    if Kind.SPEC not in papers.texts:
        files.insert(0, NativeFile(path=f"{folder}/{layout.SPEC}", content=spec_text(view).encode()))
    return files
