"""Which run a SpecFlow file tells of: a state, or a pause, a specification or STATE.md that leads to one."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from holdfast.core.plan import Task
from holdfast.formats import markdown
from holdfast.formats.contradictions import unreadable
from holdfast.formats.lenient_json import (
    BrokenFileError,
    Node,
    commits,
    nodes,
    parse_object,
    text,
    truncated_object,
)
from holdfast.formats.model import Claim, Finding, ForeignRun
from holdfast.formats.plan_assembly import StageDraft, TaskDraft, assemble
from holdfast.formats.registry import System
from holdfast.formats.specflow import contradictions, layout
from holdfast.formats.specflow.specification import parse_spec
from holdfast.formats.specflow.state import is_state, parse_state, spec_id
from holdfast.formats.status_words import claimed_status

_NONE = ("", "none", "—", "-", "n/a")
_IDLE_HINT = "Name a specification or a state file, such as .specflow/execution/SPEC-001-state.json."


def recognises(path: str, data: bytes) -> bool:
    """Tell whether a file is SpecFlow's: by its content, or by its place if it is broken."""
    name = posixpath.basename(path)
    if name.startswith("._"):
        return False
    if layout.is_pause(path) or layout.is_pause_note(path):
        return True
    if name.endswith(".md"):
        content = markdown.decoded(data)
        return _is_state_md(path, content) or _is_specification(path, content)
    if not name.endswith(".json"):
        return False
    try:
        return is_state(parse_object(path, data))
    except BrokenFileError:
        return layout.is_execution(path)


def _is_state_md(path: str, content: str) -> bool:
    return path.endswith(layout.STATE_MD) or "**Active Specification:**" in content


def _is_specification(path: str, content: str) -> bool:
    if layout.is_spec(path):
        return True
    spec = parse_spec(content)
    return spec.id.startswith("SPEC-") and bool(spec.groups)


def read(main: str, documents: Mapping[str, bytes]) -> ForeignRun:
    """Return the run that the documents tell of."""
    if layout.is_pause(main):
        return _read_pause(main, documents)
    if layout.is_pause_note(main):
        return _read_pause_note(main, documents)
    if main.endswith(".md"):
        is_state_md = _is_state_md(main, markdown.decoded(documents[main]))
        return _read_state_md(main, documents) if is_state_md else _read_specification(main, documents)
    try:
        document = parse_object(main, documents[main])
    except BrokenFileError as error:
        return _read_broken(main, documents, error)
    return _read_state(main, document, documents)


def _read_state(main: str, document: Node, documents: Mapping[str, bytes]) -> ForeignRun:
    """Return the run that a state file tells of, together with the files around it."""
    name = spec_id(document, main)
    parsed = parse_state(name, document, documents, main)
    made = parsed.made
    claims = {claim.task: claim for claim in made.claims}
    known = {commit for claim in made.claims for commit in claim.commits}
    findings = (
        *contradictions.in_state(document, parsed.groups, [claims[task] for task in made.ids]),
        *contradictions.with_other_files(main, name, made, parsed.spec, documents),
    )
    unclaimed = tuple(commit for commit in commits(document.get("commits")) if commit not in known)
    return made.as_run(System.SPECFLOW, name, main, documents, findings, commits=unclaimed)


def _read_pause(main: str, documents: Mapping[str, bytes]) -> ForeignRun:
    """Return the run that `.continue-here` points at: its state, or what the pause itself knows."""
    pause = parse_object(main, documents[main])
    name = text(pause.get("spec_id"))
    if not name:
        raise BrokenFileError(f"{main}: it names no specification", _IDLE_HINT)
    known = {"commits": pause.get("commits_completed")}
    return _read_by_name(name, main, documents, known, text(pause.get("state_file")))


