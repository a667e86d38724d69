"""From raw bytes to observations: lines, however the chunks are cut, then the dialect of the agent."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import msgspec

from holdfast.agents.presets import Preset
from holdfast.agents.streams.acp import AcpStream
from holdfast.agents.streams.claude import ClaudeStream
from holdfast.agents.streams.codex import CodexStream
from holdfast.agents.streams.copilot import CopilotStream
from holdfast.agents.streams.error_patterns import ErrorPatterns
from holdfast.agents.streams.gemini import GeminiStream
from holdfast.agents.streams.goose import GooseStream
from holdfast.agents.streams.opencode import OpencodeStream
from holdfast.agents.streams.vibe import VibeStream
from holdfast.core.observations import AgentFinished, Observation, StreamSummary, TroubleSeen, Usage

_AIDER_USAGE = re.compile(
    r"Tokens: (?P<sent>[\d.,]+[kKM]?) sent, (?:[\d.,]+[kKM]? cache (?:write|hit), )*(?P<got>[\d.,]+[kKM]?) received\."
    r"(?: Cost: \$(?P<cost>[\d.]+) message)?"
)
_SCALE = {"k": 1_000, "K": 1_000, "M": 1_000_000}


def plain_line(line: str, signals: ErrorPatterns) -> Iterator[Observation]:
    """Yield what a line of plain output tells: an error of the agent's own, or what a turn cost."""
    trouble = signals.of_line(line)
    usage = _AIDER_USAGE.match(line)
    if trouble is not None:
        yield TroubleSeen(trouble, line)
    elif usage is not None:
        # A turn that was paid for is a turn that went well, whatever went wrong before it.
        yield AgentFinished()
        yield Usage(_amount(usage["sent"]) + _amount(usage["got"]), float(usage["cost"] or 0))


def _amount(text: str) -> int:
    scale = _SCALE.get(text[-1], 1)
    return int(float(text.rstrip("kKM").replace(",", "")) * scale)


LINE_BYTES_MAX = 4 * 1024 * 1024
"""A longer line is passed over: a picture or a whole file that a tool printed, not an event worth its memory."""
_decode = msgspec.json.Decoder().decode


class StreamDialect(Protocol):
    """What one agent's events mean. One object reads one stream, from its beginning."""

    def read(self, event: dict[str, Any]) -> Iterable[Observation]:
        """Return what one event tells; nothing for an event that is not known."""


DIALECTS: dict[str, Callable[[ErrorPatterns], StreamDialect]] = {
    "claude": ClaudeStream,
    "codex": CodexStream,
    "gemini": GeminiStream,
    "goose": GooseStream,
    "opencode": OpencodeStream,
    "copilot": CopilotStream,
    "vibe": VibeStream,
    "acp": AcpStream,
}
"""A reader for each of the plan's STREAMS but `raw`, which has no events."""


class StreamReader:
    """Reads one attempt's output as it comes. It keeps at most one unfinished line."""

    def __init__(self, stream: str, signals: ErrorPatterns) -> None:
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


_BESIDE_CHARS = 64_000


def observe_output(agent: Preset | None, output: bytes) -> StreamSummary:
    """Return what a whole output tells."""
    heard = StreamSummary()
    if agent is not None:
        reader = StreamReader(agent.stream, agent.signals())
        for seen in (*reader.feed(output), *reader.close()):
            heard.take(seen)
    return heard


def readable_output(agent: Preset | None, output: bytes, heard: StreamSummary) -> str:
    """Return what can be read of an output: all of it if it is plain, else what is no event, and the last word."""
    text = output.decode(errors="replace")
    if agent is None or agent.stream == "raw":
        return text
    beside = [line for line in text[-_BESIDE_CHARS:].splitlines() if not line.lstrip().startswith("{")]
    return "\n".join(part for part in (*beside, heard.message, heard.text) if part)
