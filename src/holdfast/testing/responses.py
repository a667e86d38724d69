"""OpenAI Responses, which Codex speaks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from holdfast.testing.conversation import Call, Frames, Refusal, Reply, Tool, Turn, encode, event, text_of
from holdfast.testing.script import Fault

_CALLS = {"function_call", "custom_tool_call", "local_shell_call"}


class Responses:
    """`POST /v1/responses`, streamed or not."""

    def read(self, path: str, body: Mapping[str, Any]) -> Turn:
        """Understand a request."""
        given = body.get("input", [])
        items = [{"role": "user", "content": given}] if isinstance(given, str) else given
        tools = [
            _tool(tool) for tool in body.get("tools") or () if tool.get("type") in ("function", "custom")
        ]
        return Turn(
            prompt="\n".join(text_of(item.get("content")) for item in items if item.get("role") == "user"),
            system=body.get("instructions") or "",
            tools={tool.name: tool for tool in tools},
            made=sum(item.get("type") in _CALLS for item in items),
            stream=bool(body.get("stream")),
            model=body.get("model", ""),
        )

    def stream(self, turn: Turn, reply: Reply) -> Frames:
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
        return Frames(tuple(opening), tuple(closing))

    def whole(self, turn: Turn, reply: Reply) -> bytes:
        """Say a reply in one document."""
        return encode(_response(turn, reply, "completed", [_item(reply)]))

    def refuse(self, fault: Fault, resets_at: int, resets_in_s: int) -> Refusal:
        """Say what OpenAI says: an overflow is told inside the stream, the rest by status."""
        if fault is Fault.OVERFLOW:
            error = {
                "code": "context_length_exceeded",
                "message": "Your input exceeds the context window of this model.",
            }
            failed = {"id": "resp_scripted", "object": "response", "status": "failed", "error": error}
            return Refusal(200, _event("response.failed", response=failed), media="text/event-stream")
        if fault is Fault.USAGE_LIMIT:
            limit = {
                "type": "usage_limit_reached",
                "message": "The usage limit has been reached",
                "plan_type": "plus",
            }
            return Refusal(
                429, encode({"error": limit | {"resets_at": resets_at, "resets_in_seconds": resets_in_s}})
            )
        if fault is Fault.BAD_KEY:
            error = {
                "type": "invalid_request_error",
                "code": "invalid_api_key",
                "message": "Incorrect API key provided.",
            }
            return Refusal(401, encode({"error": error}))
        error = {
            "type": "requests",
            "code": "rate_limit_exceeded",
            "message": "Rate limit reached. Please try again in 1s.",
        }
        return Refusal(429, encode({"error": error}), {"retry-after": "1"})


def _tool(tool: Mapping[str, Any]) -> Tool:
    if tool["type"] == "custom":
        return Tool(tool["name"], freeform=True)
    return Tool.of_schema(tool["name"], tool.get("parameters") or {})


def _item(reply: Reply) -> dict[str, Any]:
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


def _call(call: Call) -> dict[str, Any]:
    common = {"id": f"item_{call.id}", "call_id": call.id, "name": call.tool, "status": "completed"}
    if call.freeform:
        return {"type": "custom_tool_call", "input": call.text, **common}
    return {"type": "function_call", "arguments": json.dumps(call.arguments), **common}


def _response(turn: Turn, reply: Reply, status: str, output: list[Any]) -> dict[str, Any]:
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
