"""What the APIs have in common: JSON, server-sent events, the text in a message, tokens, and how a failure is listed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from tests.scripted_model.exchange import ModelReply
from tests.scripted_model.script import ModelFault

STREAM = "text/event-stream"
INVALID_REQUEST = "invalid_request_error"


class ErrorWording(NamedTuple):
    """How a provider words one fault. `{model}` and `{path}` stand for what was asked for."""

    status: int
    kind: str
    message: str
    code: str = ""


def encode(value: Any) -> bytes:
    """Return a JSON document."""
    return json.dumps(value).encode()


def event(value: Any, name: str = "") -> bytes:
    """Return one server-sent event."""
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + encode(value) + b"\n\n"


def typed_event(kind: str, **fields: Any) -> bytes:
    """Return an event whose type is in its data, too."""
    return event({"type": kind, **fields}, kind)


def text_of(content: Any) -> str:
    """Return the text of a message's content, which is a string or a list of parts in every API."""
    if isinstance(content, str):
        return content
    texts = (part.get("text") for part in content or () if isinstance(part, dict))
    return "\n".join(text for text in texts if isinstance(text, str))


def texts(messages: Iterable[Mapping[str, Any]], *roles: str) -> str:
    """Return the text of all messages of these roles."""
    return "\n".join(text_of(one.get("content")) for one in messages if one.get("role") in roles)


def usage(reply: ModelReply, read: str, written: str, total: str) -> dict[str, int]:
    """Return the tokens of a reply under a provider's names for them."""
    tokens = reply.input_tokens + reply.output_tokens
    return {read: reply.input_tokens, written: reply.output_tokens, total: tokens}


def wait_s(fault: ModelFault, resets_in_s: int) -> int | None:
    """Return how many seconds a provider asks to wait."""
    return {ModelFault.RATE_LIMIT: 1, ModelFault.USAGE_LIMIT: resets_in_s}.get(fault)
