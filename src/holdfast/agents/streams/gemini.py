"""The stream of Gemini CLI, `-o stream-json`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.agents.streams import log_entries as entries
from holdfast.agents.streams.dialect import count, mapping, number, text
from holdfast.core.observations import (
    Activity,
    AgentFinished,
    LogEntry,
    Observation,
    SessionNamed,
    TroubleSeen,
    Usage,
)


class GeminiStream(entries.DialectInPieces):
    """What the model says comes in pieces, which are joined.

    A success counts only if the model said something after its last tool: Gemini CLI also calls it a success when the
    answer to a tool's result breaks off.
    """

    _text = ""

    def read(self, event: dict[str, Any]) -> Iterator[Observation]:
        """Yield what one event tells."""
        match text(event, "type"):
            case "init":
                yield SessionNamed(text(event, "session_id"))
            case "message" if text(event, "role") == "assistant":
                piece = text(event, "content")
                self._text = self._text + piece if event.get("delta") is True else piece
                yield Activity(text=self._text)
            case "tool_use":
                self._text = ""
                yield Activity(tool=text(event, "tool_name"))
            case "tool_result":
                self._text = ""
                yield Activity(tool_done=True)
            case "error" if text(event, "severity") != "warning":
                message = text(event, "message")
                yield self._trouble(message)
            case "result":
                yield from self._result(event)

    def log(self, event: dict[str, Any]) -> Iterator[LogEntry]:
        """Yield how one event reads."""
        kind = text(event, "type")
        if kind == "message" and text(event, "role") == "assistant":
            self._pieces += text(event, "content")
            return
        yield from self._whole_message()
        match kind:
            case "tool_use":
                yield from entries.tool_call(text(event, "tool_name"), event.get("parameters"))
            case "tool_result":
                failed = text(event, "status") == "error"
                yield from entries.tool_result(event.get("output") or event.get("error"), failed=failed)
            case "error":
                yield from entries.error(text(event, "message"))
            case "result" if text(event, "status") == "success":
                yield from entries.end()
            case "result":
                yield from entries.error(text(event, "error", "message") or text(event, "error"))

    def _result(self, event: dict[str, Any]) -> Iterator[Observation]:
        stats = mapping(event, "stats")
        tokens = count(stats, "total_tokens") or count(stats, "input_tokens", "output_tokens")
        yield Usage(tokens, whole=True, cache_read=count(stats, "cached"))
        if text(event, "status") == "success":
            if self._text.strip():
                yield AgentFinished()
            return
        message = text(event, "error", "message") or text(event, "error")
        typed = f"{text(event, 'error', 'type')} {message}".strip()
        yield TroubleSeen(self._patterns.of_error(typed, number(event, "error", "code")), message)
