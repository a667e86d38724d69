"""Reads an agent's output: bytes, cut anywhere, become lines, and the agent's dialect reads them.

A line that is not an event is plain output: an error of the agent, perhaps. One in braces that cannot be read was an event:
what it told is unknown, so the agent did not end before it. No output can raise an error or stop a run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

import msgspec

from holdfast.agents.presets import Preset
from holdfast.agents.streams.acp import AcpStream
from holdfast.agents.streams.aider import AiderStream
from holdfast.agents.streams.claude import ClaudeStream
from holdfast.agents.streams.cline import ClineStream
from holdfast.agents.streams.codex import CodexStream
from holdfast.agents.streams.copilot import CopilotStream
from holdfast.agents.streams.dialect import StreamDialect
from holdfast.agents.streams.droid import DroidStream
from holdfast.agents.streams.error_patterns import ErrorPatterns
from holdfast.agents.streams.gemini import GeminiStream
from holdfast.agents.streams.goose import GooseStream
from holdfast.agents.streams.mini_swe_agent import MiniSweAgentStream
from holdfast.agents.streams.opencode import OpencodeStream
from holdfast.agents.streams.openhands import OpenHandsStream
from holdfast.agents.streams.pi import PiStream
from holdfast.agents.streams.qwen import QwenStream
from holdfast.agents.streams.vibe import VibeStream
from holdfast.core.observations import (
    EntryKind,
    LogEntry,
    Observation,
    StreamSummary,
    TroubleSeen,
    UnreadableEvent,
)
from holdfast.core.projection import Spent

_NOTHING_SPENT = Spent()
_BESIDE_CHARS = 64_000
_decode = msgspec.json.Decoder().decode
_Read = TypeVar("_Read")

LINE_BYTES_MAX = 4 * 1024 * 1024
"""A longer line is skipped: it is a picture or a whole file that a tool printed."""

DIALECTS: dict[str, Callable[[ErrorPatterns], StreamDialect]] = {
    "claude": ClaudeStream,
    "codex": CodexStream,
    "gemini": GeminiStream,
    "goose": GooseStream,
    "opencode": OpencodeStream,
    "qwen": QwenStream,
    "aider": AiderStream,
    "copilot": CopilotStream,
    "vibe": VibeStream,
    "mini-swe-agent": MiniSweAgentStream,
    "acp": AcpStream,
    "cline": ClineStream,
    "droid": DroidStream,
    "pi": PiStream,
    "openhands": OpenHandsStream,
}
"""The dialect of each of the plan's STREAMS except `raw`, which has no events."""


class _LineReader(ABC, Generic[_Read]):
    """Cuts output into lines as it comes and reads each. It keeps at most one unfinished line."""

    def __init__(self, stream: str, patterns: ErrorPatterns) -> None:
        dialect = DIALECTS.get(stream)
        self._dialect = None if dialect is None else dialect(patterns)
        self._patterns = patterns
        self._rest = b""
        self._skipping = False

    def feed(self, data: bytes) -> list[_Read]:
        """Return what the lines tell that `data` completes. Where the bytes are cut makes no difference."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        found: list[_Read] = []
        for line in lines:
            if not self._skipping:
                found += self._read(line)
            self._skipping = False
        if not self._skipping and len(self._rest) > LINE_BYTES_MAX:
            found += self._read_unreadable(self._rest)
            self._skipping = True
        if self._skipping:
            self._rest = b""
        return found

    def skip(self) -> None:
        """Note that bytes are missing here: the rest of the current line is skipped."""
        self._rest, self._skipping = b"", True

    def close(self) -> list[_Read]:
        """Return what an unfinished last line tells."""
        line, self._rest = self._rest, b""
        return [] if self._skipping else self._read(line)

    def _read(self, line: bytes) -> list[_Read]:
        line = line.strip()
        if len(line) > LINE_BYTES_MAX:
            return list(self._read_unreadable(line))
        if not line:
            return []
        try:
            event = self._event(line)
            if event is not None and self._dialect is not None:
                return list(self._read_event(self._dialect, event))
            return [*self._read_plain(line.decode(errors="replace")), *self._read_unreadable(line)]
        except Exception:  # noqa: BLE001 - no output and no mistake in a dialect may stop the run
            return list(self._read_unreadable(line))

    def _is_event(self, line: bytes) -> bool:
        return self._dialect is not None and self._dialect.has_events and line.lstrip().startswith(b"{")

    def _event(self, line: bytes) -> dict[str, Any] | None:
        if not self._is_event(line):
            return None
        try:
            event = _decode(line)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            return None
        return event if isinstance(event, dict) else None

    @abstractmethod
    def _read_event(self, dialect: StreamDialect, event: dict[str, Any]) -> Iterable[_Read]:
        """Return what an event tells."""

    @abstractmethod
    def _read_plain(self, line: str) -> Iterable[_Read]:
        """Return what a line tells that is no event."""

    def _read_unreadable(self, line: bytes) -> Iterable[_Read]:  # noqa: ARG002 - for people it tells nothing
        """Return what a line tells that could not be read, beside what it tells as a plain one."""
        return ()


class StreamReader(_LineReader[Observation]):
    """Reads what one attempt's output means. `session_before`: what the session that the attempt resumes had used."""

    def __init__(self, stream: str, patterns: ErrorPatterns, session_before: Spent = _NOTHING_SPENT) -> None:
        super().__init__(stream, patterns)
        if self._dialect is not None:
            self._dialect.session_before = session_before

    def new_summary(self) -> StreamSummary:
        """Return the summary to which what this reader observes is added."""
        dialect = self._dialect
        return StreamSummary(
            has_last_word=dialect is not None, ends_with_words=dialect is not None and dialect.ends_with_words
        )

    def _read_event(self, dialect: StreamDialect, event: dict[str, Any]) -> Iterable[Observation]:
        return dialect.read(event)

    def _read_plain(self, line: str) -> Iterable[Observation]:
        if self._dialect is not None:
            yield from self._dialect.read_plain(line)
        if self._dialect is None or not self._dialect.is_quoted():
            yield from plain_line(line, self._patterns)

    def _read_unreadable(self, line: bytes) -> Iterable[Observation]:
        return (UnreadableEvent(),) if self._is_event(line) else ()


class LogReader(_LineReader[LogEntry]):
    """Reads one attempt's output as entries of a log for people."""

    def close(self) -> list[LogEntry]:
        """Return an unfinished last line, and a message that was not whole."""
        last = super().close()
        return last if self._dialect is None else [*last, *self._dialect.log_rest()]

    def _read_event(self, dialect: StreamDialect, event: dict[str, Any]) -> Iterable[LogEntry]:
        return dialect.log(event)

    def _read_plain(self, line: str) -> Iterable[LogEntry]:
        yield LogEntry(EntryKind.PLAIN, line)


def plain_line(line: str, patterns: ErrorPatterns) -> Iterator[Observation]:
    """Yield what a line of plain output tells: an error of the agent, if it is one."""
    trouble = patterns.of_line(line)
    if trouble is not None:
        yield TroubleSeen(trouble, line)


def observe_output(agent: Preset | None, output: bytes) -> StreamSummary:
    """Return what a whole output tells."""
    if agent is None:
        return StreamSummary()
    reader = StreamReader(agent.stream, agent.error_patterns())
    summary = reader.new_summary()
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
