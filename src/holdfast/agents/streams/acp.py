"""The lines that `holdfast acp` prints, and their meaning: our own dialect, for every agent that speaks the protocol."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Any

from holdfast.agents.streams.dialect import StreamDialect, count, number, text
from holdfast.core.observations import (
    Activity,
    AgentFinished,
    AgentTrouble,
    Observation,
    PermissionDenied,
    SessionNamed,
    TroubleSeen,
    Usage,
)

_AUTH_REQUIRED = -32000
_STOPS = {
    "max_tokens": TroubleSeen(AgentTrouble.CONTEXT, "the model's output limit was reached"),
    "max_turn_requests": TroubleSeen(AgentTrouble.ERROR, "the agent used up its turns"),
    "refusal": TroubleSeen(AgentTrouble.ERROR, "the agent refused the task"),
    "cancelled": TroubleSeen(AgentTrouble.ERROR, "the turn was cancelled"),
}
"""The stop reasons of a turn that did not end well."""


class AcpLine(StrEnum):
    """The kinds of line, as their `type`."""

    SESSION = "acp.session"
    TEXT = "acp.text"
    TOOL = "acp.tool"
    TOOL_DONE = "acp.tool_done"
    REFUSED = "acp.refused"
    USAGE = "acp.usage"
    ERROR = "acp.error"
    DONE = "acp.done"


class AcpStream(StreamDialect):
    """One conversation with an ACP agent."""

    def read(self, event: dict[str, Any]) -> Iterator[Observation]:
        """Yield what one line tells."""
        match text(event, "type"):
            case AcpLine.SESSION:
                yield SessionNamed(text(event, "session"))
            case AcpLine.TEXT:
                yield Activity(text=text(event, "text"))
            case AcpLine.TOOL | AcpLine.TOOL_DONE as kind:
                yield Activity(tool=text(event, "tool"), tool_done=kind == AcpLine.TOOL_DONE)
            case AcpLine.REFUSED:
                yield PermissionDenied(text(event, "what"))
            case AcpLine.USAGE:
                yield Usage(count(event, "tokens"), number(event, "cost_usd"), whole=True)
            case AcpLine.ERROR:
                yield self._error(event)
            case AcpLine.DONE:
                stop = text(event, "stop_reason")
                yield _STOPS.get(stop, AgentFinished())

    def _error(self, event: dict[str, Any]) -> TroubleSeen:
        """Classify by the protocol's code for a missing login, else by the agent's patterns."""
        message = " ".join(part for part in (text(event, "message"), text(event, "detail")) if part)
        if event.get("code") == _AUTH_REQUIRED:
            return TroubleSeen(AgentTrouble.AUTH, message)
        return self._trouble(message)
