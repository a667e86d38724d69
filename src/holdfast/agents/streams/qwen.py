"""The stream of Qwen Code, `--output-format stream-json`: that of Claude Code, but for how a failed request is told."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from holdfast.agents.streams.claude import ClaudeStream
from holdfast.agents.streams.dialect import count, mapping, rows, text
from holdfast.agents.streams.error_patterns import ErrorPatterns
from holdfast.core.observations import Activity, AgentFinished, LogEntry, Observation, SessionNamed

_FAILED = "[API Error: "
_TOKENS = ("input_tokens", "output_tokens", "total_tokens")
_ANSWERED = re.compile(r"\[log_\w+(, retryOf: log_\w+)?\] \w+ \S+ succeeded with status ")
"""How the client that Qwen Code uses tells of a request that is being answered, with OPENAI_LOG=info."""


class QwenStream(ClaudeStream):
    """A request that failed for good is told in brackets at the end of a message, for which no tokens are counted.

    Version 0.15 then calls the whole a success and ends with status 0. A message that ends in such brackets and has
    tokens could be the model's own words, or those of a provider that counts while it answers: it is no last word.
    """

    def __init__(self, patterns: ErrorPatterns) -> None:
        super().__init__(patterns)
        self._failure = ""
        self._in_doubt = False
        self._ended = False

    def read(self, event: dict[str, Any]) -> Iterator[Observation]:
        """Yield what one event tells."""
        self._ended = text(event, "type") == "result"
        if text(event, "type") == "assistant":
            self._look_at(mapping(event, "message"))
            if self._failure:
                yield SessionNamed(text(event, "session_id"))
                yield self._trouble(self._failure)
                return
        for seen in super().read(self._as_it_went(event)):
            if not (self._in_doubt and isinstance(seen, AgentFinished)):
                yield seen

    def read_plain(self, line: str) -> Iterator[Observation]:
        """Yield that the model answers: a failed request was repeated, and a long answer may follow without an event."""
        if _ANSWERED.match(line) and not self._ended:
            yield Activity()

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
        counted = count(mapping(message, "usage"), *_TOKENS)
        self._in_doubt = found >= 0 and counted > 0
        self._failure = last[found:] if found >= 0 and not counted else ""

    def _as_it_went(self, event: dict[str, Any]) -> dict[str, Any]:
        """Return the event, or, if it calls a failed request a success, what newer versions say in its place."""
        if not self._failure or text(event, "type") != "result" or event.get("is_error") is True:
            return event
        error = {"message": self._failure}
        return {**event, "subtype": "error_during_execution", "is_error": True, "result": "", "error": error}
