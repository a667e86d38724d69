"""OpenAI chat completions, which most agents and gateways speak."""

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
    ToolCall,
    encode,
    event,
    text_of,
)
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


class ChatApi:
    """`POST /v1/chat/completions`, streamed or not."""

    def read(self, path: str, body: Mapping[str, Any]) -> ModelTurn:
        """Understand a request."""
        messages = body.get("messages", [])
        functions = [tool["function"] for tool in body.get("tools") or () if tool.get("type") == "function"]
        return ModelTurn(
            prompt=_texts(messages, {"user"}),
            system=_texts(messages, {"system", "developer"}),
            tools={f["name"]: OfferedTool.of_schema(f["name"], f.get("parameters") or {}) for f in functions},
            made=sum(len(message.get("tool_calls") or ()) for message in messages),
            stream=bool(body.get("stream")),
            model=body.get("model", ""),
        )

    def stream(self, turn: ModelTurn, reply: ModelReply) -> StreamedReply:
        """Say a reply in chunks; the usage comes after the finish reason, as when a client asks for it."""
        delta = _message(reply) | {"role": "assistant"}
        opening = [_chunk(turn, delta)]
        closing = [
            _chunk(turn, {}, _finish(reply)),
            _chunk(turn, None, usage=_usage(reply)),
            b"data: [DONE]\n\n",
        ]
        return StreamedReply(tuple(opening), tuple(closing))

    def whole(self, turn: ModelTurn, reply: ModelReply) -> bytes:
        """Say a reply in one document."""
        choice = {
            "index": 0,
            "message": _message(reply) | {"role": "assistant"},
            "finish_reason": _finish(reply),
        }
        return encode(_envelope(turn, "chat.completion") | {"choices": [choice], "usage": _usage(reply)})

    def refuse(self, fault: Fault, resets_at: int, resets_in_s: int) -> ErrorReply:
        """Say what OpenAI says: the kind is in `error.code`, the wait in headers."""
        status, kind, code, message = _ERRORS[fault]
        wait = {Fault.RATE_LIMIT: 1, Fault.USAGE_LIMIT: resets_in_s}.get(fault)
        headers = {} if wait is None else {"retry-after": str(wait), "x-ratelimit-reset-requests": f"{wait}s"}
        error = {"message": message, "type": kind, "param": None, "code": code}
        return ErrorReply(status, encode({"error": error}), headers)


def _texts(messages: list[dict[str, Any]], roles: set[str]) -> str:
    return "\n".join(text_of(message.get("content")) for message in messages if message.get("role") in roles)


def _message(reply: ModelReply) -> dict[str, Any]:
    if reply.call is None:
        return {"content": reply.text}
    function = {"name": reply.call.tool, "arguments": json.dumps(reply.call.arguments)}
    return {
        "content": None,
        "tool_calls": [{"index": 0, "id": reply.call.id, "type": "function", "function": function}],
    }


def _finish(reply: ModelReply) -> str:
    return "stop" if reply.call is None else "tool_calls"


def _usage(reply: ModelReply) -> dict[str, int]:
    return {
        "prompt_tokens": reply.input_tokens,
        "completion_tokens": reply.output_tokens,
        "total_tokens": reply.input_tokens + reply.output_tokens,
    }


