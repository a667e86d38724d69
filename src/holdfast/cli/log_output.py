"""How `logs` prints the output of one attempt: as it is, line by line with a prefix, readable, or as JSON.

A program that prints plain output gets its own bytes back. On a terminal nothing that an agent printed steers it.
"""

from __future__ import annotations

import sys
from abc import abstractmethod
from codecs import getincrementaldecoder
from collections.abc import Iterable
from typing import Any, Protocol

import msgspec

from holdfast.agents.streams.error_patterns import ErrorPatterns
from holdfast.agents.streams.reader import LogReader
from holdfast.core.observations import EntryKind, LogEntry
from holdfast.redaction import redact
from holdfast.views.log_text import entry_lines
from holdfast.views.text import terminal_safe


class LogOutput(Protocol):
    """Takes the bytes of one attempt's output as they come and prints them."""

    def write(self, data: bytes) -> None:
        """Print what these bytes add."""

    def skip(self) -> None:
        """Note that bytes are missing here."""
        return

    def close(self) -> None:
        """Print what was held back. The output is over, or another attempt follows."""
        return


def make_output(stream: str, patterns: ErrorPatterns, prefix: str, about: dict[str, Any] | None) -> LogOutput:
    """Return the output for a stream. `about` is what each line of JSON says besides its entry; without it, text is printed."""
    if about is not None:
        return _JsonOutput(stream, patterns, about)
    if stream != "raw":
        return _ReadableOutput(stream, patterns, prefix)
    return _PrefixedOutput(prefix) if prefix else _BytesOutput()


class _BytesOutput(LogOutput):
    """The very bytes; on a terminal without what would steer it."""

    def __init__(self) -> None:
        self._decode = getincrementaldecoder("utf-8")(errors="replace").decode

    def write(self, data: bytes) -> None:
        safe = terminal_safe(self._decode(data)).encode() if sys.stdout.isatty() else data
        sys.stdout.buffer.write(safe)
        sys.stdout.buffer.flush()


class _PrefixedOutput(LogOutput):
    """Whole lines, each with a prefix."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._rest = b""

    def write(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        _print_lines(self._prefix, (line.decode(errors="replace") for line in lines))

    def close(self) -> None:
        rest, self._rest = self._rest, b""
        if rest:
            _print_lines(self._prefix, [rest.decode(errors="replace")])


class _EntryOutput(LogOutput):
    """The events of a stream, as entries. How one is printed is for those that derive from this to say."""

    def __init__(self, stream: str, patterns: ErrorPatterns) -> None:
        self._reader = LogReader(stream, patterns)

    def write(self, data: bytes) -> None:
        self._print(self._reader.feed(data))

    def skip(self) -> None:
        self._reader.skip()

    def close(self) -> None:
        self._print(self._reader.close())

    @abstractmethod
    def _print(self, entries: Iterable[LogEntry]) -> None: ...


class _ReadableOutput(_EntryOutput):
    """The events of a stream as lines for people."""

    def __init__(self, stream: str, patterns: ErrorPatterns, prefix: str) -> None:
        super().__init__(stream, patterns)
        self._prefix = prefix

    def _print(self, entries: Iterable[LogEntry]) -> None:
        # What a stream wrote with escapes is spelled out here: it must not uncover a secret.
        _print_lines(self._prefix, (redact(line) for entry in entries for line in entry_lines(entry)))


class _JsonOutput(_EntryOutput):
    """Each entry as a line of JSON. A line of plain output is an entry, too."""

    def __init__(self, stream: str, patterns: ErrorPatterns, about: dict[str, Any]) -> None:
        super().__init__(stream, patterns)
        self._about = about

    def _print(self, entries: Iterable[LogEntry]) -> None:
        for entry in entries:
            said = {"kind": EntryKind(entry.kind), "text": redact(entry.text), "detail": redact(entry.detail)}
            print(msgspec.json.encode({**self._about, **said}).decode())
        sys.stdout.flush()


def _print_lines(prefix: str, lines: Iterable[str]) -> None:
    for line in lines:
        text = prefix + line + "\n"
        sys.stdout.buffer.write(
            (terminal_safe(text) if sys.stdout.isatty() else text).encode(errors="replace")
        )
    sys.stdout.buffer.flush()
