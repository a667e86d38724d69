"""The stream of Cline, `--json`: the events of its agent, and a `run_result` that closes the run, well or not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.agents.streams import log_entries as entries
from holdfast.agents.streams.dialect import StreamDialect, count, mapping, number, text
from holdfast.core.observations import Activity, AgentFinished, AgentTrouble, LogEntry, Observation, Usage

_NAMED = {"ContextWindowOverflowError": AgentTrouble.CONTEXT}
_CLASSES = {"auth": AgentTrouble.AUTH}
_COMPLETED = "completed"


class ClineStream(StreamDialect):
    """Its tokens are totals of the run, its session is in no event. Only a completed `run_result` is a last word."""

    _failed = False

    def read(self, event: dict[str, Any]) -> Iterator[Observation]:
        """Yield what one line tells."""
        match text(event, "type"):
            case "agent_event":
                yield from self._read_agent(mapping(event, "event"))
            case "run_result":
                yield _totals(mapping(event, "usage"), "inputTokens", "outputTokens")
                yield from self._result(text(event, "finishReason"), text(event, "text"))
            case "error":
                self._failed = True
                yield self._trouble(text(event, "message"))

    def _read_agent(self, event: dict[str, Any]) -> Iterator[Observation]:
        match text(event, "type"):
            case "content_start" | "content_update" | "content_end" as kind:
                self._failed = False
                yield _content(event, kind)
            case "usage":
                yield _totals(event, "totalInputTokens", "totalOutputTokens")
            case "error":
                self._failed = True
                error = mapping(event, "error")
                known = _NAMED.get(text(error, "name")) or _CLASSES.get(text(event, "errorClass"))
                yield self._trouble(text(error, "message"), known=known)

    def _result(self, reason: str, said: str) -> Iterator[Observation]:
        if reason == _COMPLETED and not self._failed:
            yield AgentFinished(said)
        elif not self._failed:
            yield self._trouble(said or f"it ended as {reason or 'nobody knows'}")

    def log(self, event: dict[str, Any]) -> Iterator[LogEntry]:
        """Yield how one line reads. The closing `error` repeats what the agent said of it."""
        if text(event, "type") == "run_result" and text(event, "finishReason") == _COMPLETED:
            yield from entries.end()
        part = mapping(event, "event")
        match text(part, "type"):
            case "content_start" if text(part, "contentType") == "tool":
                yield from entries.tool_call(text(part, "toolName"), _arguments(part.get("input")))
            case "content_end" if text(part, "contentType") == "tool":
                yield from entries.tool_result(_outputs(part.get("output")), failed=bool(part.get("error")))
            case "content_end":
                yield from entries.message(text(part, "text"))
            case "error":
                yield from entries.error(text(part, "error", "message"))


def _content(event: dict[str, Any], kind: str) -> Activity:
    if text(event, "contentType") == "tool":
        return Activity(tool=text(event, "toolName") or "a tool", tool_done=kind == "content_end")
    return Activity(text=text(event, "text") if kind == "content_end" else "")


def _totals(used: dict[str, Any], read: str, written: str) -> Usage:
    cached = count(used, "cacheReadTokens")
    return Usage(count(used, read, written), number(used, "totalCost"), whole=True, cache_read=cached)


def _arguments(given: Any) -> Any:
    """Return a tool's arguments. Its shell takes a list of whole commands."""
    if isinstance(given, dict) and isinstance(given.get("commands"), list):
        return {"command": "; ".join(str(one) for one in given["commands"])}
    return given


def _outputs(output: Any) -> Any:
    """Return what a tool gave: its shell gives a result for each command."""
    if not isinstance(output, list):
        return output
    return [one.get("result") or one.get("error") if isinstance(one, dict) else one for one in output]
