"""Vibe's `--output streaming`: the messages of its conversation, one per line. It tells no usage and no session."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.agents.streams.dialect import rows, text
from holdfast.agents.streams.error_patterns import ErrorPatterns
from holdfast.core.observations import Activity, Observation


class VibeStream:
    """One conversation. Its errors are plain lines beside it."""

    def __init__(self, _signals: ErrorPatterns) -> None:
        """Take what every dialect takes; this one has no errors among its events."""

    def read(self, event: dict[str, Any]) -> Iterator[Observation]:
        """Yield what one message tells."""
        match text(event, "role"):
            case "assistant":
                for call in rows(event, "tool_calls"):
                    yield Activity(tool=text(call, "function", "name") or "a tool")
                yield Activity(text=text(event, "content"))
            case "tool":
                yield Activity(tool_done=True)
