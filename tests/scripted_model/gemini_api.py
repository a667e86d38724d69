"""Google's API, which Gemini CLI uses."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.scripted_model.exchange import HttpReply, ModelReply, ModelTurn, OfferedTool, StreamedReply
from tests.scripted_model.script import ModelFault
from tests.scripted_model.wording import ErrorWording, encode, event, text_of, usage, wait_s

_GOOGLE = "type.googleapis.com/google.rpc."
_NOT_FOUND = """<!DOCTYPE html>
<html lang=en><title>Error 404 (Not Found)!!1</title>
<p><b>404.</b> <ins>That's an error.</ins>
<p>The requested URL <code>{path}</code> was not found on this server. <ins>That's all we know.</ins>
"""
_FAILURES = {
    ModelFault.RATE_LIMIT: ErrorWording(
        429, "RESOURCE_EXHAUSTED", "Resource has been exhausted. Please retry in 1s."
    ),
    ModelFault.USAGE_LIMIT: ErrorWording(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota."),
    ModelFault.OVERFLOW: ErrorWording(
        400,
        "INVALID_ARGUMENT",
        "The input token count (1048577) exceeds the maximum number of tokens allowed (1048576).",
    ),
    ModelFault.BAD_KEY: ErrorWording(
        401, "UNAUTHENTICATED", "API key not valid. Please pass a valid API key."
    ),
    ModelFault.NO_CREDIT: ErrorWording(
        429,
        "RESOURCE_EXHAUSTED",
        "Your prepayment credits are depleted. Please go to AI Studio at https://ai.studio/projects "
        "to manage your project and billing.",
    ),
    ModelFault.PAYMENT_REQUIRED: ErrorWording(
        402,
        "FAILED_PRECONDITION",
        "Insufficient credits. Add more using https://openrouter.ai/settings/credits",
    ),
    ModelFault.BAD_MODEL: ErrorWording(
        404,
        "NOT_FOUND",
        "models/{model} is not found for API version v1beta, or is not supported for generateContent. "
        "Call ListModels to see the list of available models and their supported methods.",
    ),
    ModelFault.SERVER_ERROR: ErrorWording(
        500,
        "INTERNAL",
        "An internal error has occurred. Please retry or report in "
        "https://developers.generativeai.google/guide/troubleshooting",
    ),
}


class GeminiApi:
    """`POST /v1beta/models/NAME:generateContent` and `:streamGenerateContent`."""

    def read(self, path: str, body: Mapping[str, Any]) -> ModelTurn:
        """Read a request. The model and the mode are in the path."""
        contents = body.get("contents", [])
        name, _, method = path.rpartition("/")[2].partition(":")
        declared = [f for group in body.get("tools") or () for f in group.get("functionDeclarations") or ()]
        parts = [part for content in contents for part in content.get("parts") or ()]
        return ModelTurn(
            prompt="\n".join(text_of(c.get("parts")) for c in contents if c.get("role") == "user"),
            system=text_of((body.get("systemInstruction") or {}).get("parts")),
            tools={f["name"]: self._tool(f) for f in declared},
            made=sum("functionCall" in part for part in parts),
            stream=method.startswith("stream"),
            model=name,
            path=path,
            results=tuple(
                self._result(part["functionResponse"]) for part in parts if "functionResponse" in part
            ),
            schema=self._schema(body.get("generationConfig") or {}),
            forced=self._forced((body.get("toolConfig") or {}).get("functionCallingConfig") or {}),
        )

    def stream(self, turn: ModelTurn, reply: ModelReply) -> StreamedReply:
        """Word a reply as two events: the content, then the finish reason. Each has the usage so far."""
        opening = self._content(turn, reply, [self._part(reply)])
        return StreamedReply((event(opening),), (event(self._end(turn, reply, {"text": ""})),))

    def whole(self, turn: ModelTurn, reply: ModelReply) -> bytes:
        """Word a reply as one document."""
        return encode(self._end(turn, reply, self._part(reply)))

    def fail(self, turn: ModelTurn, fault: ModelFault, resets_at: int, resets_in_s: int) -> HttpReply:
        """Fail as Google does: the wait and the exhausted quota are in `error.details`."""
        if fault is ModelFault.NOT_FOUND:
            return HttpReply(
                404, _NOT_FOUND.format(path=turn.path).encode(), media="text/html; charset=UTF-8"
            )
        code, status, message, _ = _FAILURES[fault]
        details: list[dict[str, object]] = []
        if fault is ModelFault.USAGE_LIMIT:
            quota = {"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier", "quotaValue": "250"}
            details.append({"@type": f"{_GOOGLE}QuotaFailure", "violations": [quota]})
        if (wait := wait_s(fault, resets_in_s)) is not None:
            details.append({"@type": f"{_GOOGLE}RetryInfo", "retryDelay": f"{wait}s"})
        error = {
            "code": code,
            "message": message.format(model=turn.model),
            "status": status,
            "details": details,
        }
        return HttpReply(code, encode({"error": error}))

    def _tool(self, function: Mapping[str, Any]) -> OfferedTool:
        schema = function.get("parametersJsonSchema") or function.get("parameters") or {}
        return OfferedTool(function["name"], schema)

    def _result(self, answer: Mapping[str, Any]) -> str:
        response = answer.get("response") or {}
        text = response.get("output")
        return text if isinstance(text, str) else json.dumps(response)

    def _schema(self, settings: Mapping[str, Any]) -> Mapping[str, Any] | None:
        schema = settings.get("responseJsonSchema") or settings.get("responseSchema")
        if isinstance(schema, dict):
            return schema
        return {} if settings.get("responseMimeType") == "application/json" else None

    def _forced(self, calling: Mapping[str, Any]) -> str:
        allowed = calling.get("allowedFunctionNames") or []
        return allowed[0] if calling.get("mode") == "ANY" and len(allowed) == 1 else ""

    def _part(self, reply: ModelReply) -> dict[str, Any]:
        if reply.call is None:
            return {"text": reply.text}
        call = reply.call
        return {
            "functionCall": {"id": f"call_{reply.number}", "name": call.tool, "args": dict(call.arguments)}
        }

    def _content(self, turn: ModelTurn, reply: ModelReply, parts: list[Any], **finish: str) -> dict[str, Any]:
        candidate = {"index": 0, "content": {"role": "model", "parts": parts}, **finish}
        tokens = usage(reply, "promptTokenCount", "candidatesTokenCount", "totalTokenCount")
        envelope = {"modelVersion": turn.model, "responseId": f"response-{reply.number}"}
        return {"candidates": [candidate], "usageMetadata": tokens, **envelope}

    def _end(self, turn: ModelTurn, reply: ModelReply, part: dict[str, Any]) -> dict[str, Any]:
        return self._content(turn, reply, [part], finishReason="SAFETY" if reply.refused else "STOP")
