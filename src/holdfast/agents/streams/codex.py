"""The stream of Codex, `exec --json`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.agents.streams.dialect import StreamDialect, count, mapping, text
from holdfast.core.observations import Activity, AgentFinished, Observation, SessionNamed, Usage

_TOOLS = ("command_execution", "file_change", "mcp_tool_call", "web_search", "collab_tool_call")


class CodexStream(StreamDialect):
    """Usage comes once, when the turn is over."""

    def read(self, event: dict[str, Any]) -> Iterator[Observation]:
        """Yield what one event tells."""
        match text(event, "type"):
            case "thread.started":
                yield SessionNamed(text(event, "thread_id"))
            case "turn.started":
                yield Activity()
            case "item.started" | "item.updated" | "item.completed" as when:
                yield from self._item(mapping(event, "item"), done=when == "item.completed")
            case "turn.completed":
                usage = mapping(event, "usage")
                cached = count(usage, "cached_input_tokens")  # among the input
                yield Usage(count(usage, "input_tokens", "output_tokens"), whole=True, cache_read=cached)
                yield AgentFinished()
            case "turn.failed" | "error":
                message = text(event, "error", "message") or text(event, "message")
                yield self._trouble(message)

    def _item(self, item: dict[str, Any], *, done: bool) -> Iterator[Observation]:
        kind = text(item, "type")
        if kind == "error":
            # A warning of Codex, such as an unknown model. The turn continues.
            return
        if kind in _TOOLS:
            yield Activity(tool=text(item, "command") or text(item, "tool") or kind, tool_done=done)
        elif kind == "agent_message":
            yield Activity(text=text(item, "text"))
        else:
            yield Activity()
