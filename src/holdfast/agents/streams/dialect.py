"""What every dialect is built on: its base class, and tolerant access to the fields of an event.

Another program wrote the event: a value of the wrong kind counts as missing.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

from holdfast.agents.streams.error_patterns import ErrorPatterns
from holdfast.core.observations import AgentTrouble, LogEntry, Observation, TroubleSeen, Usage
from holdfast.core.projection import Spent

_MILLISECONDS_MIN = 1e11
"""In seconds this would be in the year 5138."""


class StreamDialect(ABC):
    """The meaning of one agent's events. One object reads one stream, from its beginning.

    Without `has_events` a line in braces is a line like others: what a tool printed. `ends_with_words`: a model that came to
    its end says something after its last tool call.
    """

    has_events = True
    ends_with_words = True

    def __init__(self, patterns: ErrorPatterns) -> None:
        self._patterns = patterns
        self.session_before = Spent()
        """What the session that this stream resumes had used, by its earlier streams. Totals that count on from there include it."""

    @abstractmethod
    def read(self, event: dict[str, Any]) -> Iterable[Observation]:
        """Return what one event tells; nothing for an unknown event."""

    def read_plain(self, line: str) -> Iterable[Observation]:  # noqa: ARG002 - most have no such lines
        """Return what a line tells that is no event, beside what the preset's patterns find in it."""
        return ()

    def is_quoted(self) -> bool:
        """Tell whether the plain line that was read last is not the agent's own: what a tool printed, or the task."""
        return False

    @abstractmethod
    def log(self, event: dict[str, Any]) -> Iterable[LogEntry]:
        """Return how one event reads for people; nothing for an event that tells them nothing, or is unknown."""

    def log_rest(self) -> Iterable[LogEntry]:
        """Return what `log` held back because more of it could come."""
        return ()

    def _of_session(self, total: Usage) -> Usage:
        """Return what this stream used, of a total that counts the whole session."""
        spent = Spent(tokens=total.tokens, cost_usd=total.cost_usd, cache_read=total.cache_read)
        new = spent.beyond(self.session_before)
        return Usage(new.tokens, new.cost_usd, whole=True, cache_read=new.cache_read)

    def _trouble(self, message: str, status: float = 0, known: AgentTrouble | None = None) -> TroubleSeen:
        """Return an error of the agent: one that is `known`, else by its message, else by its HTTP status."""
        return TroubleSeen(known or self._patterns.of_error(message, status), message)


class PlainDialect(StreamDialect):
    """The meaning of an output without events: only its lines tell."""

    has_events = False

    def read(self, event: dict[str, Any]) -> Iterable[Observation]:  # noqa: ARG002 - there are none
        """Return nothing: there are no events."""
        return ()

    def log(self, event: dict[str, Any]) -> Iterable[LogEntry]:  # noqa: ARG002 - there are none
        """Return nothing: there are no events."""
        return ()


def mapping(value: Any, *path: str) -> dict[str, Any]:
    """Return the mapping at a path of keys; empty if there is none."""
    found = at(value, *path)
    return found if isinstance(found, dict) else {}


def text(value: Any, *path: str) -> str:
    """Return the text at a path of keys; empty if there is none."""
    found = at(value, *path)
    return found if isinstance(found, str) else ""


def number(value: Any, *path: str) -> float:
    """Return the number at a path of keys; 0 if there is none, or if it is not an amount."""
    found = at(value, *path)
    if isinstance(found, bool) or not isinstance(found, int | float):
        return 0.0
    try:
        amount = float(found)
    except OverflowError:
        return 0.0
    return amount if math.isfinite(amount) and amount > 0 else 0.0


def wall_time(value: Any, *path: str) -> float:
    """Return the wall time at a path of keys, which may be in milliseconds; 0 if there is none."""
    found = number(value, *path)
    return found / 1000 if found >= _MILLISECONDS_MIN else found


def count(value: Any, *names: str) -> int:
    """Return the sum of the numbers that a mapping has under these names."""
    return int(sum(min(number(value, name), 1e12) for name in names))


def rows(value: Any, *path: str) -> Iterator[dict[str, Any]]:
    """Yield the mappings of the list at a path of keys."""
    found = at(value, *path)
    if isinstance(found, list):
        yield from (row for row in found if isinstance(row, dict))


def at(value: Any, *path: str) -> Any:
    """Return the value at a path of keys; None if there is none."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value
