"""The lines that `holdfast acp` prints, and what they tell: our own dialect, for whichever agent speaks the protocol."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.agents.streams.parts import count, number, text
from holdfast.agents.streams.signals import Signals
from holdfast.core.observations import (
    Activity,
    Denied,
    Finished,
    Observation,
    SessionNamed,
    Trouble,
    Usage,
    Wrong,
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
    "max_tokens": Wrong(Trouble.CONTEXT, "the model's output limit was reached"),
    "max_turn_requests": Wrong(Trouble.ERROR, "the agent used up its turns"),
    "refusal": Wrong(Trouble.ERROR, "the agent refused the task"),
    "cancelled": Wrong(Trouble.ERROR, "the turn was cancelled"),
}
"""How a turn may end other than well."""


class Acp:
    """One conversation."""

    def __init__(self, signals: Signals) -> None:
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
                yield Denied(text(event, "what"))
            case "acp.usage":
                yield Usage(count(event, "tokens"), number(event, "cost_usd"), whole=True)
            case "acp.error":
                yield self._wrong(event)
            case "acp.done":
                stop = text(event, "stop_reason")
                yield _STOPS.get(stop, Finished())

    def _wrong(self, event: dict[str, Any]) -> Wrong:
        """Go by the protocol's code for a missing login, then by what the agent's own signals know."""
        message = " ".join(part for part in (text(event, "message"), text(event, "detail")) if part)
        if event.get("code") == _AUTH_REQUIRED:
            return Wrong(Trouble.AUTH, message)
        return Wrong(self._signals.of_error(message), message)
