"""The stream of Copilot CLI, `--output-format json`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.agents.streams import log_entries as entries
from holdfast.agents.streams.dialect import StreamDialect, count, mapping, number, text
from holdfast.core import observations as obs

_KINDS = {
    "authentication": obs.AgentTrouble.AUTH,
    "authorization": obs.AgentTrouble.AUTH,
    "quota": obs.AgentTrouble.LIMIT,
    "rate_limit": obs.AgentTrouble.LIMIT,
    "context_limit": obs.AgentTrouble.CONTEXT,
}


class CopilotStream(StreamDialect):
    """An event has its fields in `data`; older versions have them at the top."""

    _written = 0
    _used = 0
    _cached = 0

    def read(self, event: dict[str, Any]) -> Iterator[obs.Observation]:
        """Yield what one event tells."""
        data = mapping(event, "data") or event
        if session := text(data, "sessionId"):
            yield obs.SessionNamed(session)
        match text(event, "type"):
            case "assistant.message":
                yield obs.Activity(text=text(data, "content"))
                # Without usage events, which older versions lack, only what was written is known.
                self._written += count(data, "outputTokens")
                yield obs.Usage(self._written, whole=True)
            case "assistant.turn_start" | "assistant.message_delta" | "assistant.reasoning":
                yield obs.Activity()
            case "tool.execution_start":
                yield obs.Activity(tool=text(data, "toolName"))
            case "tool.execution_complete":
                yield obs.Activity(tool_done=True)
            case "assistant.usage":
                names = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens")
                self._used += count(data, *names)
                self._cached += count(data, "cacheReadTokens")
                yield obs.Usage(self._used, whole=True, cache_read=self._cached)
            case "permission.requested":
                what = text(data, "permissionRequest", "kind") or text(data, "kind") or "something"
                yield obs.TroubleSeen(
                    obs.AgentTrouble.PERMISSION, f"it asks for permission: {what}", waits=True
                )
            case "session.error":
                known = _KINDS.get(text(data, "errorType"))
                yield self._trouble(text(data, "message"), number(data, "statusCode"), known)
            case "result" | "session.idle":
                code = number(data, "exitCode")
                failed = obs.TroubleSeen(obs.AgentTrouble.ERROR, f"it ended with status {code:g}")
                yield failed if code else obs.AgentFinished()

    def log(self, event: dict[str, Any]) -> Iterator[obs.LogEntry]:
        """Yield how one event reads."""
        data = mapping(event, "data") or event
        match text(event, "type"):
            case "assistant.message":
                yield from entries.message(text(data, "content"))
            case "tool.execution_start":
                yield from entries.tool_call(text(data, "toolName"), data.get("arguments"))
            case "tool.execution_complete":
                failed = data.get("success") is False
                yield from entries.tool_result(data.get("result") or data.get("error"), failed=failed)
            case "permission.requested":
                kind = text(data, "permissionRequest", "kind") or text(data, "kind")
                yield from entries.error(f"it asks for permission: {kind or 'something'}")
            case "session.error":
                yield from entries.error(text(data, "message"))
            case "result" if code := number(data, "exitCode"):
                yield from entries.error(f"it ended with status {code:g}")
            case "result":
                yield from entries.end()
