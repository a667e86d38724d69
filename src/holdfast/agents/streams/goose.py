"""The stream of goose, `run --output-format stream-json`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.agents.streams import log_entries as entries
from holdfast.agents.streams.dialect import StreamDialect, count, mapping, rows, text
from holdfast.core.observations import (
    Activity,
    AgentFinished,
    AgentTrouble,
    LogEntry,
    Observation,
    TroubleSeen,
    Usage,
)

_ASKS = ("toolConfirmationRequest", "actionRequired")


class GooseStream(StreamDialect):
    """`complete` always closes the stream, also after an `error`."""

    _failed = False

    def read(self, event: dict[str, Any]) -> Iterator[Observation]:
        """Yield what one event tells."""
        match text(event, "type"):
            case "message":
                self._failed = False
                for part in rows(event, "message", "content"):
                    yield _part(part)
            case "error":
                self._failed = True
                message = text(event, "error") or text(event, "message")
                yield self._trouble(message)
            case "complete":
                yield Usage(count(event, "total_tokens"), whole=True)
                if not self._failed:
                    yield AgentFinished()

    def log(self, event: dict[str, Any]) -> Iterator[LogEntry]:
        """Yield how one event reads."""
        match text(event, "type"):
            case "message":
                for part in rows(event, "message", "content"):
                    yield from _log_part(part)
            case "error":
                yield from entries.error(text(event, "error") or text(event, "message"))
            case "complete":
                yield from entries.end()


def _log_part(part: dict[str, Any]) -> Iterator[LogEntry]:
    kind = text(part, "type")
    if kind in _ASKS:
        yield from entries.error(f"it asks whether it may use {text(part, 'toolName') or 'a tool'}")
    elif kind == "toolRequest":
        call = mapping(part, "toolCall", "value")
        yield from entries.tool_call(text(call, "name"), call.get("arguments"))
    elif kind == "toolResponse":
        value = mapping(part, "toolResult", "value")
        yield from entries.tool_result(value.get("content"), failed=value.get("isError") is True)
    else:
        yield from entries.message(text(part, "text"))


def _part(part: dict[str, Any]) -> Observation:
    kind = text(part, "type")
    if kind in _ASKS:
        what = text(part, "toolName") or text(part, "data", "toolName") or "a tool"
        return TroubleSeen(AgentTrouble.PERMISSION, f"it asks whether it may use {what}", waits=True)
    if kind == "toolRequest":
        return Activity(tool=text(part, "toolCall", "value", "name") or "a tool")
    if kind == "toolResponse":
        return Activity(tool_done=True)
    return Activity(text=text(part, "text"))
