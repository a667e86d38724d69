"""Gemini `generateContent` and `streamGenerateContent`, which Gemini CLI speaks."""

from __future__ import annotations

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

_GOOGLE = "type.googleapis.com/google.rpc."
_ERRORS: Mapping[Fault, tuple[int, str, str]] = {
    Fault.RATE_LIMIT: (429, "RESOURCE_EXHAUSTED", "Resource has been exhausted. Please retry in 1s."),
    Fault.USAGE_LIMIT: (429, "RESOURCE_EXHAUSTED", "You exceeded your current quota."),
    Fault.OVERFLOW: (
        400,
        "INVALID_ARGUMENT",
        "The input token count (1048577) exceeds the maximum number of tokens allowed (1048576).",
    ),
    Fault.BAD_KEY: (401, "UNAUTHENTICATED", "API key not valid. Please pass a valid API key."),
}


class GeminiApi:
    """`POST /v1beta/models/NAME:generateContent` and its streamed sister."""

    def read(self, path: str, body: Mapping[str, Any]) -> ModelTurn:
        """Understand a request. Name and mode are in the path."""
        contents = body.get("contents", [])
        name, _, method = path.rpartition("/")[2].partition(":")
        declared = [f for group in body.get("tools") or () for f in group.get("functionDeclarations") or ()]
        return ModelTurn(
            prompt="\n".join(text_of(c.get("parts")) for c in contents if c.get("role") == "user"),
            system=text_of((body.get("systemInstruction") or {}).get("parts")),
            tools={f["name"]: _tool(f) for f in declared},
            made=sum("functionCall" in part for content in contents for part in content.get("parts") or ()),
            stream=method.startswith("stream"),
            model=name,
        )

    def stream(self, turn: ModelTurn, reply: ModelReply) -> StreamedReply:
        """Say a reply in two events: the content, then the finish reason with the usage."""
        closing = _content(turn, [{"text": ""}], "STOP") | {"usageMetadata": _usage(reply)}
        return StreamedReply((event(_content(turn, [_part(reply)])),), (event(closing),))

    def whole(self, turn: ModelTurn, reply: ModelReply) -> bytes:
        """Say a reply in one document."""
        return encode(_content(turn, [_part(reply)], "STOP") | {"usageMetadata": _usage(reply)})

    def refuse(self, fault: Fault, resets_at: int, resets_in_s: int) -> ErrorReply:
        """Say what Google says: the wait and the exhausted quota are in `error.details`."""
        code, status, message = _ERRORS[fault]
        wait = {Fault.RATE_LIMIT: 1, Fault.USAGE_LIMIT: resets_in_s}.get(fault)
        details: list[dict[str, object]] = (
            [] if wait is None else [{"@type": f"{_GOOGLE}RetryInfo", "retryDelay": f"{wait}s"}]
        )
        if fault is Fault.USAGE_LIMIT:
            quota = {"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier", "quotaValue": "250"}
            details.insert(0, {"@type": f"{_GOOGLE}QuotaFailure", "violations": [quota]})
        error = {"code": code, "message": message, "status": status, "details": details}
        return ErrorReply(code, encode({"error": error}))


def _tool(function: Mapping[str, Any]) -> OfferedTool:
    schema = function.get("parametersJsonSchema") or function.get("parameters") or {}
    return OfferedTool.of_schema(function["name"], schema)


def _part(reply: ModelReply) -> dict[str, Any]:
    if reply.call is None:
        return {"text": reply.text}
    return {
        "functionCall": {"id": reply.call.id, "name": reply.call.tool, "args": dict(reply.call.arguments)}
    }


def _content(turn: ModelTurn, parts: list[Any], finish: str = "") -> dict[str, Any]:
    candidate: dict[str, Any] = {"index": 0, "content": {"role": "model", "parts": parts}}
    if finish:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], "modelVersion": turn.model}


def _usage(reply: ModelReply) -> dict[str, int]:
    return {
        "promptTokenCount": reply.input_tokens,
        "candidatesTokenCount": reply.output_tokens,
        "totalTokenCount": reply.input_tokens + reply.output_tokens,
    }
