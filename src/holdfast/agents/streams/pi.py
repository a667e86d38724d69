"""The stream of pi, `-p --mode json`: the messages of its conversation, its tools, and its own retries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.agents.streams import log_entries as entries
from holdfast.agents.streams.dialect import StreamDialect, mapping, number, rows, text
from holdfast.core.observations import Activity, AgentFinished, LogEntry, Observation, SessionNamed, Usage

_WORKS_ON = ("stop", "toolUse")
_DELTAS = ("text_delta", "thinking_delta", "toolcall_delta")


class PiStream(StreamDialect):
    """It exits with 0 after every failure. How its last message stopped says whether it ended well."""

    _stopped_well = False

    def read(self, event: dict[str, Any]) -> Iterator[Observation]:
        """Yield what one event tells."""
        match text(event, "type"):
            case "session":
                yield SessionNamed(text(event, "id"))
            case "message_update" if text(event, "assistantMessageEvent", "type") in _DELTAS:
                yield Activity()
            case "message_end":
                yield from self._message(mapping(event, "message"))
            case "tool_execution_start" | "tool_execution_update":
                yield Activity(tool=text(event, "toolName") or "a tool")
            case "tool_execution_end":
                yield Activity(tool_done=True)
            case "auto_retry_end" if event.get("success") is False:
                yield self._trouble(text(event, "finalError"))
            case "agent_end" if self._stopped_well:
                yield AgentFinished()

    def _message(self, message: dict[str, Any]) -> Iterator[Observation]:
        if text(message, "role") != "assistant":
            return
        used, stop = mapping(message, "usage"), text(message, "stopReason")
        yield Usage(
            int(number(used, "totalTokens")),
            number(used, "cost", "total"),
            cache_read=int(number(used, "cacheRead")),
        )
        self._stopped_well = stop == "stop"
        if stop in _WORKS_ON:
            yield Activity(text=_said(message))
        else:
            yield self._trouble(
                text(message, "errorMessage") or f"the model stopped: {stop or 'nobody knows why'}"
            )

    def log(self, event: dict[str, Any]) -> Iterator[LogEntry]:
        """Yield how one event reads."""
        match text(event, "type"):
            case "message_end" if text(event, "message", "role") == "assistant":
                yield from entries.message(_said(mapping(event, "message")))
                if wrong := text(event, "message", "errorMessage"):
                    yield from entries.error(wrong)
            case "tool_execution_start":
                yield from entries.tool_call(text(event, "toolName"), event.get("args"))
            case "tool_execution_end":
                failed = event.get("isError") is True
                yield from entries.tool_result(event.get("result"), failed=failed)
            case "agent_end" if not any(text(row, "errorMessage") for row in rows(event, "messages")):
                yield from entries.end()


def _said(message: dict[str, Any]) -> str:
    return "\n".join(text(part, "text") for part in rows(message, "content") if text(part, "type") == "text")
