"""The stream of opencode, `run --format json`."""

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

_NAMED = {"ContextOverflowError": AgentTrouble.CONTEXT, "ProviderAuthError": AgentTrouble.AUTH}


class OpencodeStream(StreamDialect):
    """Each step has its cost; the one that stops is the last."""

    def read(self, event: dict[str, Any]) -> Iterator[Observation]:
        """Yield what one event tells."""
        if session := text(event, "sessionID"):
            yield SessionNamed(session)
        part = mapping(event, "part")
        match text(event, "type"):
            case "text":
                yield Activity(text=text(part, "text"))
            case "tool_use":
                done = text(part, "state", "status") in ("completed", "error")
                yield Activity(tool=text(part, "tool"), tool_done=done)
            case "step_start" | "reasoning":
                yield Activity()
            case "step_finish":
                yield from _step(part)
            case "error":
                yield self._error(mapping(event, "error"))

    def _error(self, error: dict[str, Any]) -> Observation:
        name = text(error, "name")
        message = text(error, "data", "message") or text(error, "message") or name
        known = _NAMED.get(name)
        return TroubleSeen(
            known or self._patterns.of_error(message, number(error, "data", "statusCode")), message
        )


def _step(part: dict[str, Any]) -> Iterator[Observation]:
    tokens = mapping(part, "tokens")
    used = count(tokens, "input", "output", "reasoning") + count(mapping(tokens, "cache"), "read", "write")
    yield Usage(used, number(part, "cost"))
    if text(part, "reason") == "stop":
        yield AgentFinished()
