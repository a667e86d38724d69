"""The lines that `holdfast acp` prints, and their meaning: our own dialect, for every agent that speaks the protocol."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Any

from holdfast.agents.streams import log_entries as entries
from holdfast.agents.streams.dialect import count, number, text
from holdfast.core import observations as obs

_AUTH_REQUIRED = -32000
_STOPS = {
    "max_tokens": obs.TroubleSeen(obs.AgentTrouble.CONTEXT, "the model's output limit was reached"),
    "max_turn_requests": obs.TroubleSeen(obs.AgentTrouble.ERROR, "the agent used up its turns"),
    "refusal": obs.TroubleSeen(obs.AgentTrouble.ERROR, "the agent refused the task"),
    "cancelled": obs.TroubleSeen(obs.AgentTrouble.ERROR, "the turn was cancelled"),
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


class AcpStream(entries.DialectInPieces):
    """One conversation with an ACP agent."""

    def read(self, event: dict[str, Any]) -> Iterator[obs.Observation]:
        """Yield what one line tells."""
        match text(event, "type"):
            case AcpLine.SESSION:
                yield obs.SessionNamed(text(event, "session"))
            case AcpLine.TEXT:
                yield obs.Activity(text=text(event, "text"))
            case AcpLine.TOOL | AcpLine.TOOL_DONE as kind:
                yield obs.Activity(tool=text(event, "tool"), tool_done=kind == AcpLine.TOOL_DONE)
            case AcpLine.REFUSED:
                yield obs.PermissionDenied(text(event, "what"))
            case AcpLine.USAGE:
                yield obs.Usage(count(event, "tokens"), number(event, "cost_usd"), whole=True)
            case AcpLine.ERROR:
                parts = (text(event, "message"), text(event, "detail"))
                known = obs.AgentTrouble.AUTH if event.get("code") == _AUTH_REQUIRED else None
                yield self._trouble(" ".join(part for part in parts if part), known=known)
            case AcpLine.DONE:
                stop = text(event, "stop_reason")
                yield _STOPS.get(stop, obs.AgentFinished())

    def log(self, event: dict[str, Any]) -> Iterator[obs.LogEntry]:
        """Yield how one line reads."""
        kind = text(event, "type")
        if kind == AcpLine.TEXT:
            self._pieces += text(event, "text")
            return
        if kind in (AcpLine.USAGE, AcpLine.SESSION):
            return
        yield from self._whole_message()
        match kind:
            case AcpLine.TOOL if tool := text(event, "tool"):
                yield from entries.tool_call(tool, {})
            case AcpLine.REFUSED:
                yield from entries.error(f"not allowed: {text(event, 'what')}")
            case AcpLine.ERROR:
                yield from entries.error(f"{text(event, 'message')} {text(event, 'detail')}")
            case AcpLine.DONE:
                stop = _STOPS.get(text(event, "stop_reason"))
                yield from entries.end() if stop is None else entries.error(stop.message)
