"""From the protocol's updates to the lines that are printed: one JSON object each, at once, nothing else on stdout."""

from __future__ import annotations

import sys
from typing import Any

import msgspec

from holdfast.agents.streams import acp as lines

_TEXT_CHARS = 4_000


def tell(kind: str, **fields: object) -> None:
    """Print one line. Whoever reads it may be gone: the work goes on all the same."""
    record = {"type": kind, **{name: value for name, value in fields.items() if value not in (None, "")}}
    try:
        sys.stdout.buffer.write(msgspec.json.encode(record) + b"\n")
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        return


def tell_update(update: Any) -> None:
    """Print what one update of a session tells. Kinds that say nothing about work are passed over."""
    match getattr(update, "session_update", ""):
        case "agent_message_chunk":
            tell(lines.TEXT, text=_words(update.content))
        case "agent_thought_chunk" | "plan":
            tell(lines.TEXT)
        case "tool_call":
            tell(lines.TOOL, tool=update.title[:_TEXT_CHARS])
        case "tool_call_update":
            done = update.status in ("completed", "failed")
            tell(lines.TOOL_DONE if done else lines.TOOL, tool=(update.title or "")[:_TEXT_CHARS])
        case "usage_update":
            cost = update.cost.amount if update.cost is not None and update.cost.currency == "USD" else None
            tell(lines.USAGE, tokens=update.used, cost_usd=cost)


def tell_error(code: int, message: str, data: object) -> None:
    """Print why a request failed, with whatever the agent added to it, in words."""
    try:
        detail = msgspec.json.encode(data).decode()[:_TEXT_CHARS] if data else ""
    except (TypeError, ValueError):
        detail = str(data)[:_TEXT_CHARS]
    tell(lines.ERROR, code=code, message=message[:_TEXT_CHARS], detail=detail)


def _words(content: Any) -> str:
    return str(getattr(content, "text", ""))[:_TEXT_CHARS]
