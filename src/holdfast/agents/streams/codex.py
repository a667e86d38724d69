"""The stream of Codex, `exec --json`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.agents.streams import log_entries as entries
from holdfast.agents.streams.dialect import StreamDialect, count, mapping, rows, text
from holdfast.core.observations import Activity, AgentFinished, LogEntry, Observation, SessionNamed, Usage

_TOOLS = ("command_execution", "file_change", "mcp_tool_call", "web_search", "collab_tool_call")


class CodexStream(StreamDialect):
    """Usage comes once, when the turn is over: that of the whole session, of which earlier attempts had their part.

    An error with "Reconnecting" is one that Codex tries to get over by itself. It counts until work goes on.
    """

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
                yield self._of_session(
                    Usage(count(usage, "input_tokens", "output_tokens"), cache_read=cached)
                )
                yield AgentFinished()
            case "turn.failed" | "error":
                message = text(event, "error", "message") or text(event, "message")
                yield self._trouble(message)

    def log(self, event: dict[str, Any]) -> Iterator[LogEntry]:
        """Yield how one event reads. An item is told when it begins, if it is a tool, and when it is complete."""
        match text(event, "type"):
            case "item.started":
                yield from _log_start(mapping(event, "item"))
            case "item.completed":
                yield from _log_item(mapping(event, "item"))
            case "turn.completed":
                yield from entries.end()
            case "turn.failed" | "error":
                yield from entries.error(text(event, "error", "message") or text(event, "message"))

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


def _log_start(item: dict[str, Any]) -> Iterator[LogEntry]:
    match text(item, "type"):
        case "command_execution":
            yield from entries.tool_call("run", {"command": text(item, "command")})
        case "mcp_tool_call" | "collab_tool_call" as kind:
            yield from entries.tool_call(text(item, "tool") or kind, item.get("arguments"))
        case "web_search":
            yield from entries.tool_call("web search", {"query": text(item, "query")})


def _log_item(item: dict[str, Any]) -> Iterator[LogEntry]:
    match text(item, "type"):
        case "agent_message":
            yield from entries.message(text(item, "text"))
        case "error":
            yield from entries.error(text(item, "message"))
        case "file_change":
            for change in rows(item, "changes"):
                yield from entries.tool_call(text(change, "kind") or "change", {"path": text(change, "path")})
        case "command_execution":
            failed = bool(item.get("exit_code"))
            yield from entries.tool_result(text(item, "aggregated_output"), failed=failed)
        case "mcp_tool_call":
            yield from entries.tool_result(item.get("result"), failed=text(item, "status") == "failed")
