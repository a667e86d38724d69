"""The lines that `holdfast acp` prints, and what they tell: our own dialect, for whichever agent speaks the protocol."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.agents.streams.dialect import count, number, text
from holdfast.agents.streams.error_patterns import ErrorPatterns
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

SESSION = "acp.session"
TEXT = "acp.text"
TOOL = "acp.tool"
TOOL_DONE = "acp.tool_done"
REFUSED = "acp.refused"
USAGE = "acp.usage"
ERROR = "acp.error"
DONE = "acp.done"

_AUTH_REQUIRED = -32000
_STOPS = {
    "max_tokens": TroubleSeen(AgentTrouble.CONTEXT, "the model's output limit was reached"),
    "max_turn_requests": TroubleSeen(AgentTrouble.ERROR, "the agent used up its turns"),
    "refusal": TroubleSeen(AgentTrouble.ERROR, "the agent refused the task"),
    "cancelled": TroubleSeen(AgentTrouble.ERROR, "the turn was cancelled"),
}
"""How a turn may end other than well."""


class AcpStream:
    """One conversation."""

    def __init__(self, signals: ErrorPatterns) -> None:
        self._signals = signals

    def read(self, event: dict[str, Any]) -> Iterator[Observation]:
        """Yield what one line tells."""
        match text(event, "type"):
            case "acp.session":
                yield SessionNamed(text(event, "session"))
            case "acp.text":
                yield Activity(text=text(event, "text"))
            case "acp.tool" | "acp.tool_done" as kind:
                yield Activity(tool=text(event, "tool"), tool_done=kind == TOOL_DONE)
            case "acp.refused":
                yield PermissionDenied(text(event, "what"))
            case "acp.usage":
                yield Usage(count(event, "tokens"), number(event, "cost_usd"), whole=True)
            case "acp.error":
                yield self._wrong(event)
            case "acp.done":
                stop = text(event, "stop_reason")
                yield _STOPS.get(stop, AgentFinished())

    def _wrong(self, event: dict[str, Any]) -> TroubleSeen:
        """Go by the protocol's code for a missing login, then by what the agent's own signals know."""
        message = " ".join(part for part in (text(event, "message"), text(event, "detail")) if part)
        if event.get("code") == _AUTH_REQUIRED:
            return TroubleSeen(AgentTrouble.AUTH, message)
        return TroubleSeen(self._signals.of_error(message), message)
