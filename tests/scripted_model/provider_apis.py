"""Which API serves a path: four that reply, and the small ones that agents ask besides: lists of models, counts of tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.scripted_model.anthropic_api import MessagesApi
from tests.scripted_model.exchange import HttpReply, ProviderApi
from tests.scripted_model.gemini_api import GeminiApi
from tests.scripted_model.openai_apis import ChatApi, ResponsesApi
from tests.scripted_model.wording import encode

APIS: Mapping[str, ProviderApi] = {
    "/chat/completions": ChatApi(),
    "/responses": ResponsesApi(),
    "/messages": MessagesApi(),
    ":generateContent": GeminiApi(),
    ":streamGenerateContent": GeminiApi(),
}
"""The API that replies at a path, by the end of the path."""

_CHARACTERS_PER_TOKEN = 4
_MODELS = "/models"


def api_of(path: str) -> ProviderApi | None:
    """Return the API that replies at a path, if any does."""
    return next((api for end, api in APIS.items() if path.endswith(end)), None)


def asked_besides(path: str, body: bytes, models: tuple[str, ...]) -> HttpReply | None:
    """Answer what is no request for a reply: how many tokens that would be, and which models there are."""
    tokens = 1 + len(body) // _CHARACTERS_PER_TOKEN
    if path.endswith("/messages/count_tokens"):
        return HttpReply(200, encode({"input_tokens": tokens}))
    if path.endswith(":countTokens"):
        return HttpReply(200, encode({"totalTokens": tokens}))
    if path.endswith("/v1beta/models"):
        return HttpReply(200, encode({"models": [_of_google(name) for name in models]}))
    if path.endswith(_MODELS):
        ends = {"has_more": False, "first_id": models[0], "last_id": models[-1]}
        return HttpReply(200, encode({"object": "list", "data": [_listed(name) for name in models], **ends}))
    name = path.rpartition("/")[2]
    if path.endswith(f"{_MODELS}/{name}") and name in models:
        return HttpReply(200, encode(_of_google(name) if "/v1beta/" in path else _listed(name)))
    return None


def _listed(name: str) -> dict[str, Any]:
    """Return a model as OpenAI and Anthropic list it; neither minds the other's fields."""
    of_openai = {"object": "model", "created": 0, "owned_by": "scripted"}
    return {
        "id": name,
        "type": "model",
        "display_name": name,
        "created_at": "2026-01-01T00:00:00Z",
        **of_openai,
    }


def _of_google(name: str) -> dict[str, Any]:
    methods = ["generateContent", "countTokens"]
    limits = {"inputTokenLimit": 100_000, "outputTokenLimit": 8_000}
    return {"name": f"models/{name}", "displayName": name, "supportedGenerationMethods": methods, **limits}
