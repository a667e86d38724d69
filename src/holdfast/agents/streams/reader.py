"""Reads an agent's output: bytes, cut anywhere, become lines, and the agent's dialect reads them.

A line that is not an event is plain output: an error of the agent, perhaps, or the usage that aider prints.
No output can raise an error or stop a run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import msgspec

from holdfast.agents.presets import Preset
from holdfast.agents.streams.acp import AcpStream
from holdfast.agents.streams.claude import ClaudeStream
from holdfast.agents.streams.codex import CodexStream
from holdfast.agents.streams.copilot import CopilotStream
from holdfast.agents.streams.dialect import StreamDialect
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
_BESIDE_CHARS = 64_000
_decode = msgspec.json.Decoder().decode

LINE_BYTES_MAX = 4 * 1024 * 1024
"""A longer line is skipped: it is a picture or a whole file that a tool printed."""

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
"""The dialect of each of the plan's STREAMS except `raw`, which has no events."""


class StreamReader:
    """Reads one attempt's output as it comes. It keeps at most one unfinished line."""

    def __init__(self, stream: str, patterns: ErrorPatterns) -> None:
        dialect = DIALECTS.get(stream)
        self._dialect = None if dialect is None else dialect(patterns)
        self._patterns = patterns
        self._rest = b""
        self._skipping = False

    def feed(self, data: bytes) -> list[Observation]:
        """Return what the lines tell that `data` completes. Where the bytes are cut makes no difference."""
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
        """Note that bytes are missing here: the rest of the current line is skipped."""
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
            return list(self._read_line(line))
        except Exception:  # noqa: BLE001 - no output and no mistake in a dialect may stop the run
            return []

    def _read_line(self, line: bytes) -> Iterator[Observation]:
        if self._dialect is not None and line.startswith(b"{"):
            try:
                event = _decode(line)
            except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
                event = None
            if isinstance(event, dict):
                yield from self._dialect.read(event)
                return
        yield from plain_line(line.decode(errors="replace"), self._patterns)


def plain_line(line: str, patterns: ErrorPatterns) -> Iterator[Observation]:
    """Yield what a line of plain output tells: an error of the agent, or the usage of a turn."""
    trouble = patterns.of_line(line)
    usage = _AIDER_USAGE.match(line)
    if trouble is not None:
        yield TroubleSeen(trouble, line)
    elif usage is not None:
        # A turn that was charged succeeded, even after an error.
        yield AgentFinished()
        yield Usage(_amount(usage["sent"]) + _amount(usage["got"]), float(usage["cost"] or 0))


def _amount(text: str) -> int:
    scale = _SCALE.get(text[-1], 1)
    return int(float(text.rstrip("kKM").replace(",", "")) * scale)


def observe_output(agent: Preset | None, output: bytes) -> StreamSummary:
    """Return what a whole output tells."""
    summary = StreamSummary()
    if agent is not None:
        reader = StreamReader(agent.stream, agent.error_patterns())
        for seen in (*reader.feed(output), *reader.close()):
            summary.take(seen)
    return summary


def readable_output(agent: Preset | None, output: bytes, summary: StreamSummary) -> str:
    """Return the readable part of an output: all if plain, else the plain lines and the last text."""
    text = output.decode(errors="replace")
    if agent is None or agent.stream == "raw":
        return text
    beside = [line for line in text[-_BESIDE_CHARS:].splitlines() if not line.lstrip().startswith("{")]
    return "\n".join(part for part in (*beside, summary.message, summary.text) if part)
