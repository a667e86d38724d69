"""Reads the run that an APEX file describes: a state, a context file, a backlog, or outputs of phases."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping

from holdfast.formats.apex import layout
from holdfast.formats.apex.backlog import has_stories, read_backlog
from holdfast.formats.apex.context_file import is_context, read_context
from holdfast.formats.apex.phase_outputs import rebuild_run
from holdfast.formats.apex.phases import is_state, phases_of
from holdfast.formats.apex.state import read_state
from holdfast.formats.lenient_json import BrokenFileError, Node, beginning, parse_object
from holdfast.formats.model import ForeignRun


def recognises(path: str, data: bytes) -> bool:
    """Tell whether a file is a state of APEX: by its lists, its progress table, or its place."""
    name = posixpath.basename(path)
    if name.startswith("._"):
        return False
    if layout.is_backlog(path):
        return has_stories(data)
    if name.endswith(".md"):
        return layout.is_output(path) or is_context(path, data)
    if not name.endswith(".json"):
        return False
    try:
        return is_state(parse_object(path, data))
    except BrokenFileError:
        return layout.is_state(path)


def read(main: str, documents: Mapping[str, bytes]) -> ForeignRun:
    """Return the run that the documents describe. A state beside a Markdown file wins over that file."""
    if layout.is_backlog(main):
        return read_backlog(main, documents)
    if main.endswith(".md"):
        state = posixpath.join(posixpath.dirname(main), layout.STATE)
        if state in documents:
            return read(state, documents)
        if is_context(main, documents[main]):
            return read_context(main, documents)
        return _read_without_state(main, documents, f"{state} is missing")
    try:
        document = parse_object(main, documents[main])
    except BrokenFileError as error:
        return _read_without_state(main, documents, error.message, beginning(documents[main]))
    if not phases_of(document):
        return _read_without_state(main, documents, f"{main}: there is no phase in it", document)
    return read_state(main, document, documents)


def _read_without_state(
    main: str, documents: Mapping[str, bytes], why: str, part: Node | None = None
) -> ForeignRun:
    """Return the run without a whole state: from its context file, else from what is left of the state and the outputs."""
    context = posixpath.join(posixpath.dirname(main), layout.CONTEXT)
    if context in documents and is_context(context, documents[context]):
        return read_context(context, documents)
    return rebuild_run(main, documents, why, part or {})