def _read_pause_note(main: str, documents: Mapping[str, bytes]) -> ForeignRun:
    """Return the run that the note of a pause in single mode tells of."""
    content = markdown.decoded(documents[main])
    name = _spec_named(markdown.value(content, "Specification"))
    if not name:
        raise BrokenFileError(f"{main}: no specification was in progress", _IDLE_HINT)
    note = markdown.section(content, "Notes")
    said = f"The work was paused on purpose. {note.splitlines()[0] if note else ''}".strip()
    return _with_finding(_read_by_name(name, main, documents), Finding("paused", said))


def _read_state_md(main: str, documents: Mapping[str, bytes]) -> ForeignRun:
    """Return the run that STATE.md calls active, else the specifications in its queue."""
    content = markdown.decoded(documents[main])
    if name := _spec_named(markdown.value(content, "Active Specification")):
        return _read_by_name(name, main, documents)
    queued = list(_queue(content))
    if not queued:
        raise BrokenFileError(f"{main}: nothing is under way and nothing is queued", _IDLE_HINT)
    made = assemble("The queue of specifications", [StageDraft(native="queue")], queued)
    return made.as_run(System.SPECFLOW, "queue", main, documents)


def _read_specification(main: str, documents: Mapping[str, bytes]) -> ForeignRun:
    """Return a specification that has no state: every group is still to do, unless the whole is marked done."""
    spec = parse_spec(markdown.decoded(documents[main]))
    name = spec.id or layout.spec_in(main) or "SPEC"
    return _read_by_name(name, main, documents, {"status": spec.status})


def _read_broken(main: str, documents: Mapping[str, bytes], error: BrokenFileError) -> ForeignRun:
    """Return the run of a state that breaks off: from its readable part, else from its specification.

    Raises the error if there is neither. Nobody knows what came after the break: the run is not finished.
    """
    state = truncated_object(documents[main])
    if nodes(state.get("waves")):
        run = _read_state(main, state, documents)
        said = f"{error.message}. The part before that is used."
        return replace(_with_finding(run, Finding("salvaged", said)), finished=False)
    name = layout.spec_in(main)
    spec = next((path for path in documents if layout.is_spec(path, name)), None) if name else None
    if spec is None:
        raise error
    run = _read_specification(spec, {path: data for path, data in documents.items() if path != main})
    known = tuple(finding for finding in run.findings if finding.kind != "state-missing")
    finding = Finding("unreadable", f"{error.message}. Its groups come from {spec}.")
    return replace(run, findings=(finding, *known), main=main, documents=dict(documents))


def _read_by_name(
    name: str, main: str, documents: Mapping[str, bytes], known: Node | None = None, state_file: str = ""
) -> ForeignRun:
    """Return the run of a specification from its state if that is there and whole, else from what is known."""
    here = layout.prefix_of(main)
    places = (here + state_file, here + layout.state_path(name))
    path = next((path for path in places if path in documents and layout.is_execution(path)), "")
    said = f"There is no state of {name}; nothing of it counts as done."
    finding = Finding("state-missing", said)
    if path:
        try:
            return _read_state(path, parse_object(path, documents[path]), documents)
        except BrokenFileError as error:
            finding = unreadable(error)
    state = {"spec_id": name, "mode": "single", **(known or {})}
    return _with_finding(_read_state(main, state, documents), finding)


def _with_finding(run: ForeignRun, finding: Finding) -> ForeignRun:
    return replace(run, findings=(finding, *run.findings))


def _spec_named(said: str) -> str:
    """Return the specification that a line begins with: `SPEC-001 (its title)`."""
    found = re.match(r"[A-Za-z0-9][\w.-]*", said)
    return found[0] if found and found[0].casefold() not in _NONE else ""


def _queue(content: str) -> Iterator[TaskDraft]:
    for table in markdown.tables(markdown.section(content, "Queue")):
        for name, title, status in table.select(("id", "spec id"), ("title",), ("status",)):
            if name not in _NONE:
                task = Task(id="", title=title, prompt=f"Carry out the specification {name}: {title}")
                claim = Claim(task="", standing=claimed_status(status), said=status)
                yield TaskDraft(native=name, stage="queue", task=task, claim=claim)
