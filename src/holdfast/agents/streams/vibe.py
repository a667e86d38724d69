"""The stream of Vibe, `--output streaming`: the messages of its conversation, one per line, without usage and session."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.agents.streams import log_entries as entries
from holdfast.agents.streams.dialect import StreamDialect, mapping, rows, text
from holdfast.core.observations import Activity, AgentFinished, LogEntry, Observation


class VibeStream(StreamDialect):
    """Errors are plain lines beside the messages."""

    def read(self, event: dict[str, Any]) -> Iterator[Observation]:
        """Yield what one message tells."""
        match text(event, "role"):
            case "assistant":
                calls, said = list(rows(event, "tool_calls")), text(event, "content")
                for call in calls:
                    yield Activity(tool=text(call, "function", "name") or "a tool")
                # Who calls no tool says the last word: the conversation goes on only after a tool's result.
                yield Activity(text=said) if calls or not said else AgentFinished(said)
            case "tool":
                yield Activity(tool_done=True)

    def log(self, event: dict[str, Any]) -> Iterator[LogEntry]:
        """Yield how one message reads."""
        match text(event, "role"):
            case "assistant":
                yield from entries.message(text(event, "content"))
                for call in rows(event, "tool_calls"):
                    yield from entries.tool_call(
                        text(call, "function", "name"), mapping(call, "function").get("arguments")
                    )
            case "tool":
                yield from entries.tool_result(text(event, "content"))
