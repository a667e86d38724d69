"""Anthropic's messages API, which Claude Code uses, and the headers by which a subscription's limits are told."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.scripted_model.exchange import HttpReply, ModelReply, ModelTurn, OfferedTool, StreamedReply
from tests.scripted_model.script import ModelFault
from tests.scripted_model.wording import (
    INVALID_REQUEST,
    ErrorWording,
    encode,
    text_of,
    texts,
    typed_event,
    wait_s,
)

_UNIFIED = "anthropic-ratelimit-unified"
_CLAIMS = {"5h": "five_hour", "7d": "seven_day"}
_FAILURES = {
    ModelFault.RATE_LIMIT: ErrorWording(
        429, "rate_limit_error", "This request would exceed your rate limit."
    ),
    ModelFault.USAGE_LIMIT: ErrorWording(
        429, "rate_limit_error", "This request would exceed your account's usage limit."
    ),
    ModelFault.OVERFLOW: ErrorWording(
        400, INVALID_REQUEST, "prompt is too long: 210000 tokens > 200000 maximum"
    ),
    ModelFault.BAD_KEY: ErrorWording(401, "authentication_error", "invalid x-api-key"),
    ModelFault.NO_CREDIT: ErrorWording(
        400,
        INVALID_REQUEST,
        "Your credit balance is too low to access the Anthropic API. "
        "Please go to Plans & Billing to upgrade or purchase credits.",
    ),
    ModelFault.PAYMENT_REQUIRED: ErrorWording(
        402, "billing_error", "There's an issue with your billing or payment information."
    ),
    ModelFault.BAD_MODEL: ErrorWording(404, "not_found_error", "model: {model}"),
    ModelFault.NOT_FOUND: ErrorWording(404, "not_found_error", "Not Found"),
    ModelFault.SERVER_ERROR: ErrorWording(500, "api_error", "Internal server error"),
}


def subscription_headers(
    status: str, resets_at: int, *, window: str = "5h", overage: str = "", disabled: str = ""
) -> dict[str, str]:
    """Return what a subscriber's answers carry besides: `status` is allowed, allowed_warning or rejected.

    `window` is the limit that counts, `5h` or `7d`. `overage` is the same word about usage credits: a subscriber whose
    limit is rejected works on while that is allowed. `disabled` is why there are none.
    """
    both = {name: status if name == window else "allowed" for name in _CLAIMS}
    told = {"status": status, "reset": str(resets_at), "representative-claim": _CLAIMS[window]}
    for name, word in both.items():
        told |= {f"{name}-status": word, f"{name}-reset": str(resets_at)}
        told |= {f"{name}-utilization": {"rejected": "1.0", "allowed_warning": "0.9"}.get(word, "0.1")}
    if overage:
        told |= {"overage-status": overage, "overage-reset": str(resets_at)}
    if disabled:
        told |= {"overage-disabled-reason": disabled}
    return {f"{_UNIFIED}-{name}": value for name, value in told.items()}


class MessagesApi:
    """`POST /v1/messages`, streamed or not."""

    def read(self, path: str, body: Mapping[str, Any]) -> ModelTurn:
        """Read a request."""
        messages = body.get("messages", [])
        tools = [tool for tool in body.get("tools") or () if "input_schema" in tool]
        parts = [part for one in messages for part in one.get("content") or () if isinstance(part, dict)]
        choice = body.get("tool_choice") or {}
        results = [part.get("content") for part in parts if part.get("type") == "tool_result"]
        return ModelTurn(
            prompt=texts(messages, "user"),
            system=text_of(body.get("system")),
            tools={tool["name"]: OfferedTool(tool["name"], tool["input_schema"]) for tool in tools},
            made=sum(part.get("type") == "tool_use" for part in parts),
            stream=bool(body.get("stream")),
            model=body.get("model", ""),
            path=path,
            results=tuple(text_of(content) for content in results),
            schema=self._schema(body),
            forced=choice.get("name", "") if choice.get("type") == "tool" else "",
        )

    def stream(self, turn: ModelTurn, reply: ModelReply) -> StreamedReply:
        """Word a reply as events: message and block start, grow, and stop. The usage at the end is the whole of it."""
        block, delta = self._started(reply)
        opening = (
            typed_event("message_start", message=self._message(turn, reply, [], None)),
            typed_event("content_block_start", index=0, content_block=block),
            typed_event("content_block_delta", index=0, delta=delta),
        )
        closing = (
            typed_event("content_block_stop", index=0),
            typed_event(
                "message_delta", delta=self._stop(reply), usage=self._usage(reply, reply.output_tokens)
            ),
            typed_event("message_stop"),
        )
        return StreamedReply(opening, closing)

    def whole(self, turn: ModelTurn, reply: ModelReply) -> bytes:
        """Word a reply as one document."""
        return encode(self._message(turn, reply, [self._block(reply)], self._stop(reply)))

    def fail(self, turn: ModelTurn, fault: ModelFault, resets_at: int, resets_in_s: int) -> HttpReply:
        """Fail as Anthropic does: the body names the kind, headers the wait and the reset."""
        status, kind, message, _ = _FAILURES[fault]
        wait = wait_s(fault, resets_in_s)
        headers = {} if wait is None else {"retry-after": str(wait)}
        if fault is ModelFault.USAGE_LIMIT:
            headers |= {f"{_UNIFIED}-status": "rejected", f"{_UNIFIED}-reset": str(resets_at)}
        error = {"type": kind, "message": message.format(model=turn.model)}
        return HttpReply(status, encode({"type": "error", "error": error}), headers)

    def _schema(self, body: Mapping[str, Any]) -> Mapping[str, Any] | None:
        form = (body.get("output_config") or {}).get("format") or body.get("output_format") or {}
        return form.get("schema") or {} if form.get("type") == "json_schema" else None

    def _block(self, reply: ModelReply) -> dict[str, Any]:
        if reply.call is None:
            return {"type": "text", "text": reply.text}
        call = reply.call
        return {
            "type": "tool_use",
            "id": f"toolu_{reply.number}",
            "name": call.tool,
            "input": dict(call.arguments),
        }

    def _started(self, reply: ModelReply) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the block as it starts, empty, and what makes it complete."""
        if reply.call is None:
            return {"type": "text", "text": ""}, {"type": "text_delta", "text": reply.text}
        arguments = json.dumps(reply.call.arguments)
        return self._block(reply) | {"input": {}}, {"type": "input_json_delta", "partial_json": arguments}

    def _stop(self, reply: ModelReply) -> dict[str, Any]:
        if reply.refused:
            why = "This request was declined because it could enable cyber harm."
            details = {"type": "refusal", "category": "cyber", "explanation": why}
            return {"stop_reason": "refusal", "stop_sequence": None, "stop_details": details}
        return {"stop_reason": "end_turn" if reply.call is None else "tool_use", "stop_sequence": None}

    def _usage(self, reply: ModelReply, written: int) -> dict[str, int]:
        caches = {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
        return {"input_tokens": reply.input_tokens, "output_tokens": written, **caches}

    def _message(
        self, turn: ModelTurn, reply: ModelReply, content: list[Any], stop: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        message = {"id": f"msg_{reply.number}", "type": "message", "role": "assistant", "model": turn.model}
        tokens = self._usage(reply, 1 if stop is None else reply.output_tokens)
        ended = {"stop_reason": None, "stop_sequence": None} if stop is None else stop
        return message | {"content": content, "usage": tokens, **ended}
