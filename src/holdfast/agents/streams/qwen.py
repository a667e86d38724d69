"""The stream of Qwen Code, `--output-format stream-json`: that of Claude Code, but for how a failed request is told."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from holdfast.agents.streams.claude import ClaudeStream
from holdfast.agents.streams.dialect import count, mapping, rows, text
from holdfast.agents.streams.error_patterns import ErrorPatterns
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

_FAILED = "[API Error: "
_BEFORE_QUOTE = frozenset(" \t\n`\"'(*")
_TOKENS = ("input_tokens", "output_tokens", "total_tokens")
_REQUEST = re.compile(
    r"\[log_\w+(?:, retryOf: log_\w+)?\] "
    r"(?:\w+ \S+ (?P<how>succeeded|failed) with status (?P<status>\d{3})|connection (?:failed|timed out))\b"
)
"""How the client that Qwen Code uses tells what a request came to, with OPENAI_LOG=info."""


class QwenStream(ClaudeStream):
    """A request that failed for good is told in brackets at the end of a message, for which no tokens are counted.

    Version 0.15 then calls the whole a success and ends with status 0. A message that ends in such brackets and has
    tokens could be the model's own words, or those of a provider that counts while it answers: it is no last word. Nor is a
    message without tokens after others that had some: its answer broke off. Where no message has any, only brackets that are
    the whole message, or follow what was said without a space, tell of a failure.

    The result has the tokens of the whole session, of which earlier attempts had their part.
    """

    def __init__(self, patterns: ErrorPatterns) -> None:
        super().__init__(patterns)
        self._request_error = ""
        self._in_doubt = False
        self._counted = False
        self._ended = False

    def read(self, event: dict[str, Any]) -> Iterator[Observation]:
        """Yield what one event tells."""
        self._ended = text(event, "type") == "result"
        if text(event, "type") == "assistant":
            self._look_at(mapping(event, "message"))
            if self._request_error:
                yield SessionNamed(text(event, "session_id"))
                yield self._trouble(self._request_error)
                return
        for seen in super().read(self._as_it_went(event)):
            if isinstance(seen, Usage) and seen.whole:
                yield self._of_session(seen)
            elif not (self._in_doubt and isinstance(seen, AgentFinished)):
                yield seen

    def read_plain(self, line: str) -> Iterator[Observation]:
        """Yield what a request to the model came to: Qwen Code repeats a failed one for minutes and says nothing else.

        After one that is answered a long answer may follow, again without an event.
        """
        request = None if self._ended else _REQUEST.match(line)
        if request is None:
            return
        status = int(request["status"] or 0)
        if request["how"] == "succeeded":
            yield Activity()
        elif not status:
            yield TroubleSeen(AgentTrouble.OUTAGE, "no connection to the model's provider")
        elif (trouble := self._patterns.of_error("", status)) is not AgentTrouble.ERROR:
            yield TroubleSeen(trouble, f"a request to the model failed with status {status}")

    def log(self, event: dict[str, Any]) -> Iterator[LogEntry]:
        """Yield how one event reads."""
        if text(event, "type") == "assistant":
            self._look_at(mapping(event, "message"))
        return super().log(self._as_it_went(event))

    def _look_at(self, message: dict[str, Any]) -> None:
        """Find out whether the message, the latest one, ends with a failed request."""
        said = [text(part, "text").rstrip() for part in rows(message, "content")]
        last = said[-1] if said else ""
        found = last.rfind(_FAILED) if last.endswith("]") else -1
        counted = count(mapping(message, "usage"), *_TOKENS) > 0
        is_quote = found > 0 and not self._counted and last[found - 1] in _BEFORE_QUOTE
        self._in_doubt = found >= 0 or (self._counted and not counted)
        self._counted = self._counted or counted
        self._request_error = "" if found < 0 or counted or is_quote else last[found:]

    def _as_it_went(self, event: dict[str, Any]) -> dict[str, Any]:
        """Return the event, or, if it calls a failed request a success, what newer versions say in its place."""
        if not self._request_error or text(event, "type") != "result" or event.get("is_error") is True:
            return event
        error = {"message": self._request_error}
        return {**event, "subtype": "error_during_execution", "is_error": True, "result": "", "error": error}
