"""OpenAI's APIs: chat completions, which most agents and gateways use, and Responses, which Codex uses."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.scripted_model.exchange import (
    HttpReply,
    ModelReply,
    ModelTurn,
    OfferedTool,
    StreamedReply,
    ToolCall,
)
from tests.scripted_model.script import ModelFault
from tests.scripted_model.wording import (
    INVALID_REQUEST,
    STREAM,
    ErrorWording,
    encode,
    event,
    text_of,
    texts,
    typed_event,
    usage,
    wait_s,
)

_CALLS = {"function_call", "custom_tool_call", "local_shell_call"}
_RESULTS = {"function_call_output", "custom_tool_call_output", "local_shell_call_output"}
_DOCS = "For more information on this error, read the docs: https://platform.openai.com/docs/guides/error-codes/api-errors."
_NO_CREDIT = f"You exceeded your current quota, please check your plan and billing details. {_DOCS}"
_SHARED_FAILURES = {
    ModelFault.RATE_LIMIT: ErrorWording(
        429, "requests", "Rate limit reached. Please try again in 1s.", "rate_limit_exceeded"
    ),
    ModelFault.PAYMENT_REQUIRED: ErrorWording(
        402, "", "Insufficient credits. Add more using https://openrouter.ai/settings/credits", "402"
    ),
    ModelFault.NOT_FOUND: ErrorWording(404, INVALID_REQUEST, "Invalid URL (POST {path})"),
    ModelFault.SERVER_ERROR: ErrorWording(
        500,
        "server_error",
        "The server had an error while processing your request. Sorry about that! You can retry your request, "
        "or contact us through our help center at help.openai.com if you keep seeing this error.",
    ),
}
_CHAT_FAILURES = _SHARED_FAILURES | {
    ModelFault.USAGE_LIMIT: ErrorWording(
        429,
        "tokens",
        "Rate limit reached for {model} in organization org-scripted on tokens per day (TPD): Limit 200000, "
        "Used 200000, Requested 1000. Please try again in {wait}. "
        "Visit https://platform.openai.com/account/rate-limits to learn more.",
        "rate_limit_exceeded",
    ),
    ModelFault.OVERFLOW: ErrorWording(
        400,
        INVALID_REQUEST,
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
        "context_length_exceeded",
    ),
    ModelFault.BAD_KEY: ErrorWording(
        401, INVALID_REQUEST, "Incorrect API key provided: dummy.", "invalid_api_key"
    ),
    ModelFault.NO_CREDIT: ErrorWording(429, "insufficient_quota", _NO_CREDIT, "insufficient_quota"),
    ModelFault.BAD_MODEL: ErrorWording(
        404,
        INVALID_REQUEST,
        "The model `{model}` does not exist or you do not have access to it.",
        "model_not_found",
    ),
}
_RESPONSES_FAILURES = _SHARED_FAILURES | {
    ModelFault.USAGE_LIMIT: ErrorWording(429, "usage_limit_reached", "The usage limit has been reached"),
    ModelFault.OVERFLOW: ErrorWording(
        400, "", "Your input exceeds the context window of this model.", "context_length_exceeded"
    ),
    ModelFault.BAD_KEY: ErrorWording(401, INVALID_REQUEST, "Incorrect API key provided.", "invalid_api_key"),
    ModelFault.NO_CREDIT: ErrorWording(429, "insufficient_quota", _NO_CREDIT, "insufficient_quota"),
    ModelFault.BAD_MODEL: ErrorWording(
        400, INVALID_REQUEST, "The requested model '{model}' does not exist.", "model_not_found"
    ),
}
_TOLD_IN_THE_STREAM = {ModelFault.OVERFLOW, ModelFault.NO_CREDIT}


def _schema_of(form: Any) -> Mapping[str, Any] | None:
    """Return the schema of a reply in JSON from what a request says about its form; {} where any JSON will do."""
    if not isinstance(form, dict) or form.get("type") not in ("json_schema", "json_object"):
        return None
    schema = (form.get("json_schema") or form).get("schema")
    return schema if isinstance(schema, dict) else {}


def _forced(choice: Any) -> str:
    """Return the tool that a request demands."""
    if not isinstance(choice, dict) or choice.get("type") != "function":
        return ""
    return str(choice.get("name") or (choice.get("function") or {}).get("name") or "")


def _worded(failure: ErrorWording, turn: ModelTurn, resets_in_s: int) -> str:
    hours, seconds = divmod(resets_in_s, 3600)
    wait = f"{hours}h{seconds // 60}m{seconds % 60}s"
    return failure.message.format(model=turn.model, path=turn.path, wait=wait)


class ChatApi:
    """`POST /v1/chat/completions`, streamed or not."""

    def read(self, path: str, body: Mapping[str, Any]) -> ModelTurn:
        """Read a request."""
        messages = body.get("messages", [])
        functions = [tool["function"] for tool in body.get("tools") or () if tool.get("type") == "function"]
        return ModelTurn(
            prompt=texts(messages, "user"),
            system=texts(messages, "system", "developer"),
            tools={f["name"]: OfferedTool(f["name"], f.get("parameters") or {}) for f in functions},
            made=sum(len(message.get("tool_calls") or ()) for message in messages),
            stream=bool(body.get("stream")),
            model=body.get("model", ""),
            path=path,
            results=tuple(text_of(one.get("content")) for one in messages if one.get("role") == "tool"),
            schema=_schema_of(body.get("response_format")),
            forced=_forced(body.get("tool_choice")),
        )

    def stream(self, turn: ModelTurn, reply: ModelReply) -> StreamedReply:
        """Word a reply in chunks. The usage comes after the finish reason, as when a client asks for it."""
        running = self._usage(reply) if reply.running_usage else None
        closing = (
            self._chunk(turn, reply, {}, self._finish(reply), running),
            self._chunk(turn, reply, None, usage=self._usage(reply)),
            b"data: [DONE]\n\n",
        )
        return StreamedReply((self._chunk(turn, reply, self._message(reply), usage=running),), closing)

    def whole(self, turn: ModelTurn, reply: ModelReply) -> bytes:
        """Word a reply as one document."""
        choice = {"index": 0, "message": self._message(reply), "finish_reason": self._finish(reply)}
        document = self._envelope(turn, reply, "chat.completion")
        return encode(document | {"choices": [choice], "usage": self._usage(reply)})

    def fail(self, turn: ModelTurn, fault: ModelFault, resets_at: int, resets_in_s: int) -> HttpReply:
        """Fail as OpenAI does: the kind is in `error.code`, the wait in headers."""
        failure = _CHAT_FAILURES[fault]
        wait = wait_s(fault, resets_in_s)
        headers = {} if wait is None else {"retry-after": str(wait), "x-ratelimit-reset-requests": f"{wait}s"}
        return HttpReply(failure.status, encode({"error": _chat_error(turn, fault, resets_in_s)}), headers)

    def _message(self, reply: ModelReply) -> dict[str, Any]:
        if reply.call is None:
            return {"content": reply.text, "role": "assistant"}
        function = {"name": reply.call.tool, "arguments": json.dumps(reply.call.arguments)}
        call = {"index": 0, "id": f"call_{reply.number}", "type": "function", "function": function}
        return {"content": None, "tool_calls": [call], "role": "assistant"}

    def _finish(self, reply: ModelReply) -> str:
        if reply.refused:
            return "content_filter"
        return "stop" if reply.call is None else "tool_calls"

    def _usage(self, reply: ModelReply) -> dict[str, int]:
        return usage(reply, "prompt_tokens", "completion_tokens", "total_tokens")

    def _envelope(self, turn: ModelTurn, reply: ModelReply, kind: str) -> dict[str, Any]:
        return {"id": f"chatcmpl-{reply.number}", "object": kind, "created": 0, "model": turn.model}

    def _chunk(
        self, turn: ModelTurn, reply: ModelReply, delta: Any, finish: str | None = None, usage: Any = None
    ) -> bytes:
        choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
        chunk = self._envelope(turn, reply, "chat.completion.chunk")
        return event(chunk | {"choices": choices, "usage": usage})


def _chat_error(turn: ModelTurn, fault: ModelFault, resets_in_s: int) -> dict[str, Any]:
    failure = _CHAT_FAILURES[fault]
    message = _worded(failure, turn, resets_in_s)
    if fault is ModelFault.PAYMENT_REQUIRED:
        return {"message": message, "code": failure.status}
    return {"message": message, "type": failure.kind, "param": None, "code": failure.code or None}


class ResponsesApi:
    """`POST /v1/responses`, streamed or not."""

    def read(self, path: str, body: Mapping[str, Any]) -> ModelTurn:
        """Read a request."""
        given = body.get("input", [])
        items = [{"role": "user", "content": given}] if isinstance(given, str) else given
        tools = [
            OfferedTool(tool["name"], freeform=True)
            if tool["type"] == "custom"
            else OfferedTool(tool["name"], tool.get("parameters") or {})
            for tool in body.get("tools") or ()
            if tool.get("type") in ("function", "custom")
        ]
        return ModelTurn(
            prompt=texts(items, "user"),
            system="\n".join([body.get("instructions") or "", texts(items, "system", "developer")]).strip(),
            tools={tool.name: tool for tool in tools},
            made=sum(item.get("type") in _CALLS for item in items),
            stream=bool(body.get("stream")),
            model=body.get("model", ""),
            path=path,
            results=tuple(text_of(item.get("output")) for item in items if item.get("type") in _RESULTS),
            schema=_schema_of((body.get("text") or {}).get("format")),
            forced=_forced(body.get("tool_choice")),
        )

    def stream(self, turn: ModelTurn, reply: ModelReply) -> StreamedReply:
        """Word a reply as events: an item is added and done, then the response is completed or, refused, incomplete."""
        item = self._item(reply)
        opening = [
            typed_event("response.created", response=self._response(turn, reply, "in_progress", [])),
            typed_event("response.output_item.added", output_index=0, item=item | {"status": "in_progress"}),
        ]
        if reply.call is None:
            where = {"item_id": item["id"], "output_index": 0, "content_index": 0}
            opening.append(typed_event("response.output_text.delta", **where, delta=reply.text))
        status = self._status(reply)
        closing = (
            typed_event("response.output_item.done", output_index=0, item=item),
            typed_event(f"response.{status}", response=self._response(turn, reply, status, [item])),
        )
        return StreamedReply(tuple(opening), closing)

    def whole(self, turn: ModelTurn, reply: ModelReply) -> bytes:
        """Word a reply as one document."""
        return encode(self._response(turn, reply, self._status(reply), [self._item(reply)]))

    def fail(self, turn: ModelTurn, fault: ModelFault, resets_at: int, resets_in_s: int) -> HttpReply:
        """Fail as OpenAI does: an overflow and a lack of credit are events of the stream, the rest a status."""
        failure = _RESPONSES_FAILURES[fault]
        error: dict[str, Any] = {"message": _worded(failure, turn, resets_in_s)}
        error |= {"type": failure.kind} if failure.kind else {}
        error |= {"code": failure.code} if failure.code else {}
        if fault in _TOLD_IN_THE_STREAM and turn.stream:
            failed = {"id": "resp_0", "object": "response", "status": "failed", "error": error}
            return HttpReply(200, typed_event("response.failed", response=failed), media=STREAM)
        if fault is ModelFault.USAGE_LIMIT:
            error |= {"plan_type": "plus", "resets_at": resets_at, "resets_in_seconds": resets_in_s}
        headers = {"retry-after": "1"} if fault is ModelFault.RATE_LIMIT else {}
        return HttpReply(failure.status, encode({"error": error}), headers)

    def _item(self, reply: ModelReply) -> dict[str, Any]:
        if reply.call is not None:
            return self._call(reply.call, reply.number)
        content = [{"type": "output_text", "text": reply.text, "annotations": []}]
        status = self._status(reply)
        message = {"type": "message", "id": f"msg_{reply.number}", "role": "assistant", "status": status}
        return message | {"content": content}

    def _call(self, call: ToolCall, number: int) -> dict[str, Any]:
        ids = {"id": f"item_call_{number}", "call_id": f"call_{number}"}
        common = {**ids, "name": call.tool, "status": "completed"}
        if call.freeform:
            return {"type": "custom_tool_call", "input": call.text, **common}
        return {"type": "function_call", "arguments": json.dumps(call.arguments), **common}

    def _status(self, reply: ModelReply) -> str:
        return "incomplete" if reply.refused else "completed"

    def _response(self, turn: ModelTurn, reply: ModelReply, status: str, output: list[Any]) -> dict[str, Any]:
        details = {
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        }
        tokens = usage(reply, "input_tokens", "output_tokens", "total_tokens") | details
        response = {"id": f"resp_{reply.number}", "object": "response", "created_at": 0, "model": turn.model}
        ended = {"status": status, "output": output, "usage": None if status == "in_progress" else tokens}
        reason = {"incomplete_details": {"reason": "content_filter"}} if status == "incomplete" else {}
        return response | ended | reason
