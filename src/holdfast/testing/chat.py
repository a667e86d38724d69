"""OpenAI chat completions, which most agents and gateways speak."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from holdfast.testing.conversation import Frames, Refusal, Reply, Tool, Turn, encode, event, text_of
from holdfast.testing.script import Fault

_ERRORS: Mapping[Fault, tuple[int, str, str, str]] = {
    Fault.RATE_LIMIT: (429, "requests", "rate_limit_exceeded", "Rate limit reached. Please try again in 1s."),
    Fault.USAGE_LIMIT: (
        429,
        "insufficient_quota",
        "insufficient_quota",
        "You exceeded your current quota, please check your plan and billing details.",
    ),
    Fault.OVERFLOW: (
        400,
        "invalid_request_error",
        "context_length_exceeded",
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
    ),
    Fault.BAD_KEY: (401, "invalid_request_error", "invalid_api_key", "Incorrect API key provided: dummy."),
}


class Chat:
    """`POST /v1/chat/completions`, streamed or not."""

    def read(self, path: str, body: Mapping[str, Any]) -> Turn:
        """Understand a request."""
        messages = body.get("messages", [])
        functions = [tool["function"] for tool in body.get("tools") or () if tool.get("type") == "function"]
        return Turn(
            prompt=_texts(messages, {"user"}),
            system=_texts(messages, {"system", "developer"}),
            tools={f["name"]: Tool.of_schema(f["name"], f.get("parameters") or {}) for f in functions},
            made=sum(len(message.get("tool_calls") or ()) for message in messages),
            stream=bool(body.get("stream")),
            model=body.get("model", ""),
        )

    def stream(self, turn: Turn, reply: Reply) -> Frames:
        """Say a reply in chunks; the usage comes after the finish reason, as when a client asks for it."""
        delta = _message(reply) | {"role": "assistant"}
        opening = [_chunk(turn, delta)]
        closing = [
            _chunk(turn, {}, _finish(reply)),
            _chunk(turn, None, usage=_usage(reply)),
            b"data: [DONE]\n\n",
        ]
        return Frames(tuple(opening), tuple(closing))

    def whole(self, turn: Turn, reply: Reply) -> bytes:
        """Say a reply in one document."""
        choice = {
            "index": 0,
            "message": _message(reply) | {"role": "assistant"},
            "finish_reason": _finish(reply),
        }
        return encode(_envelope(turn, "chat.completion") | {"choices": [choice], "usage": _usage(reply)})

    def refuse(self, fault: Fault, resets_at: int, resets_in_s: int) -> Refusal:
        """Say what OpenAI says: the kind is in `error.code`, the wait in headers."""
        status, kind, code, message = _ERRORS[fault]
        wait = {Fault.RATE_LIMIT: 1, Fault.USAGE_LIMIT: resets_in_s}.get(fault)
        headers = {} if wait is None else {"retry-after": str(wait), "x-ratelimit-reset-requests": f"{wait}s"}
        error = {"message": message, "type": kind, "param": None, "code": code}
        return Refusal(status, encode({"error": error}), headers)


def _texts(messages: list[dict[str, Any]], roles: set[str]) -> str:
    return "\n".join(text_of(message.get("content")) for message in messages if message.get("role") in roles)


def _message(reply: Reply) -> dict[str, Any]:
    if reply.call is None:
        return {"content": reply.text}
    function = {"name": reply.call.tool, "arguments": json.dumps(reply.call.arguments)}
    return {
        "content": None,
        "tool_calls": [{"index": 0, "id": reply.call.id, "type": "function", "function": function}],
    }


def _finish(reply: Reply) -> str:
    return "stop" if reply.call is None else "tool_calls"


def _usage(reply: Reply) -> dict[str, int]:
    return {
        "prompt_tokens": reply.input_tokens,
        "completion_tokens": reply.output_tokens,
        "total_tokens": reply.input_tokens + reply.output_tokens,
    }


def _envelope(turn: Turn, kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-scripted", "object": kind, "created": 0, "model": turn.model}


def _chunk(turn: Turn, delta: Any, finish: str | None = None, usage: Any = None) -> bytes:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    return event(_envelope(turn, "chat.completion.chunk") | {"choices": choices, "usage": usage})
