"""The stream of Vibe 3, `--output streaming`: the entries of its conversation, each one line once it is complete."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.agents.streams import log_entries as entries
from holdfast.agents.streams.dialect import StreamDialect, mapping, rows, text
from holdfast.core.observations import Activity, AgentFinished, LogEntry, Observation, SessionNamed


class VibeStream(StreamDialect):
    """An entry is a message or an effect, which is a tool with its result. Errors are plain lines beside them."""

    def read(self, event: dict[str, Any]) -> Iterator[Observation]:
        """Yield what one entry tells."""
        if session := text(event, "sessionId"):
            yield SessionNamed(session)
        match text(event, "type"), text(event, "role"):
            case "message", "assistant":
                yield Activity(text=_said(event))
                if _said(event) and text(event, "outcome", "type") == "committed":
                    yield AgentFinished(_said(event))
            case "effect", _:
                yield Activity(tool=text(event, "detail", "toolName") or "a tool")
                yield Activity(tool_done=True)

    def log(self, event: dict[str, Any]) -> Iterator[LogEntry]:
        """Yield how one entry reads."""
        match text(event, "type"), text(event, "role"):
            case "message", "assistant":
                yield from entries.message(_said(event))
            case "effect", _:
                tool = text(event, "detail", "toolName")
                yield from entries.tool_call(tool, mapping(event, "detail").get("input"))
                failed = mapping(event, "state", "display").get("success") is False
                yield from entries.tool_result(text(event, "state", "outputText"), failed=failed)


def _said(event: dict[str, Any]) -> str:
    return "".join(text(part, "text") for part in rows(event, "content"))
