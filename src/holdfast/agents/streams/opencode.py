"""The stream of opencode, `run --format json`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from holdfast.agents.streams import log_entries as entries
from holdfast.agents.streams.dialect import StreamDialect, count, mapping, number, text
from holdfast.core import observations as obs

_NAMED = {"ContextOverflowError": obs.AgentTrouble.CONTEXT, "ProviderAuthError": obs.AgentTrouble.AUTH}

_LOGGED = re.compile(
    r'timestamp=\S+ level=ERROR run=\S+ message="stream error" .{0,300}? small=false .{0,300}? error\.error="(?:AI_\w+: )?(?P<why>.*)"$'
)
"""What its log says of a failed request for the work itself; one for a title has small=true."""
_ENDINGS = ("stop", "tool-calls")
_ENDED_EARLY = {
    "length": obs.TroubleSeen(obs.AgentTrouble.CONTEXT, "the model's output limit was reached"),
    "content-filter": obs.TroubleSeen(obs.AgentTrouble.ERROR, "the model declined to answer"),
}
"""The reasons for which a step may end that are no good end; any other is an answer that was cut off."""
_CUT_OFF = obs.TroubleSeen(obs.AgentTrouble.OUTAGE, "the model's answer ended early, without a reason")


class OpencodeStream(StreamDialect):
    """Each step has its cost; the one that stops is the last.

    An answer that ended early is a step that finished for an unknown reason. opencode then asks again, for ever: that it
    starts one step more and says half a sentence shows no life, until a tool is used or a step comes to a proper end.
    """

    _broken = False
    _shortens = False
    """After an overflow its next step makes the conversation shorter. That step stops, too, and the work goes on."""

    def read(self, event: dict[str, Any]) -> Iterator[obs.Observation]:
        """Yield what one event tells."""
        if session := text(event, "sessionID"):
            yield obs.SessionNamed(session)
        part = mapping(event, "part")
        match text(event, "type"):
            case "text" if not self._broken:
                yield obs.Activity(text=text(part, "text"))
            case "tool_use":
                self._broken = False
                done = text(part, "state", "status") in ("completed", "error")
                yield obs.Activity(tool=text(part, "tool"), tool_done=done)
            case "step_start" | "reasoning" if not self._broken:
                yield obs.Activity()
            case "step_finish":
                yield from self._step(part)
            case "error":
                error = mapping(event, "error")
                name = text(error, "name")
                self._shortens = _NAMED.get(name) is obs.AgentTrouble.CONTEXT
                message = text(error, "data", "message") or text(error, "message") or name
                yield self._trouble(message, number(error, "data", "statusCode"), _NAMED.get(name))

    def read_plain(self, line: str) -> Iterator[obs.Observation]:
        """Yield why a request failed: opencode repeats it for minutes without an event."""
        if logged := _LOGGED.match(line):
            yield self._trouble(logged["why"])

    def log(self, event: dict[str, Any]) -> Iterator[obs.LogEntry]:
        """Yield how one event reads. A tool is told with its answer."""
        part = mapping(event, "part")
        match text(event, "type"):
            case "text":
                yield from entries.message(text(part, "text"))
            case "tool_use":
                state = mapping(part, "state")
                yield from entries.tool_call(text(part, "tool"), state.get("input"))
                failed = text(state, "status") == "error"
                yield from entries.tool_result(state.get("output") or state.get("error"), failed=failed)
            case "step_finish" if text(part, "reason") == "stop":
                yield from entries.end()
            case "error":
                error = mapping(event, "error")
                yield from entries.error(text(error, "data", "message") or text(error, "message"))

    def _step(self, part: dict[str, Any]) -> Iterator[obs.Observation]:
        tokens, reason = mapping(part, "tokens"), text(part, "reason")
        cached = count(mapping(tokens, "cache"), "read")
        used = (
            count(tokens, "input", "output", "reasoning") + cached + count(mapping(tokens, "cache"), "write")
        )
        yield obs.Usage(used, number(part, "cost"), cache_read=cached)
        self._broken = reason not in _ENDINGS
        if reason == "stop" and not self._shortens:
            yield obs.AgentFinished()
        elif self._broken:
            yield _ENDED_EARLY.get(reason, _CUT_OFF)
        self._shortens = False
