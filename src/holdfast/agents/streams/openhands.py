"""The stream of OpenHands, `--headless --json`: the events of its conversation between plain lines, without usage and session.

Its last word is its tool `finish`. It ends with a message as well, but an answer that broke off and a refusal are such
messages too, without a trace of it: in doubt the work is not done.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.agents.streams import log_entries as entries
from holdfast.agents.streams.dialect import StreamDialect, mapping, rows, text
from holdfast.core.observations import Activity, AgentFinished, LogEntry, Observation

_FINISH = "finish"


class OpenHandsStream(StreamDialect):
    """An error of a tool goes back to the model; an error of the conversation ends it."""

    def read(self, event: dict[str, Any]) -> Iterator[Observation]:
        """Yield what one event tells."""
        match text(event, "kind"):
            case "MessageEvent" if text(event, "source") == "agent":
                yield Activity(text=_said(mapping(event, "llm_message")))
            case "ActionEvent" if text(event, "tool_name") == _FINISH:
                yield AgentFinished(text(event, "action", "message"))
            case "ActionEvent":
                yield Activity(tool=text(event, "tool_name") or "a tool")
            case "ObservationEvent" | "AgentErrorEvent" | "UserRejectObservation":
                if text(event, "tool_name") != _FINISH:
                    yield Activity(tool_done=True)
            case "ConversationErrorEvent":
                yield self._trouble(f"{text(event, 'code')}: {text(event, 'detail')}")

    def log(self, event: dict[str, Any]) -> Iterator[LogEntry]:
        """Yield how one event reads."""
        match text(event, "kind"):
            case "MessageEvent" if text(event, "source") == "agent":
                yield from entries.message(_said(mapping(event, "llm_message")))
            case "ActionEvent" if text(event, "tool_name") == _FINISH:
                yield from entries.message(text(event, "action", "message"))
                yield from entries.end()
            case "ActionEvent":
                yield from entries.tool_call(text(event, "tool_name"), event.get("action"))
            case "ObservationEvent":
                result = mapping(event, "observation")
                yield from entries.tool_result(result, failed=result.get("is_error") is True)
            case "AgentErrorEvent":
                yield from entries.tool_result(text(event, "error"), failed=True)
            case "ConversationErrorEvent":
                yield from entries.error(text(event, "detail") or text(event, "code"))


def _said(message: dict[str, Any]) -> str:
    return "\n".join(text(part, "text") for part in rows(message, "content"))
