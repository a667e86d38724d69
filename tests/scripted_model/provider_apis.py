"""The APIs of three providers, four in all: each reads requests and words replies and failures as the provider does.

OpenAI has chat completions, which most agents and gateways use, and Responses, which Codex uses. Anthropic has messages
and Google has `generateContent`, for Claude Code and Gemini CLI. What is replied is decided elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from tests.scripted_model.exchange import (
    HttpReply,
    ModelReply,
    ModelTurn,
    OfferedTool,
    ProviderApi,
    StreamedReply,
    ToolCall,
)
from tests.scripted_model.script import ModelFault

_STREAM = "text/event-stream"
_CALLS = {"function_call", "custom_tool_call", "local_shell_call"}
_GOOGLE = "type.googleapis.com/google.rpc."
_BAD_REQUEST = "invalid_request_error"
_TRY_AGAIN = "Rate limit reached. Please try again in 1s."


class _Failure(NamedTuple):
    """How a provider words one fault."""

    status: int
    kind: str
    message: str
    code: str = ""


_CHAT_FAILURES = {
    ModelFault.RATE_LIMIT: _Failure(429, "requests", _TRY_AGAIN, "rate_limit_exceeded"),
    ModelFault.USAGE_LIMIT: _Failure(
        429,
        "insufficient_quota",
        "You exceeded your current quota, please check your plan and billing details.",
        "insufficient_quota",
    ),
    ModelFault.OVERFLOW: _Failure(
        400,
        _BAD_REQUEST,
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
        "context_length_exceeded",
    ),
    ModelFault.BAD_KEY: _Failure(401, _BAD_REQUEST, "Incorrect API key provided: dummy.", "invalid_api_key"),
}
_RESPONSES_FAILURES = {
    ModelFault.RATE_LIMIT: _Failure(429, "requests", _TRY_AGAIN, "rate_limit_exceeded"),
    ModelFault.USAGE_LIMIT: _Failure(429, "usage_limit_reached", "The usage limit has been reached"),
    ModelFault.OVERFLOW: _Failure(
        200, "", "Your input exceeds the context window of this model.", "context_length_exceeded"
    ),
    ModelFault.BAD_KEY: _Failure(401, _BAD_REQUEST, "Incorrect API key provided.", "invalid_api_key"),
}
_MESSAGES_FAILURES = {
    ModelFault.RATE_LIMIT: _Failure(429, "rate_limit_error", "This request would exceed your rate limit."),
    ModelFault.USAGE_LIMIT: _Failure(
        429, "rate_limit_error", "This request would exceed your account's usage limit."
    ),
    ModelFault.OVERFLOW: _Failure(400, _BAD_REQUEST, "prompt is too long: 210000 tokens > 200000 maximum"),
    ModelFault.BAD_KEY: _Failure(401, "authentication_error", "invalid x-api-key"),
}
_GEMINI_FAILURES = {
    ModelFault.RATE_LIMIT: _Failure(
        429, "RESOURCE_EXHAUSTED", "Resource has been exhausted. Please retry in 1s."
    ),
    ModelFault.USAGE_LIMIT: _Failure(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota."),
    ModelFault.OVERFLOW: _Failure(
        400,
        "INVALID_ARGUMENT",
        "The input token count (1048577) exceeds the maximum number of tokens allowed (1048576).",
    ),
    ModelFault.BAD_KEY: _Failure(401, "UNAUTHENTICATED", "API key not valid. Please pass a valid API key."),
}


def encode(value: Any) -> bytes:
    """Return a JSON document."""
    return json.dumps(value).encode()


def _event(value: Any, name: str = "") -> bytes:
    """Return one server-sent event."""
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + encode(value) + b"\n\n"


def _typed_event(kind: str, **fields: Any) -> bytes:
    return _event({"type": kind, **fields}, kind)


def _text_of(content: Any) -> str:
    """Return the text of a message's content, which is a string or a list of parts in every API."""
    if isinstance(content, str):
        return content
    texts = (part.get("text") for part in content or () if isinstance(part, dict))
    return "\n".join(text for text in texts if isinstance(text, str))


def _texts(messages: list[dict[str, Any]], *roles: str) -> str:
    return "\n".join(_text_of(one.get("content")) for one in messages if one.get("role") in roles)


def _usage(reply: ModelReply, read: str, written: str, total: str) -> dict[str, int]:
    """Return the tokens of a reply under a provider's names for them."""
    tokens = reply.input_tokens + reply.output_tokens
    return {read: reply.input_tokens, written: reply.output_tokens, total: tokens}


def _wait_s(fault: ModelFault, resets_in_s: int) -> int | None:
    return {ModelFault.RATE_LIMIT: 1, ModelFault.USAGE_LIMIT: resets_in_s}.get(fault)


