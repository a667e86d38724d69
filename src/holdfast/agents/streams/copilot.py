"""The stream of Copilot CLI, `--output-format json`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.agents.streams.dialect import StreamDialect, count, mapping, number, text
from holdfast.core.observations import (
    Activity,
    AgentFinished,
    AgentTrouble,
    Observation,
    SessionNamed,
    TroubleSeen,
    Usage,
)

_KINDS = {
    "authentication": AgentTrouble.AUTH,
    "authorization": AgentTrouble.AUTH,
    "quota": AgentTrouble.LIMIT,
    "rate_limit": AgentTrouble.LIMIT,
    "context_limit": AgentTrouble.CONTEXT,
}


class CopilotStream(StreamDialect):
    """An event has its fields in `data`; older versions have them at the top."""

    _written = 0
    _used = 0

    def read(self, event: dict[str, Any]) -> Iterator[Observation]:
        """Yield what one event tells."""
        data = mapping(event, "data") or event
        if session := text(data, "sessionId"):
            yield SessionNamed(session)
        match text(event, "type"):
            case "assistant.message":
                yield Activity(text=text(data, "content"))
                # Without usage events, which older versions lack, only what was written is known.
                self._written += count(data, "outputTokens")
                yield Usage(self._written, whole=True)
            case "assistant.turn_start" | "assistant.message_delta" | "assistant.reasoning":
                yield Activity()
            case "tool.execution_start":
                yield Activity(tool=text(data, "toolName"))
            case "tool.execution_complete":
                yield Activity(tool_done=True)
            case "assistant.usage":
                names = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens")
                self._used += count(data, *names)
                yield Usage(self._used, whole=True)
            case "permission.requested":
                what = text(data, "permissionRequest", "kind") or text(data, "kind") or "something"
                yield TroubleSeen(AgentTrouble.PERMISSION, f"it asks for permission: {what}", waits=True)
            case "session.error":
                yield self._error(data)
            case "result" | "session.idle":
                yield from self._end(data)

    def _error(self, data: dict[str, Any]) -> Observation:
        message = text(data, "message")
        known = _KINDS.get(text(data, "errorType"))
        return TroubleSeen(known or self._patterns.of_error(message, number(data, "statusCode")), message)

    def _end(self, data: dict[str, Any]) -> Iterator[Observation]:
        if number(data, "exitCode"):
            yield TroubleSeen(AgentTrouble.ERROR, f"it ended with status {number(data, 'exitCode'):g}")
        else:
            yield AgentFinished()
