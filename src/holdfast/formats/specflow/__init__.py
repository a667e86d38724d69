"""SpecFlow, both ways: the state of a run in waves, its specification, `.continue-here`, and the table in STATE.md."""

from __future__ import annotations

import glob
import posixpath
from collections.abc import Mapping

from holdfast.formats import lenient_json, markdown
from holdfast.formats.lenient_json import BrokenFileError
from holdfast.formats.model import ForeignFormat, ForeignRun
from holdfast.formats.specflow import layout
from holdfast.formats.specflow.layout import PLACES, TRACES
from holdfast.formats.specflow.read import (
    is_position,
    is_specification,
    read_pause,
    read_position,
    read_session,
    read_specification,
    read_without_state,
)
from holdfast.formats.specflow.state import read_state
from holdfast.formats.specflow.waves import is_state
from holdfast.formats.specflow.write import write


def recognises(path: str, data: bytes) -> bool:
    """Tell whether a file is SpecFlow's: by what it holds, or by where it lies if it is broken."""
    name = posixpath.basename(path)
    if name.startswith("._"):
        return False
    if name == posixpath.basename(layout.CONTINUE) or layout.is_pause_note(path):
        return True
    if name.endswith(".md"):
        text = markdown.decoded(data)
        return is_position(path, text) or is_specification(path, text)
    if not name.endswith(".json"):
        return False
    try:
        return is_state(lenient_json.parse_object(path, data))
    except BrokenFileError:
        return layout.is_execution(path)


def companions(main: str) -> tuple[str, ...]:
    """Return the patterns of what belongs to a state: its specification, the marks of a pause, the lock, STATE.md."""
    here = glob.escape(layout.prefix_of(main))
    spec = glob.escape(layout.spec_in(main)) or "*"
    names = (
        layout.state_path(spec),
        layout.spec_path(spec),
        f"{layout.HOME}/archive/{spec}.md",
        layout.CONTINUE,
        layout.LOCK,
        layout.STATE_MD,
        f"{layout.SESSIONS}/PAUSE-*.md",
    )
    # Without the name of a specification the archive would bring every one that was ever finished.
    return tuple(here + name for name in names if spec != "*" or "/archive/" not in name)


def read(main: str, documents: Mapping[str, bytes]) -> ForeignRun:
    """Return the run that the documents tell of."""
    if main.endswith(posixpath.basename(layout.CONTINUE)):
        return read_pause(main, documents)
    if layout.is_pause_note(main):
        return read_session(main, documents)
    if main.endswith(".md"):
        text = markdown.decoded(documents[main])
        at_position = is_position(main, text)
        return read_position(main, documents) if at_position else read_specification(main, documents)
    try:
        return read_state(main, lenient_json.parse_object(main, documents[main]), documents)
    except BrokenFileError as error:
        return read_without_state(main, documents, error)


__all__ = ["FORMAT", "companions", "read", "recognises", "write"]

FORMAT = ForeignFormat(
    title="SpecFlow",
    places=PLACES,
    traces=TRACES,
    recognises=recognises,
    companions=companions,
    read=read,
    write=write,
    locks=(f"{layout.HOME}/.*.lock",),
)