class ChatApi:
    """`POST /v1/chat/completions`, streamed or not."""

    def read(self, path: str, body: Mapping[str, Any]) -> ModelTurn:
        """Read a request."""
        messages = body.get("messages", [])
        functions = [tool["function"] for tool in body.get("tools") or () if tool.get("type") == "function"]
        return ModelTurn(
            prompt=_texts(messages, "user"),
            system=_texts(messages, "system", "developer"),
            tools={f["name"]: OfferedTool.of_schema(f["name"], f.get("parameters") or {}) for f in functions},
            made=sum(len(message.get("tool_calls") or ()) for message in messages),
            stream=bool(body.get("stream")),
            model=body.get("model", ""),
        )

    def stream(self, turn: ModelTurn, reply: ModelReply) -> StreamedReply:
        """Word a reply in chunks. The usage comes after the finish reason, as when a client asks for it."""
        closing = (
            self._chunk(turn, {}, self._finish(reply)),
            self._chunk(turn, None, usage=self._usage(reply)),
            b"data: [DONE]\n\n",
        )
        return StreamedReply((self._chunk(turn, self._message(reply)),), closing)

    def whole(self, turn: ModelTurn, reply: ModelReply) -> bytes:
        """Word a reply as one document."""
        choice = {"index": 0, "message": self._message(reply), "finish_reason": self._finish(reply)}
        document = self._envelope(turn, "chat.completion")
        return encode(document | {"choices": [choice], "usage": self._usage(reply)})

    def refuse(self, fault: ModelFault, resets_at: int, resets_in_s: int) -> HttpReply:
        """Fail as OpenAI does: the kind is in `error.code`, the wait in headers."""
        status, kind, message, code = _CHAT_FAILURES[fault]
        wait = _wait_s(fault, resets_in_s)
        headers = {} if wait is None else {"retry-after": str(wait), "x-ratelimit-reset-requests": f"{wait}s"}
        error = {"message": message, "type": kind, "param": None, "code": code}
        return HttpReply(status, encode({"error": error}), headers)

    def _message(self, reply: ModelReply) -> dict[str, Any]:
        if reply.call is None:
            return {"content": reply.text, "role": "assistant"}
        function = {"name": reply.call.tool, "arguments": json.dumps(reply.call.arguments)}
        call = {"index": 0, "id": reply.call.id, "type": "function", "function": function}
        return {"content": None, "tool_calls": [call], "role": "assistant"}

    def _finish(self, reply: ModelReply) -> str:
        return "stop" if reply.call is None else "tool_calls"

    def _usage(self, reply: ModelReply) -> dict[str, int]:
        return _usage(reply, "prompt_tokens", "completion_tokens", "total_tokens")

    def _envelope(self, turn: ModelTurn, kind: str) -> dict[str, Any]:
        return {"id": "chatcmpl-scripted", "object": kind, "created": 0, "model": turn.model}

    def _chunk(self, turn: ModelTurn, delta: Any, finish: str | None = None, usage: Any = None) -> bytes:
        choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
        return _event(self._envelope(turn, "chat.completion.chunk") | {"choices": choices, "usage": usage})


