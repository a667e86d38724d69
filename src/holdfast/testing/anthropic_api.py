"""Anthropic messages, which Claude Code and the tools around it speak."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from holdfast.testing.exchange import (
    ErrorReply,
    ModelReply,
    ModelTurn,
    OfferedTool,
    StreamedReply,
    encode,
    event,
    text_of,
)
from holdfast.testing.script import Fault

_ERRORS: Mapping[Fault, tuple[int, str, str]] = {
    Fault.RATE_LIMIT: (429, "rate_limit_error", "This request would exceed your rate limit."),
    Fault.USAGE_LIMIT: (429, "rate_limit_error", "This request would exceed your account's usage limit."),
    Fault.OVERFLOW: (400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
    Fault.BAD_KEY: (401, "authentication_error", "invalid x-api-key"),
}


class MessagesApi:
    """`POST /v1/messages`, streamed or not."""

    def read(self, path: str, body: Mapping[str, Any]) -> ModelTurn:
        """Understand a request."""
        messages = body.get("messages", [])
        tools = [tool for tool in body.get("tools") or () if "input_schema" in tool]
        return ModelTurn(
            prompt="\n".join(text_of(m.get("content")) for m in messages if m.get("role") == "user"),
            system=text_of(body.get("system")),
            tools={tool["name"]: OfferedTool.of_schema(tool["name"], tool["input_schema"]) for tool in tools},
            made=sum(_uses(message.get("content")) for message in messages),
            stream=bool(body.get("stream")),
            model=body.get("model", ""),
        )

    def stream(self, turn: ModelTurn, reply: ModelReply) -> StreamedReply:
        """Say a reply as events: message and block start, grow, and stop."""
        block, delta = _started(reply)
        opening = [
            _event("message_start", message=_message(turn, reply, [], None)),
            _event("content_block_start", index=0, content_block=block),
            _event("content_block_delta", index=0, delta=delta),
        ]
        stop = {"stop_reason": _stop(reply), "stop_sequence": None}
        closing = [
            _event("content_block_stop", index=0),
            _event("message_delta", delta=stop, usage={"output_tokens": reply.output_tokens}),
            _event("message_stop"),
        ]
        return StreamedReply(tuple(opening), tuple(closing))

    def whole(self, turn: ModelTurn, reply: ModelReply) -> bytes:
        """Say a reply in one document."""
        return encode(_message(turn, reply, [_block(reply)], _stop(reply)))

    def refuse(self, fault: Fault, resets_at: int, resets_in_s: int) -> ErrorReply:
        """Say what Anthropic says: the body names the kind, headers the wait and the reset."""
        status, kind, message = _ERRORS[fault]
        headers = {"retry-after": "1"} if fault is Fault.RATE_LIMIT else {}
        if fault is Fault.USAGE_LIMIT:
            headers = {
                "retry-after": str(resets_in_s),
                "anthropic-ratelimit-unified-status": "rejected",
                "anthropic-ratelimit-unified-reset": str(resets_at),
            }
        return ErrorReply(
            status, encode({"type": "error", "error": {"type": kind, "message": message}}), headers
        )


def _uses(content: Any) -> int:
    return 0 if isinstance(content, str) else sum(part.get("type") == "tool_use" for part in content or ())


def _block(reply: ModelReply) -> dict[str, Any]:
    if reply.call is None:
        return {"type": "text", "text": reply.text}
    return {
        "type": "tool_use",
        "id": reply.call.id,
        "name": reply.call.tool,
        "input": dict(reply.call.arguments),
    }


def _started(reply: ModelReply) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the block as it starts, empty, and what makes it whole."""
    if reply.call is None:
        return {"type": "text", "text": ""}, {"type": "text_delta", "text": reply.text}
    arguments = json.dumps(reply.call.arguments)
    return _block(reply) | {"input": {}}, {"type": "input_json_delta", "partial_json": arguments}


def _stop(reply: ModelReply) -> str:
    return "end_turn" if reply.call is None else "tool_use"


def _message(turn: ModelTurn, reply: ModelReply, content: list[Any], stop: str | None) -> dict[str, Any]:
    usage = {"input_tokens": reply.input_tokens, "output_tokens": reply.output_tokens if stop else 0}
    message = {"id": "msg_scripted", "type": "message", "role": "assistant", "model": turn.model}
    return message | {"content": content, "stop_reason": stop, "stop_sequence": None, "usage": usage}


def _event(kind: str, **fields: Any) -> bytes:
    return event({"type": kind, **fields}, kind)
