"""From raw bytes to observations: lines, however the chunks are cut, then the dialect of the agent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import msgspec

from holdfast.agents.streams.acp import Acp
from holdfast.agents.streams.claude import Claude
from holdfast.agents.streams.codex import Codex
from holdfast.agents.streams.copilot import Copilot
from holdfast.agents.streams.gemini import Gemini
from holdfast.agents.streams.goose import Goose
from holdfast.agents.streams.opencode import Opencode
from holdfast.agents.streams.raw import plain_line
from holdfast.agents.streams.signals import Signals
from holdfast.agents.streams.vibe import Vibe
from holdfast.core.observations import Observation

LINE_BYTES_MAX = 4 * 1024 * 1024
"""A longer line is passed over: a picture or a whole file that a tool printed, not an event worth its memory."""
_decode = msgspec.json.Decoder().decode


class Dialect(Protocol):
    """What one agent's events mean. One object reads one stream, from its beginning."""

    def read(self, event: dict[str, Any]) -> Iterable[Observation]:
        """Return what one event tells; nothing for an event that is not known."""


DIALECTS: dict[str, Callable[[Signals], Dialect]] = {
    "claude": Claude,
    "codex": Codex,
    "gemini": Gemini,
    "goose": Goose,
    "opencode": Opencode,
    "copilot": Copilot,
    "vibe": Vibe,
    "acp": Acp,
}
"""A reader for each of the plan's STREAMS but `raw`, which has no events."""


class StreamReader:
    """Reads one attempt's output as it comes. It keeps at most one unfinished line."""

    def __init__(self, stream: str, signals: Signals) -> None:
        dialect = DIALECTS.get(stream)
        self._dialect = None if dialect is None else dialect(signals)
        self._signals = signals
        self._rest = b""
        self._skipping = False

    def feed(self, data: bytes) -> list[Observation]:
        """Return what the lines tell that `data` completes. Cut anywhere, the same bytes tell the same."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        found: list[Observation] = []
        for line in lines:
            if not self._skipping:
                found += self._observe(line)
            self._skipping = False
        if self._skipping or len(self._rest) > LINE_BYTES_MAX:
            self._rest, self._skipping = b"", True
        return found

    def skip(self) -> None:
        """Take note that bytes are missing here: what follows up to the next line end is no whole line."""
        self._rest, self._skipping = b"", True

    def close(self) -> list[Observation]:
        """Return what an unfinished last line tells."""
        line, self._rest = self._rest, b""
        return [] if self._skipping else self._observe(line)

    def _observe(self, line: bytes) -> list[Observation]:
        line = line.strip()
        if not line or len(line) > LINE_BYTES_MAX:
            return []
        try:
            return list(self._told(line))
        except Exception:  # noqa: BLE001 - whatever an agent prints, and however a dialect errs, the run goes on
            return []

    def _told(self, line: bytes) -> Iterator[Observation]:
        if self._dialect is not None and line.startswith(b"{"):
            try:
                event = _decode(line)
            except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
                event = None
            if isinstance(event, dict):
                yield from self._dialect.read(event)
                return
        yield from plain_line(line.decode(errors="replace"), self._signals)