class ResponsesApi:
    """`POST /v1/responses`, streamed or not."""

    def read(self, path: str, body: Mapping[str, Any]) -> ModelTurn:
        """Read a request."""
        given = body.get("input", [])
        items = [{"role": "user", "content": given}] if isinstance(given, str) else given
        tools = [
            OfferedTool(tool["name"], freeform=True)
            if tool["type"] == "custom"
            else OfferedTool.of_schema(tool["name"], tool.get("parameters") or {})
            for tool in body.get("tools") or ()
            if tool.get("type") in ("function", "custom")
        ]
        return ModelTurn(
            prompt=_texts(items, "user"),
            system=body.get("instructions") or "",
            tools={tool.name: tool for tool in tools},
            made=sum(item.get("type") in _CALLS for item in items),
            stream=bool(body.get("stream")),
            model=body.get("model", ""),
        )

    def stream(self, turn: ModelTurn, reply: ModelReply) -> StreamedReply:
        """Word a reply as events: an item is added and done, then the response is completed."""
        item = self._item(reply)
        opening = [
            _typed_event("response.created", response=self._response(turn, reply, "in_progress", [])),
            _typed_event("response.output_item.added", output_index=0, item=item | {"status": "in_progress"}),
        ]
        if reply.call is None:
            where = {"item_id": item["id"], "output_index": 0, "content_index": 0}
            opening.append(_typed_event("response.output_text.delta", **where, delta=reply.text))
        closing = (
            _typed_event("response.output_item.done", output_index=0, item=item),
            _typed_event("response.completed", response=self._response(turn, reply, "completed", [item])),
        )
        return StreamedReply(tuple(opening), closing)

    def whole(self, turn: ModelTurn, reply: ModelReply) -> bytes:
        """Word a reply as one document."""
        return encode(self._response(turn, reply, "completed", [self._item(reply)]))

    def refuse(self, fault: ModelFault, resets_at: int, resets_in_s: int) -> HttpReply:
        """Fail as OpenAI does: an overflow is an event of the stream, the rest a status."""
        status, kind, message, code = _RESPONSES_FAILURES[fault]
        error: dict[str, Any] = {"message": message}
        error |= {"type": kind} if kind else {}
        error |= {"code": code} if code else {}
        if fault is ModelFault.OVERFLOW:
            failed = {"id": "resp_scripted", "object": "response", "status": "failed", "error": error}
            return HttpReply(status, _typed_event("response.failed", response=failed), media=_STREAM)
        if fault is ModelFault.USAGE_LIMIT:
            error |= {"plan_type": "plus", "resets_at": resets_at, "resets_in_seconds": resets_in_s}
        headers = {"retry-after": "1"} if fault is ModelFault.RATE_LIMIT else {}
        return HttpReply(status, encode({"error": error}), headers)

    def _item(self, reply: ModelReply) -> dict[str, Any]:
        if reply.call is not None:
            return self._call(reply.call)
        content = [{"type": "output_text", "text": reply.text, "annotations": []}]
        message = {"type": "message", "id": "msg_scripted", "role": "assistant", "status": "completed"}
        return message | {"content": content}

    def _call(self, call: ToolCall) -> dict[str, Any]:
        common = {"id": f"item_{call.id}", "call_id": call.id, "name": call.tool, "status": "completed"}
        if call.freeform:
            return {"type": "custom_tool_call", "input": call.text, **common}
        return {"type": "function_call", "arguments": json.dumps(call.arguments), **common}

    def _response(self, turn: ModelTurn, reply: ModelReply, status: str, output: list[Any]) -> dict[str, Any]:
        details = {
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        }
        usage = _usage(reply, "input_tokens", "output_tokens", "total_tokens") | details
        response = {"id": "resp_scripted", "object": "response", "created_at": 0, "model": turn.model}
        ended = {"status": status, "output": output, "usage": usage if status == "completed" else None}
        return response | ended


