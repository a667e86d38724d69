"""Reads the run that a SpecFlow file describes: a state, or a pause, specification or STATE.md.

Contradictions between these files are only reported to the user.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from holdfast.core.plan import Task
from holdfast.formats import markdown
from holdfast.formats.contradictions import done_with_unfinished_parts, unknown_words, unreadable
from holdfast.formats.lenient_json import (
    BrokenFileError,
    Node,
    commits,
    node,
    nodes,
    parse_object,
    text,
    truncated_object,
)
from holdfast.formats.model import SETTLED, Claim, ClaimedStatus, Finding, ForeignRun
from holdfast.formats.plan_assembly import Assembly, StageDraft, TaskDraft, assemble
from holdfast.formats.registry import System
from holdfast.formats.specflow import layout
from holdfast.formats.specflow.specification import parse_spec
from holdfast.formats.specflow.state import Group, ParsedState, is_state, parse_state, spec_id
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
    """Return the run that the documents describe."""
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
    """Return the run that a state file describes, together with the files around it."""
    name = spec_id(document, main)
    parsed = parse_state(name, document, documents, main)
    known = {commit for claim in parsed.made.claims for commit in claim.commits}
    findings = (*_in_state(document, parsed), *_in_other_files(main, name, parsed, documents))
    unclaimed = tuple(commit for commit in commits(document.get("commits")) if commit not in known)
    return parsed.made.as_run(System.SPECFLOW, name, main, documents, findings, commits=unclaimed)


def _read_pause(main: str, documents: Mapping[str, bytes]) -> ForeignRun:
    """Return the run that `.continue-here` points at: its state, or what the pause itself says."""
    pause = parse_object(main, documents[main])
    name = text(pause.get("spec_id"))
    if not name:
        raise BrokenFileError(f"{main}: it names no specification", _IDLE_HINT)
    known = {"commits": pause.get("commits_completed")}
    return _read_by_name(name, main, documents, known, text(pause.get("state_file")))


def _read_pause_note(main: str, documents: Mapping[str, bytes]) -> ForeignRun:
    """Return the run that the note of a pause in single mode describes."""
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
    """Return a specification that has no state: every group is open, unless the whole is marked done."""
    spec = parse_spec(markdown.decoded(documents[main]))
    name = spec.id or layout.spec_in(main) or "SPEC"
    return _read_by_name(name, main, documents, {"status": spec.status})


def _read_broken(main: str, documents: Mapping[str, bytes], error: BrokenFileError) -> ForeignRun:
    """Return the run of a truncated state: from its readable part, else from its specification.

    Raises the error if there is neither. The rest of the state is unknown, so the run counts as unfinished.
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
    """Return the run of a specification from its state if that is complete, else from what is known."""
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


def _in_state(document: Node, parsed: ParsedState) -> Iterator[Finding]:
    """Yield contradictions and gaps of a state: of each group, each wave, and the run."""
    claim_of = {claim.task: claim for claim in parsed.made.claims}
    yield from unknown_words(claim_of[task] for task in parsed.groups)
    unfinished: dict[str, list[str]] = {}
    for task, group in parsed.groups.items():
        claim = claim_of[task]
        yield from _in_group(group, claim)
        if claim.standing not in SETTLED:
            unfinished.setdefault(group.wave.name, []).append(task)
    for wave in {group.wave.name: group.wave for group in parsed.groups.values()}.values():
        yield from done_with_unfinished_parts(wave.name, wave.said, unfinished.get(wave.name, ()))
    open_groups = [task for tasks in unfinished.values() for task in tasks]
    yield from done_with_unfinished_parts("The run", text(document.get("status")), open_groups)
    if not document.get("waves") and document.get("mode") != "single":
        said = "The state has no waves. Its groups come from the specification, or it counts as one group."
        yield Finding("drifted", said)


def _in_group(group: Group, claim: Claim) -> Iterator[Finding]:
    task = claim.task
    if not group.listed:
        said = f"`{task}` is in the specification but in no wave of the state; it counts as not begun."
        yield Finding("missing-group", said, task)
    if claim.said == "partial":
        said = f"`{task}` was done in part; the run continues it."
        yield Finding("partial", said, task)


def _in_other_files(
    main: str, name: str, parsed: ParsedState, documents: Mapping[str, bytes]
) -> Iterator[Finding]:
    """Yield findings from the files around the state: a lock, a pause, a specification that differs."""
    made, spec = parsed.made, parsed.spec
    here = layout.prefix_of(main)
    if lock := documents.get(here + layout.LOCK):
        holder = markdown.decoded(lock).strip()[:40] or "unknown"
        said = f"{layout.LOCK} is there (process {holder}): check that SpecFlow is not at work any more."
        yield Finding("locked", said)
    yield from _pause(name, made, documents.get(here + layout.CONTINUE))
    is_done = all(claim.standing in SETTLED for claim in made.claims)
    if spec and claimed_status(spec.status) is ClaimedStatus.DONE and not is_done:
        said = f"The specification is marked {spec.status}, but its state is not: the state may be stale."
        yield Finding("copies-differ", said)
    yield from _status_row(name, documents.get(here + layout.STATE_MD), is_done=is_done)


def _pause(name: str, made: Assembly, data: bytes | None) -> Iterator[Finding]:
    """Report where the run was paused, by `.continue-here`, if that is about this run."""
    if data is None:
        return
    try:
        pause = parse_object(layout.CONTINUE, data)
    except BrokenFileError as error:
        yield unreadable(error)
        return
    if text(pause.get("spec_id")) not in ("", name):
        return
    at = node(pause.get("paused_at"))
    group, wave = text(at.get("group")), text(at.get("wave"))
    said = f"The run was paused on purpose at wave {wave or '?'}, group {group or '?'}."
    yield Finding("paused", said)
    if group and group not in made.ids:
        yield Finding("unknown-task", f"It was paused at group {group}, which is in no wave.")
    known = {commit for claim in made.claims for commit in claim.commits}
    extra = [commit for commit in commits(pause.get("commits_completed")) if commit not in known]
    if extra:
        said = f"{layout.CONTINUE} names commits that no group has: {', '.join(extra)}."
        yield Finding("copies-differ", said)


def _status_row(name: str, data: bytes | None, *, is_done: bool) -> Iterator[Finding]:
    """Report where the execution table of STATE.md differs."""
    for table in markdown.tables(markdown.decoded(data or b"")):
        for spec, progress in table.select(("spec id", "spec"), ("progress",)):
            if spec == name and progress and (progress.casefold() == "complete") is not is_done:
                said = f"STATE.md says `{progress}` of {name}, but its state says otherwise."
                yield Finding("copies-differ", said)
