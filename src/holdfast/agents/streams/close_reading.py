"""A whole output, line by line: what each told, and which lines told nothing. It shows how well an agent's stream is known.

For people only: what follows from a stream is decided with `reader.py` alone, which reads the same bytes the same way.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from holdfast.agents.presets import Preset
from holdfast.agents.streams.dialect import text
from holdfast.agents.streams.reader import DIALECTS, LogReader, StreamReader
from holdfast.core.observations import Activity, Observation, StreamSummary, TroubleSeen, UnreadableEvent

_EXAMPLE_CHARS = 300
_KIND_CHARS = 80
_KEYS_SHOWN = 4
_TROUBLES_MAX = 20
_PLAIN_SHOWN = 3


@dataclass(slots=True)
class UnreadKind:
    """One kind of event that told nothing: how often it came, and the first of them."""

    kind: str
    count: int
    example: str


@dataclass(slots=True)
class CloseReading:
    """What a whole output told. `troubles` are all that were seen, also those that the agent got over.

    `events` and `plain` count its lines. A plain line is no event; `beside` are the first of those that told nothing,
    `last_beside` is the last of them.
    """

    summary: StreamSummary = field(default_factory=StreamSummary)
    tools: list[str] = field(default_factory=list)
    troubles: list[TroubleSeen] = field(default_factory=list)
    events: int = 0
    plain: int = 0
    beside: list[str] = field(default_factory=list)
    last_beside: str = ""
    unread: dict[str, UnreadKind] = field(default_factory=dict)

    def take(self, seen: Observation) -> None:
        """Add one observation."""
        self.summary.take(seen)
        if isinstance(seen, Activity) and seen.tool and seen.tool not in self.tools[-1:]:
            self.tools.append(seen.tool)
        if isinstance(seen, TroubleSeen) and seen not in self.troubles[-1:]:
            self.troubles = [*self.troubles, seen][-_TROUBLES_MAX:]

    def note_unread(self, line: str, event: dict[str, Any] | None) -> None:
        """Add a line that told nothing."""
        if event is None:
            self.last_beside = line[:_EXAMPLE_CHARS]
            self.beside += [self.last_beside] if len(self.beside) < _PLAIN_SHOWN else []
            return
        kind = _kind_of(event)
        known = self.unread.setdefault(kind, UnreadKind(kind, 0, line[:_EXAMPLE_CHARS]))
        known.count += 1


def read_closely(agent: Preset, output: bytes) -> CloseReading:
    """Read a whole output as `StreamReader` does, and note each line that told nothing, not even to `logs`."""
    reading, patterns = CloseReading(), agent.error_patterns()
    reader, log = StreamReader(agent.stream, patterns), LogReader(agent.stream, patterns)
    for line in filter(None, map(bytes.strip, output.split(b"\n"))):
        event = _event(line) if agent.stream in DIALECTS else None
        reading.events += event is not None
        reading.plain += event is None
        seen, told = reader.feed(line + b"\n"), log.feed(line + b"\n")
        _take_all(reading, seen)
        # The log has every plain line as it is. That tells nothing of the agent.
        if all(isinstance(one, UnreadableEvent) for one in seen) and (event is None or not told):
            reading.note_unread(line.decode(errors="replace"), event)
    _take_all(reading, reader.close())
    return reading


def _take_all(reading: CloseReading, seen: Iterable[Observation]) -> None:
    for observation in seen:
        reading.take(observation)


def _event(line: bytes) -> dict[str, Any] | None:
    if not line.startswith(b"{"):
        return None
    try:
        event = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    return event if isinstance(event, dict) else None


def _kind_of(event: dict[str, Any]) -> str:
    """Return how an event names itself: by its type and that of what is in it, else by its first keys."""
    names = [text(event, *path) for path in (("type",), ("subtype",), ("item", "type"), ("event", "type"))]
    named = ".".join(filter(None, names))
    return (named or f"an event with {', '.join(list(event)[:_KEYS_SHOWN])}")[:_KIND_CHARS]
