"""The stream of goose, `run --output-format stream-json`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from holdfast.agents.streams import log_entries as entries
from holdfast.agents.streams.dialect import StreamDialect, at, count, mapping, rows, text
from holdfast.core.observations import (
    Activity,
    AgentFinished,
    AgentTrouble,
    LogEntry,
    Observation,
    SessionNamed,
    TroubleSeen,
    Usage,
)

_ASKS = ("toolConfirmationRequest", "actionRequired")
_SESSION = re.compile(r"\\____\)\s+(\d{8}_\d+) · ")
_OWN_ID = re.compile(r"msg_[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_ERRORS = ("Ran into this error", "Network error: ")


class GooseStream(StreamDialect):
    """goose puts its own errors among the messages of the model, and ends with `complete` and status 0 after them.

    The model's messages are marked as inferred, or have the provider's id; goose's own have none, or one that it made.
    """

    _marks = False
    _last_word = False
    _failed = False

    def read(self, event: dict[str, Any]) -> Iterator[Observation]:
        """Yield what one event tells."""
        match text(event, "type"):
            case "message":
                own = self._is_own(mapping(event, "message"))
                for part in rows(event, "message", "content"):
                    yield self._part(part, own=own)
            case "error":
                self._failed = True
                yield self._trouble(text(event, "error") or text(event, "message"))
            case "complete":
                # Of the session, which an earlier attempt may have begun.
                yield self._of_session(Usage(count(event, "total_tokens")))
                if self._last_word and not self._failed:
                    yield AgentFinished()

    def read_plain(self, line: str) -> Iterator[Observation]:
        """Yield the session, which only the picture of a goose at the beginning names."""
        if found := _SESSION.match(line):
            yield SessionNamed(found[1])

    def log(self, event: dict[str, Any]) -> Iterator[LogEntry]:
        """Yield how one event reads."""
        match text(event, "type"):
            case "message":
                own = self._is_own(mapping(event, "message"))
                for part in rows(event, "message", "content"):
                    yield from _log_part(part, own=own)
            case "error":
                yield from entries.error(text(event, "error") or text(event, "message"))
            case "complete":
                yield from entries.end()

    def _is_own(self, message: dict[str, Any]) -> bool:
        """Whether goose itself says it, not the model."""
        if mapping(message, "metadata", "inference"):
            self._marks = True
            return False
        name = at(message, "id")
        return self._marks or name is None or (isinstance(name, str) and bool(_OWN_ID.fullmatch(name)))

    def _part(self, part: dict[str, Any], *, own: bool) -> Observation:
        kind, said = text(part, "type"), text(part, "text")
        self._last_word = self._failed = False
        if kind == "error" or (own and said.startswith(_ERRORS)):
            self._failed = True
            return self._trouble(text(part, "message") or said)
        if text(part, "notificationType") == "creditsExhausted":
            self._failed = True
            return TroubleSeen(AgentTrouble.CREDIT, text(part, "msg"))
        if kind in _ASKS:
            what = text(part, "toolName") or text(part, "data", "toolName") or "a tool"
            return TroubleSeen(AgentTrouble.PERMISSION, f"it asks whether it may use {what}", waits=True)
        if kind == "toolRequest":
            return Activity(tool=text(part, "toolCall", "value", "name") or "a tool")
        if kind == "toolResponse":
            return Activity(tool_done=True)
        self._last_word = bool(said) and not own
        return Activity(text=said)


def _log_part(part: dict[str, Any], *, own: bool) -> Iterator[LogEntry]:
    kind, said = text(part, "type"), text(part, "text")
    if kind == "error" or (own and said.startswith(_ERRORS)):
        yield from entries.error(text(part, "message") or said)
    elif kind in _ASKS:
        yield from entries.error(f"it asks whether it may use {text(part, 'toolName') or 'a tool'}")
    elif kind == "toolRequest":
        call = mapping(part, "toolCall", "value")
        yield from entries.tool_call(text(call, "name"), call.get("arguments"))
    elif kind == "toolResponse":
        value = mapping(part, "toolResult", "value")
        yield from entries.tool_result(value.get("content"), failed=value.get("isError") is True)
    else:
        yield from entries.message(said or text(part, "msg"))
