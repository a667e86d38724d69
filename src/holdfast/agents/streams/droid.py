"""The stream of Droid, `exec -o stream-json`: messages, tool calls, errors, and a completion with the usage of all turns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.agents.streams import log_entries as entries
from holdfast.agents.streams.dialect import StreamDialect, count, mapping, text
from holdfast.core.observations import Activity, AgentFinished, LogEntry, Observation, SessionNamed, Usage

_TOKENS = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


class DroidStream(StreamDialect):
    """A `completion` is the last word only if no error came after the last piece of work."""

    _failed = False

    def read(self, event: dict[str, Any]) -> Iterator[Observation]:
        """Yield what one event tells."""
        match text(event, "type"):
            case "system":
                yield SessionNamed(text(event, "session_id"))
            case "message" if text(event, "role") == "assistant":
                self._failed = False
                yield Activity(text=text(event, "text"))
            case "reasoning":
                yield Activity()
            case "tool_call":
                self._failed = False
                yield Activity(tool=text(event, "toolName") or "a tool")
            case "tool_result":
                yield Activity(tool_done=True)
            case "error":
                self._failed = True
                yield self._trouble(text(event, "message"))
            case "completion":
                used = mapping(event, "usage")
                cached = count(used, "cache_read_input_tokens")
                yield Usage(count(used, *_TOKENS), whole=True, cache_read=cached)
                if not self._failed:
                    yield AgentFinished(text(event, "finalText"))

    def log(self, event: dict[str, Any]) -> Iterator[LogEntry]:
        """Yield how one event reads."""
        match text(event, "type"):
            case "message" if text(event, "role") == "assistant":
                yield from entries.message(text(event, "text"))
            case "tool_call":
                yield from entries.tool_call(text(event, "toolName"), event.get("parameters"))
            case "tool_result":
                failed = event.get("isError") is True
                yield from entries.tool_result(_answer(text(event, "value"), failed=failed), failed=failed)
            case "error":
                yield from entries.error(text(event, "message"))
            case "completion":
                yield from entries.end()


def _answer(value: str, *, failed: bool) -> str:
    """Return what a tool answered. Those that change files answer for programs what their call has told already."""
    return "" if value.startswith('{"') and not failed else value
