"""A SpecFlow run that is known from something other than its state: a pause, a specification, or STATE.md."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec.structs import replace

from holdfast.core.plan import Task
from holdfast.formats import lenient_json, markdown
from holdfast.formats.lenient_json import BrokenFileError, Node, truncated_object
from holdfast.formats.model import SETTLED, Claim, Finding, ForeignRun
from holdfast.formats.plan_assembly import StageDraft, TaskDraft, assemble
from holdfast.formats.registry import System
from holdfast.formats.specflow import layout
from holdfast.formats.specflow.specification import parse_spec
from holdfast.formats.specflow.state import read_state
from holdfast.formats.status_words import claimed_status

_NONE = ("", "none", "—", "-", "n/a")
_IDLE_HINT = "Name a specification or a state file, such as .specflow/execution/SPEC-001-state.json."


def is_position(path: str, text: str) -> bool:
    """Tell whether a text is STATE.md, by its name or by the position that it tells."""
    return path.endswith(layout.STATE_MD) or "**Active Specification:**" in text


def is_specification(path: str, text: str) -> bool:
    """Tell whether a text is a specification, by where it lies or by its id and its groups."""
    if layout.is_spec(path):
        return True
    spec = parse_spec(text)
    return spec.id.startswith("SPEC-") and bool(spec.groups)


def read_pause(main: str, documents: Mapping[str, bytes]) -> ForeignRun:
    """Return the run that `.continue-here` points at: its state, or what the pause itself knows."""
    pause = lenient_json.parse_object(main, documents[main])
    name = lenient_json.text(pause.get("spec_id"))
    if not name:
        raise BrokenFileError(f"{main}: it names no specification", _IDLE_HINT)
    known = {"spec_id": name, "mode": "single", "commits": pause.get("commits_completed")}
    return _run_of_spec(name, lenient_json.text(pause.get("state_file")), known, main, documents)


def read_session(main: str, documents: Mapping[str, bytes]) -> ForeignRun:
    """Return the run that the note of a pause in single mode tells of."""
    text = markdown.decoded(documents[main])
    name = _named(markdown.value(text, "Specification"))
    if not name:
        raise BrokenFileError(f"{main}: no specification was under way", _IDLE_HINT)
    run = _run_of_spec(name, "", {"spec_id": name, "mode": "single"}, main, documents)
    note = markdown.section(text, "Notes")
    told = Finding(
        kind="paused",
        sentence=f"The work was paused on purpose. {note.splitlines()[0] if note else ''}".strip(),
    )
    return replace(run, findings=(told, *run.findings))


def read_position(main: str, documents: Mapping[str, bytes]) -> ForeignRun:
    """Return what STATE.md says is under way, else the specifications in its queue."""
    text = markdown.decoded(documents[main])
    if name := _named(markdown.value(text, "Active Specification")):
        return _run_of_spec(name, "", {"spec_id": name, "mode": "single"}, main, documents)
    queued = _queue(text)
    if not queued:
        raise BrokenFileError(f"{main}: nothing is under way and nothing is queued", _IDLE_HINT)
    made = assemble("The queue of specifications", [StageDraft(native="queue")], queued)
    return ForeignRun(
        system=System.SPECFLOW,
        name="queue",
        plan=made.plan,
        claims=made.claims,
        finished=all(claim.standing in SETTLED for claim in made.claims),
        findings=made.findings,
        main=main,
        documents=dict(documents),
    )


def read_specification(main: str, documents: Mapping[str, bytes]) -> ForeignRun:
    """Return a specification that has no state: every group is yet to be done, unless it is marked done."""
    spec = parse_spec(markdown.decoded(documents[main]))
    name = spec.id or layout.spec_in(main) or "SPEC"
    return _run_of_spec(name, "", {"spec_id": name, "mode": "single", "status": spec.status}, main, documents)


def read_without_state(main: str, documents: Mapping[str, bytes], error: BrokenFileError) -> ForeignRun:
    """Return the run of a state that breaks off: from its whole part, else from its specification. Raises the error."""
    state = truncated_object(documents[main])
    if not lenient_json.nodes(state.get("waves")):
        return _from_specification(main, documents, error)
    run = read_state(main, state, documents)
    told = Finding(kind="salvaged", sentence=f"{error.message}. What stands before that is used.")
    # What came after the break may have been unfinished: nobody can call the whole run done.
    return replace(run, findings=(told, *run.findings), finished=False)


def _from_specification(main: str, documents: Mapping[str, bytes], error: BrokenFileError) -> ForeignRun:
    """Return the run of a broken state from its specification. Raises the error if that is not there either."""
    name = layout.spec_in(main)
    specs = [path for path in documents if layout.is_spec(path) and layout.spec_in(path) == name]
    if not specs:
        raise error
    run = read_specification(specs[0], {path: data for path, data in documents.items() if path != main})
    told = Finding(kind="unreadable", sentence=f"{error.message}. Its groups were taken from {specs[0]}.")
    kept = (finding for finding in run.findings if finding.kind != "state-missing")
    return replace(run, findings=(told, *kept), main=main, documents=dict(documents))


def _run_of_spec(
    name: str, state_file: str, known: Node, main: str, documents: Mapping[str, bytes]
) -> ForeignRun:
    """Return the run of a specification from its state if that is there and whole, else from what is known."""
    here = layout.prefix_of(main)
    for path in (here + state_file, here + layout.state_path(name)):
        if path in documents and layout.is_execution(path):
            try:
                return read_state(path, lenient_json.parse_object(path, documents[path]), documents)
            except BrokenFileError as error:
                told = Finding(kind="unreadable", sentence=error.message)
                run = read_state(main, known, documents)
                return replace(run, findings=(told, *run.findings))
    told = Finding(
        kind="state-missing", sentence=f"There is no state of {name}; nothing of it counts as done."
    )
    run = read_state(main, known, documents)
    return replace(run, findings=(told, *run.findings))


def _named(said: str) -> str:
    """Return the specification that a line begins with: `SPEC-001 (its title)`."""
    found = re.match(r"[A-Za-z0-9][\w.-]*", said)
    return found[0] if found and found[0].casefold() not in _NONE else ""


def _queue(text: str) -> list[TaskDraft]:
    drafts = []
    for table in markdown.tables(markdown.section(text, "Queue")):
        place, title, status = table.column("id", "spec id"), table.column("title"), table.column("status")
        for row in table.rows:
            cells = [row.cells[at] if 0 <= at < len(row.cells) else "" for at in (place, title, status)]
            if cells[0] not in _NONE:
                drafts.append(_queued(*cells))
    return drafts


def _queued(name: str, title: str, status: str) -> TaskDraft:
    task = Task(id="", title=title, prompt=f"Carry out the specification {name}: {title}")
    claim = Claim(task="", standing=claimed_status(status), said=status)
    return TaskDraft(native=name, stage="queue", task=task, claim=claim)
