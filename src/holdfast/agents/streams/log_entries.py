"""The entries of a readable log that all dialects have: messages, tool calls with their edits, results, errors, the end.

Agents name their tools and arguments differently. What an argument is, is told by its name, from a table.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.agents.streams.dialect import StreamDialect, rows, text
from holdfast.core.observations import EntryKind, LogEntry

_COMMANDS = ("command", "cmd", "script")
_PATHS = ("file_path", "path", "filePath", "absolute_path", "notebook_path", "filename")
_OLD = ("old_string", "oldString", "old_str", "old_text")
_NEW = ("new_string", "newString", "new_str", "new_text")
_CONTENTS = ("content", "file_text", "text", "new_source")
_DIFFS = ("patch", "diff", "patchText", "input")
_SUBJECTS = ("pattern", "query", "url", "description", "prompt", "name")
_ARGUMENT_CHARS = 300


def message(words: str) -> Iterator[LogEntry]:
    """Yield what the agent says, if it says anything."""
    if words.strip():
        yield LogEntry(EntryKind.MESSAGE, words.strip())


def error(words: str) -> Iterator[LogEntry]:
    """Yield an error of the agent or of a tool."""
    yield LogEntry(EntryKind.ERROR, words.strip() or "an error without a message")


def end() -> Iterator[LogEntry]:
    """Yield the end of the agent's work as it tells it."""
    yield LogEntry(EntryKind.END, "done")


class DialectInPieces(StreamDialect):
    """A dialect whose messages come in pieces. The log tells one once it is whole: when something else comes."""

    _pieces = ""

    def log_rest(self) -> Iterator[LogEntry]:
        """Yield a message that was cut off."""
        return self._whole_message()

    def _whole_message(self) -> Iterator[LogEntry]:
        words, self._pieces = self._pieces, ""
        return message(words)


def tool_call(name: str, arguments: Any) -> Iterator[LogEntry]:
    """Yield the call of a tool: a command, an edit with its lines, or whatever names best what it is about."""
    given = _as_mapping(arguments)
    tool = name or "a tool"
    if command := _command(given):
        yield LogEntry(EntryKind.TOOL, f"{tool}: {command}")
        return
    path = _first(given, _PATHS)
    changed = _edit(given)
    if changed:
        yield LogEntry(EntryKind.EDIT, f"{tool} {path}".strip(), changed)
        return
    subject = path or _first(given, _SUBJECTS) or _compact(given)
    yield LogEntry(EntryKind.TOOL, f"{tool} {subject}".strip())


def tool_result(output: Any, *, failed: bool = False) -> Iterator[LogEntry]:
    """Yield what a tool answered, if it answered anything."""
    words = _as_text(output).strip()
    if words or failed:
        yield LogEntry(EntryKind.ERROR if failed else EntryKind.RESULT, "", words)


def _command(given: dict[str, Any]) -> str:
    for name in _COMMANDS:
        found = given.get(name)
        if isinstance(found, list):
            return " ".join(str(word) for word in found)
        if isinstance(found, str) and found:
            return found
    return ""


def _edit(given: dict[str, Any]) -> str:
    """Return the lines that an edit takes away and adds, each with its sign; empty if it is no edit."""
    edits = list(rows(given, "edits")) or [given]
    pieces = [piece for one in edits if (piece := _replacement(one))]
    if pieces:
        return "\n".join(pieces)
    if whole := _first(given, _CONTENTS):
        return _signed("+", whole) if _first(given, _PATHS) else ""
    return next((found for name in _DIFFS if "\n" in (found := text(given, name))), "")


def _replacement(one: dict[str, Any]) -> str:
    old, new = _first(one, _OLD), _first(one, _NEW)
    return "\n".join(filter(None, (_signed("-", old), _signed("+", new))))


def _signed(sign: str, words: str) -> str:
    return "\n".join(f"{sign}{line}" for line in words.splitlines())


def _first(given: dict[str, Any], names: tuple[str, ...]) -> str:
    return next((found for name in names if (found := text(given, name))), "")


def _as_mapping(arguments: Any) -> dict[str, Any]:
    """Return a tool's arguments. Some agents give them as JSON text."""
    if isinstance(arguments, str):
        try:
            arguments = msgspec.json.decode(arguments)
        except msgspec.DecodeError:
            return {"description": arguments}
    return arguments if isinstance(arguments, dict) else {}


def _compact(given: dict[str, Any]) -> str:
    return msgspec.json.encode(given).decode()[:_ARGUMENT_CHARS] if given else ""


def _as_text(output: Any) -> str:
    """Return an answer as text: a string, a list of parts, or a mapping that has one of both."""
    if isinstance(output, str):
        return output
    if isinstance(output, list):
        return "\n".join(filter(None, (_as_text(part) for part in output)))
    if isinstance(output, dict):
        names = ("text", "output", "content", "value", "aggregated_output")
        return next((_as_text(found) for name in names if (found := output.get(name))), "")
    return ""