class MessagesApi:
    """`POST /v1/messages`, streamed or not."""

    def read(self, path: str, body: Mapping[str, Any]) -> ModelTurn:
        """Read a request."""
        messages = body.get("messages", [])
        tools = [tool for tool in body.get("tools") or () if "input_schema" in tool]
        parts = [part for one in messages for part in one.get("content") or () if isinstance(part, dict)]
        return ModelTurn(
            prompt=_texts(messages, "user"),
            system=_text_of(body.get("system")),
            tools={tool["name"]: OfferedTool.of_schema(tool["name"], tool["input_schema"]) for tool in tools},
            made=sum(part.get("type") == "tool_use" for part in parts),
            stream=bool(body.get("stream")),
            model=body.get("model", ""),
        )

    def stream(self, turn: ModelTurn, reply: ModelReply) -> StreamedReply:
        """Word a reply as events: message and block start, grow, and stop."""
        block, delta = self._started(reply)
        opening = (
            _typed_event("message_start", message=self._message(turn, reply, [], None)),
            _typed_event("content_block_start", index=0, content_block=block),
            _typed_event("content_block_delta", index=0, delta=delta),
        )
        stop = {"stop_reason": self._stop(reply), "stop_sequence": None}
        closing = (
            _typed_event("content_block_stop", index=0),
            _typed_event("message_delta", delta=stop, usage={"output_tokens": reply.output_tokens}),
            _typed_event("message_stop"),
        )
        return StreamedReply(opening, closing)

    def whole(self, turn: ModelTurn, reply: ModelReply) -> bytes:
        """Word a reply as one document."""
        return encode(self._message(turn, reply, [self._block(reply)], self._stop(reply)))

    def refuse(self, fault: ModelFault, resets_at: int, resets_in_s: int) -> HttpReply:
        """Fail as Anthropic does: the body names the kind, headers the wait and the reset."""
        status, kind, message, _ = _MESSAGES_FAILURES[fault]
        wait = _wait_s(fault, resets_in_s)
        headers = {} if wait is None else {"retry-after": str(wait)}
        if fault is ModelFault.USAGE_LIMIT:
            headers |= {
                "anthropic-ratelimit-unified-status": "rejected",
                "anthropic-ratelimit-unified-reset": str(resets_at),
            }
        error = {"type": "error", "error": {"type": kind, "message": message}}
        return HttpReply(status, encode(error), headers)

    def _block(self, reply: ModelReply) -> dict[str, Any]:
        if reply.call is None:
            return {"type": "text", "text": reply.text}
        call = reply.call
        return {"type": "tool_use", "id": call.id, "name": call.tool, "input": dict(call.arguments)}

    def _started(self, reply: ModelReply) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the block as it starts, empty, and what makes it complete."""
        if reply.call is None:
            return {"type": "text", "text": ""}, {"type": "text_delta", "text": reply.text}
        arguments = json.dumps(reply.call.arguments)
        return self._block(reply) | {"input": {}}, {"type": "input_json_delta", "partial_json": arguments}

    def _stop(self, reply: ModelReply) -> str:
        return "end_turn" if reply.call is None else "tool_use"

    def _message(
        self, turn: ModelTurn, reply: ModelReply, content: list[Any], stop: str | None
    ) -> dict[str, Any]:
        usage = {"input_tokens": reply.input_tokens, "output_tokens": reply.output_tokens if stop else 0}
        message = {"id": "msg_scripted", "type": "message", "role": "assistant", "model": turn.model}
        return message | {"content": content, "stop_reason": stop, "stop_sequence": None, "usage": usage}


class GeminiApi:
    """`POST /v1beta/models/NAME:generateContent` and `:streamGenerateContent`."""

    def read(self, path: str, body: Mapping[str, Any]) -> ModelTurn:
        """Read a request. The model and the mode are in the path."""
        contents = body.get("contents", [])
        name, _, method = path.rpartition("/")[2].partition(":")
        declared = [f for group in body.get("tools") or () for f in group.get("functionDeclarations") or ()]
        return ModelTurn(
            prompt="\n".join(_text_of(c.get("parts")) for c in contents if c.get("role") == "user"),
            system=_text_of((body.get("systemInstruction") or {}).get("parts")),
            tools={f["name"]: self._tool(f) for f in declared},
            made=sum("functionCall" in part for content in contents for part in content.get("parts") or ()),
            stream=method.startswith("stream"),
            model=name,
        )

    def stream(self, turn: ModelTurn, reply: ModelReply) -> StreamedReply:
        """Word a reply as two events: the content, then the finish reason with the usage."""
        opening = self._content(turn, [self._part(reply)])
        return StreamedReply((_event(opening),), (_event(self._end(turn, reply, {"text": ""})),))

    def whole(self, turn: ModelTurn, reply: ModelReply) -> bytes:
        """Word a reply as one document."""
        return encode(self._end(turn, reply, self._part(reply)))

    def refuse(self, fault: ModelFault, resets_at: int, resets_in_s: int) -> HttpReply:
        """Fail as Google does: the wait and the exhausted quota are in `error.details`."""
        code, status, message, _ = _GEMINI_FAILURES[fault]
        details: list[dict[str, object]] = []
        if fault is ModelFault.USAGE_LIMIT:
            quota = {"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier", "quotaValue": "250"}
            details.append({"@type": f"{_GOOGLE}QuotaFailure", "violations": [quota]})
        if (wait := _wait_s(fault, resets_in_s)) is not None:
            details.append({"@type": f"{_GOOGLE}RetryInfo", "retryDelay": f"{wait}s"})
        error = {"code": code, "message": message, "status": status, "details": details}
        return HttpReply(code, encode({"error": error}))

    def _tool(self, function: Mapping[str, Any]) -> OfferedTool:
        schema = function.get("parametersJsonSchema") or function.get("parameters") or {}
        return OfferedTool.of_schema(function["name"], schema)

    def _part(self, reply: ModelReply) -> dict[str, Any]:
        if reply.call is None:
            return {"text": reply.text}
        call = reply.call
        return {"functionCall": {"id": call.id, "name": call.tool, "args": dict(call.arguments)}}

    def _content(self, turn: ModelTurn, parts: list[Any], **finish: str) -> dict[str, Any]:
        candidate = {"index": 0, "content": {"role": "model", "parts": parts}, **finish}
        return {"candidates": [candidate], "modelVersion": turn.model}

    def _end(self, turn: ModelTurn, reply: ModelReply, part: dict[str, Any]) -> dict[str, Any]:
        usage = _usage(reply, "promptTokenCount", "candidatesTokenCount", "totalTokenCount")
        return self._content(turn, [part], finishReason="STOP") | {"usageMetadata": usage}


APIS: Mapping[str, ProviderApi] = {
    "/chat/completions": ChatApi(),
    "/responses": ResponsesApi(),
    "/messages": MessagesApi(),
    ":generateContent": GeminiApi(),
    ":streamGenerateContent": GeminiApi(),
}
"""The API that serves a path, by the end of the path."""