def _envelope(turn: ModelTurn, kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-scripted", "object": kind, "created": 0, "model": turn.model}


def _chunk(turn: ModelTurn, delta: Any, finish: str | None = None, usage: Any = None) -> bytes:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    return event(_envelope(turn, "chat.completion.chunk") | {"choices": choices, "usage": usage})


_CALLS = {"function_call", "custom_tool_call", "local_shell_call"}


class ResponsesApi:
    """`POST /v1/responses`, streamed or not."""

    def read(self, path: str, body: Mapping[str, Any]) -> ModelTurn:
        """Understand a request."""
        given = body.get("input", [])
        items = [{"role": "user", "content": given}] if isinstance(given, str) else given
        tools = [
            _tool(tool) for tool in body.get("tools") or () if tool.get("type") in ("function", "custom")
        ]
        return ModelTurn(
            prompt="\n".join(text_of(item.get("content")) for item in items if item.get("role") == "user"),
            system=body.get("instructions") or "",
            tools={tool.name: tool for tool in tools},
            made=sum(item.get("type") in _CALLS for item in items),
            stream=bool(body.get("stream")),
            model=body.get("model", ""),
        )

    def stream(self, turn: ModelTurn, reply: ModelReply) -> StreamedReply:
        """Say a reply as events: an item is added and done, then the response is completed."""
        item = _item(reply)
        opening = [
            _event("response.created", response=_response(turn, reply, "in_progress", [])),
            _event("response.output_item.added", output_index=0, item=item | {"status": "in_progress"}),
        ]
        if reply.call is None:
            where = {"item_id": item["id"], "output_index": 0, "content_index": 0}
            opening.append(_event("response.output_text.delta", **where, delta=reply.text))
        closing = [
            _event("response.output_item.done", output_index=0, item=item),
            _event("response.completed", response=_response(turn, reply, "completed", [item])),
        ]
        return StreamedReply(tuple(opening), tuple(closing))

    def whole(self, turn: ModelTurn, reply: ModelReply) -> bytes:
        """Say a reply in one document."""
        return encode(_response(turn, reply, "completed", [_item(reply)]))

    def refuse(self, fault: Fault, resets_at: int, resets_in_s: int) -> ErrorReply:
        """Say what OpenAI says: an overflow is told inside the stream, the rest by status."""
        if fault is Fault.OVERFLOW:
            error = {
                "code": "context_length_exceeded",
                "message": "Your input exceeds the context window of this model.",
            }
            failed = {"id": "resp_scripted", "object": "response", "status": "failed", "error": error}
            return ErrorReply(200, _event("response.failed", response=failed), media="text/event-stream")
        if fault is Fault.USAGE_LIMIT:
            limit = {
                "type": "usage_limit_reached",
                "message": "The usage limit has been reached",
                "plan_type": "plus",
            }
            return ErrorReply(
                429, encode({"error": limit | {"resets_at": resets_at, "resets_in_seconds": resets_in_s}})
            )
        if fault is Fault.BAD_KEY:
            error = {
                "type": "invalid_request_error",
                "code": "invalid_api_key",
                "message": "Incorrect API key provided.",
            }
            return ErrorReply(401, encode({"error": error}))
        error = {
            "type": "requests",
            "code": "rate_limit_exceeded",
            "message": "Rate limit reached. Please try again in 1s.",
        }
        return ErrorReply(429, encode({"error": error}), {"retry-after": "1"})


def _tool(tool: Mapping[str, Any]) -> OfferedTool:
    if tool["type"] == "custom":
        return OfferedTool(tool["name"], freeform=True)
    return OfferedTool.of_schema(tool["name"], tool.get("parameters") or {})


def _item(reply: ModelReply) -> dict[str, Any]:
    if reply.call is not None:
        return _call(reply.call)
    content = [{"type": "output_text", "text": reply.text, "annotations": []}]
    return {
        "type": "message",
        "id": "msg_scripted",
        "role": "assistant",
        "status": "completed",
        "content": content,
    }


def _call(call: ToolCall) -> dict[str, Any]:
    common = {"id": f"item_{call.id}", "call_id": call.id, "name": call.tool, "status": "completed"}
    if call.freeform:
        return {"type": "custom_tool_call", "input": call.text, **common}
    return {"type": "function_call", "arguments": json.dumps(call.arguments), **common}


def _response(turn: ModelTurn, reply: ModelReply, status: str, output: list[Any]) -> dict[str, Any]:
    usage = {
        "input_tokens": reply.input_tokens,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": reply.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": reply.input_tokens + reply.output_tokens,
    }
    response = {"id": "resp_scripted", "object": "response", "created_at": 0, "model": turn.model}
    return response | {"status": status, "output": output, "usage": usage if status == "completed" else None}


def _event(kind: str, **fields: Any) -> bytes:
    return event({"type": kind, **fields}, kind)
