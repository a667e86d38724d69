"""The lines that `holdfast acp` prints, and their meaning: our own dialect, for every agent that speaks the protocol."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Any

from holdfast.agents.streams import log_entries as entries
from holdfast.agents.streams.dialect import count, number, text
from holdfast.core import observations as obs

_AUTH_REQUIRED = -32000
_NOT_FOUND = -32002
_END_OF_TURN = "end_turn"
_STATUS = re.compile(r'"(?:http_)?status(?:_?[cC]ode)?" ?: ?(\d{3})\b')
"""Where the details of an error have the HTTP status: each agent names it in a way of its own."""
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

    _opened = False
    _text = ""
    _used: obs.Usage | None = None

    def read(self, event: dict[str, Any]) -> Iterator[obs.Observation]:
        """Yield what one line tells. Usage counts with the line after it: Codex calls a context full that overflowed."""
        used, self._used = self._used, None
        if used is not None and text(event, "type") != AcpLine.ERROR:
            yield used
        yield from self._read(event)

    def _read(self, event: dict[str, Any]) -> Iterator[obs.Observation]:
        match text(event, "type"):
            case AcpLine.SESSION:
                self._opened = True
                yield obs.SessionNamed(text(event, "session"))
            case AcpLine.TEXT:
                self._text += text(event, "text")
                yield obs.Activity(text=self._text)
            case AcpLine.TOOL | AcpLine.TOOL_DONE as kind:
                self._text = ""
                yield obs.Activity(tool=text(event, "tool"), tool_done=kind == AcpLine.TOOL_DONE)
            case AcpLine.REFUSED:
                yield obs.PermissionDenied(text(event, "what"))
            case AcpLine.USAGE:
                self._used = obs.Usage(count(event, "tokens"), number(event, "cost_usd"), whole=True)
            case AcpLine.ERROR:
                parts = (text(event, "message"), text(event, "detail"))
                message = " ".join(part for part in parts if part)
                status = _STATUS.search(text(event, "detail"))
                yield self._trouble(message, int(status[1]) if status else 0, self._known(event.get("code")))
            case AcpLine.DONE:
                yield _ending(text(event, "stop_reason"))

    def _known(self, code: object) -> obs.AgentTrouble | None:
        """Return what a code of the protocol means. What is not found before a session is open is that session."""
        if code == _AUTH_REQUIRED:
            return obs.AgentTrouble.AUTH
        return obs.AgentTrouble.SESSION if code == _NOT_FOUND and not self._opened else None

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
                stop = _ending(text(event, "stop_reason"))
                yield from entries.error(stop.message) if isinstance(stop, obs.TroubleSeen) else entries.end()


def _ending(stop: str) -> obs.AgentFinished | obs.TroubleSeen:
    """Return what a stop reason means. One that nobody knows is no success: in doubt the work is not done."""
    if stop == _END_OF_TURN:
        return obs.AgentFinished()
    unknown = obs.TroubleSeen(obs.AgentTrouble.ERROR, f"the turn stopped: {stop or 'nobody knows why'}")
    return _STOPS.get(stop, unknown)
