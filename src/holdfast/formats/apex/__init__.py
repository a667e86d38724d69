"""APEX, both ways: `state.json`, its links and outputs; `00-context.md` of the wider family; `docs/backlog.yaml`."""

from __future__ import annotations

import glob
import posixpath
from collections.abc import Mapping

from holdfast.formats import lenient_json, markdown
from holdfast.formats.apex import layout
from holdfast.formats.apex.backlog import has_stories, read_backlog, write_backlog
from holdfast.formats.apex.context_file import is_context, read_context, write_context
from holdfast.formats.apex.layout import PLACES as PLACES, TRACES as TRACES
from holdfast.formats.apex.phase_outputs import read_from_outputs
from holdfast.formats.apex.phases import is_state, phases_of
from holdfast.formats.apex.state import (
    TaskLine as TaskLine,
    list_tasks as list_tasks,
    name_of,
    read_state,
    tasks_as_text as tasks_as_text,
)
from holdfast.formats.apex.write import write_state
from holdfast.formats.lenient_json import BrokenFileError, Node
from holdfast.formats.model import ExportedRun, ForeignFormat, ForeignRun, NativeFile
from holdfast.formats.plan_assembly import task_ids


def recognises(path: str, data: bytes) -> bool:
    """Tell whether a file is a state of APEX: by the lists it holds, its progress table, or where it lies."""
    name = posixpath.basename(path)
    if name.startswith("._"):
        return False
    if layout.is_backlog(path):
        return has_stories(data)
    if name.endswith(".md"):
        return layout.is_output(path) or is_context(path, markdown.decoded(data))
    if not name.endswith(".json"):
        return False
    try:
        return is_state(lenient_json.parse_object(path, data))
    except BrokenFileError:
        return layout.is_state(path)


def companions(main: str) -> tuple[str, ...]:
    """Return the patterns of what belongs to a state: the outputs of its phases beside it."""
    if layout.is_backlog(main):
        return ()
    if layout.is_link(main):
        task = layout.task_in(main)
        home = glob.escape(layout.home_of(task)) + "*" if task else layout.home_of("*")
        return (f"{home}/{layout.STATE}", f"{home}/*.md") if task else (f"{home}/*.md",)
    home = glob.escape(layout.home_in(main))
    return tuple(posixpath.join(home, name) for name in (layout.STATE, "*.md"))


def read(main: str, documents: Mapping[str, bytes]) -> ForeignRun:
    """Return the run that the documents tell of; a broken or missing state is rebuilt from its phases' outputs."""
    if layout.is_backlog(main):
        return read_backlog(main, documents)
    if main.endswith(".md"):
        return _read_markdown(main, documents)
    try:
        document = lenient_json.parse_object(main, documents[main])
    except BrokenFileError as error:
        return _salvaged(main, documents, error.message)
    if not phases_of(document):
        return _salvaged(main, documents, f"{main}: there is no phase in it")
    return read_state(main, document, documents)


def _read_markdown(main: str, documents: Mapping[str, bytes]) -> ForeignRun:
    """Return the run that a Markdown file belongs to: its state beside it is better than any of them."""
    state = posixpath.join(layout.home_in(main), layout.STATE)
    if state in documents:
        return read(state, documents)
    if is_context(main, markdown.decoded(documents[main])):
        return read_context(main, documents)
    return _salvaged(main, documents, f"{state} is missing")


def _salvaged(main: str, documents: Mapping[str, bytes], why: str) -> ForeignRun:
    context = posixpath.join(layout.home_in(main), layout.CONTEXT)
    if context in documents and is_context(context, markdown.decoded(documents[context])):
        return read_context(context, documents)
    return read_from_outputs(main, documents, why)


def write(view: ExportedRun, originals: Mapping[str, bytes]) -> list[NativeFile]:
    """Return the native files of a run: in the form that it was adopted from, else as a state with its links."""
    states = {path: found for path in originals if (found := _state_in(path, originals[path]))}
    if not states and (path := next(iter(_contexts(originals)), "")):
        return [write_context(view, path, markdown.decoded(originals[path]))]
    backlog, *others = originals or [""]
    if layout.is_backlog(backlog) and not others:
        return write_backlog(view, backlog, originals[backlog])
    main = next((path for path, state in states.items() if name_of(state, path) == view.name), "")
    home = layout.home_in(main)
    if not home or layout.is_link(main):
        home = layout.home_of(task_ids([view.name])[0])
    return write_state(view, home, states.get(main, {}), originals)


def _contexts(originals: Mapping[str, bytes]) -> list[str]:
    return [path for path, data in originals.items() if is_context(path, markdown.decoded(data))]


def _state_in(path: str, data: bytes) -> Node | None:
    """Return the state that a file holds, if it holds one."""
    found = lenient_json.object_in(path, data) if path.endswith(".json") else {}
    return found if is_state(found) and phases_of(found) else None


FORMAT = ForeignFormat(
    title="APEX",
    places=PLACES,
    traces=TRACES,
    recognises=recognises,
    companions=companions,
    read=read,
    write=write,
    list_runs=lambda states: tasks_as_text(list_tasks(states)),
)
