"""The stream of Copilot CLI, `--output-format json`. It names no tokens, and its session only at the end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.agents.streams import log_entries as entries
from holdfast.agents.streams.dialect import StreamDialect, at, count, mapping, number, text
from holdfast.core import observations as obs

_KINDS = {
    "authentication": obs.AgentTrouble.AUTH,
    "authorization": obs.AgentTrouble.AUTH,
    "quota": obs.AgentTrouble.LIMIT,
    "rate_limit": obs.AgentTrouble.LIMIT,
    "context_limit": obs.AgentTrouble.CONTEXT,
}
_WORKS = ("assistant.turn_start", "assistant.message_delta", "assistant.reasoning")


class CopilotStream(StreamDialect):
    """An event has its fields in `data`; `result`, the last one, has them at the top."""

    _written = 0
    _used = 0
    _cached = 0
    _last_word = False
    _failed = False
    _provider_says = ""

    def read(self, event: dict[str, Any]) -> Iterator[obs.Observation]:
        """Yield what one event tells."""
        data = mapping(event, "data") or event
        if session := text(data, "sessionId"):
            yield obs.SessionNamed(session)
        match text(event, "type"):
            case "assistant.message":
                self._last_word, self._failed, self._provider_says = not at(data, "toolRequests"), False, ""
                yield obs.Activity(text=text(data, "content"))
                # Without usage events, which not every version has, at most what was written is known.
                self._written += count(data, "outputTokens")
                yield obs.Usage(self._written, whole=True)
            case kind if kind in _WORKS:
                self._last_word = False
                yield obs.Activity()
            case "tool.execution_start":
                yield obs.Activity(tool=text(data, "toolName"))
            case "tool.execution_complete":
                yield obs.Activity(tool_done=True)
            case "assistant.usage":
                yield self._usage(data)
            case "permission.requested":
                what = text(data, "permissionRequest", "kind") or text(data, "kind") or "something"
                yield obs.TroubleSeen(
                    obs.AgentTrouble.PERMISSION, f"it asks for permission: {what}", waits=True
                )
            case "model.call_failure":
                self._provider_says = text(data, "errorMessage")
                yield self._trouble(self._provider_says, number(data, "statusCode"))
            case "session.error":
                self._failed = True
                yield self._session_error(data)
            case "result":
                yield from self._result(data)

    def _usage(self, data: dict[str, Any]) -> obs.Usage:
        self._used += count(data, "inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens")
        self._cached += count(data, "cacheReadTokens")
        return obs.Usage(self._used, whole=True, cache_read=self._cached)

    def _session_error(self, data: dict[str, Any]) -> obs.TroubleSeen:
        """Return what an error means: by its words and those of the provider, else by Copilot's kind or the status.

        Copilot words every 404 as a model that was not found, so the provider's own words are needed.
        """
        message = text(data, "message")
        trouble = self._patterns.of_error(f"{message}\n{self._provider_says}")
        if trouble is not obs.AgentTrouble.ERROR:
            return obs.TroubleSeen(trouble, message)
        return self._trouble(message, number(data, "statusCode"), _KINDS.get(text(data, "errorType")))

    def _result(self, data: dict[str, Any]) -> Iterator[obs.Observation]:
        code = data.get("exitCode")
        if code == 0 and self._last_word and not self._failed:
            yield obs.AgentFinished()
        elif code and not self._failed:
            yield obs.TroubleSeen(obs.AgentTrouble.ERROR, f"it ended with status {code}")

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
