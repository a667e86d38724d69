"""An agent's log as lines for people: messages, tool calls, edits, results, errors, the end. Only entries, never streams.

All text is an agent's: what could steer a terminal is made harmless, and what is long is cut, with a word on how much is left out.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.core.observations import EntryKind, LogEntry
from holdfast.views.text import block, count, one_line

_LINE_CHARS = 400
_RESULT_LINES = 8
_EDIT_LINES = 40
_MARKS = {
    EntryKind.TOOL: "> ",
    EntryKind.EDIT: "> ",
    EntryKind.RESULT: "",
    EntryKind.ERROR: "! ",
    EntryKind.END: "= ",
}


def entry_lines(entry: LogEntry) -> Iterator[str]:
    """Yield an entry as lines: a tool call begins with `>`, an error with `!`, the end with `=`; results are indented."""
    if entry.kind in (EntryKind.MESSAGE, EntryKind.PLAIN):
        yield from (line[:_LINE_CHARS] for line in block(entry.text, ""))
        return
    mark = _MARKS[entry.kind]
    if entry.text:
        yield mark + one_line(entry.text, _LINE_CHARS)
    elif entry.kind is EntryKind.ERROR:
        yield f"{mark}the tool failed"
    most = _EDIT_LINES if entry.kind is EntryKind.EDIT else _RESULT_LINES
    yield from _bounded(entry.detail, most)


def _bounded(detail: str, most: int) -> Iterator[str]:
    lines = block(detail, "    ")
    for line in lines[:most]:
        yield line[:_LINE_CHARS]
    if len(lines) > most:
        yield f"    … {count(len(lines) - most, 'more line')}"
