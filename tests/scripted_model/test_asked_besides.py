"""What agents ask beside the work: decisions in JSON, titles, lists, counts. None of it is a step of the script."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.scripted_model import ScriptedModel
from tests.scripted_model.json_schema import example_of
from tests.scripted_model.requests_by_hand import chat, gemini, messages, post, responses, send

CHOICE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "reasoning": {"type": "string"},
        "model_choice": {"type": "string", "enum": ["flash", "pro"]},
    },
    "required": ["reasoning", "model_choice"],
}
CHOSEN = {"reasoning": "by the script", "model_choice": "flash"}


def test_geminis_router_gets_a_choice_by_its_schema(model: ScriptedModel) -> None:
    """With the model `auto`, it asks which one to use before every turn."""
    settings = {"responseMimeType": "application/json", "responseJsonSchema": CHOICE}
    body = gemini() | {"tools": [], "generationConfig": settings}
    said = post(model.url() + "/v1beta/models/flash:generateContent", body).json
    assert json.loads(said["candidates"][0]["content"]["parts"][0]["text"]) == CHOSEN


def test_chat_with_a_response_format_gets_a_document_by_its_schema(model: ScriptedModel) -> None:
    """OpenAI's structured outputs."""
    form = {"type": "json_schema", "json_schema": {"name": "choice", "schema": CHOICE}}
    body = chat() | {"tools": [], "response_format": form}
    said = post(model.url() + "/v1/chat/completions", body).json
    assert json.loads(said["choices"][0]["message"]["content"]) == CHOSEN


def test_responses_with_a_text_format_get_a_document_by_its_schema(model: ScriptedModel) -> None:
    """The same in the other API of OpenAI."""
    form = {"type": "json_schema", "name": "choice", "schema": CHOICE}
    body = responses(stream=False) | {"tools": [], "text": {"format": form}}
    said = post(model.url() + "/v1/responses", body).json
    assert json.loads(said["output"][0]["content"][0]["text"]) == CHOSEN


def test_messages_with_an_output_format_get_a_document_by_its_schema(model: ScriptedModel) -> None:
    """Claude Code asks a small model for a session's title in this way."""
    form = {"format": {"type": "json_schema", "schema": CHOICE}}
    body = messages(stream=False) | {"tools": [], "output_config": form}
    said = post(model.url() + "/v1/messages", body).json
    assert json.loads(said["content"][0]["text"]) == CHOSEN


def test_a_tool_that_must_be_called_is_called_with_a_valid_answer(model: ScriptedModel) -> None:
    """Some agents ask for JSON by way of a tool that does nothing."""
    tool = {"type": "function", "function": {"name": "choose", "parameters": CHOICE}}
    body = chat() | {"tools": [tool], "tool_choice": {"type": "function", "function": {"name": "choose"}}}
    message = post(model.url() + "/v1/chat/completions", body).json["choices"][0]["message"]
    assert json.loads(message["tool_calls"][0]["function"]["arguments"]) == CHOSEN


@pytest.mark.parametrize(
    ("system", "said"),
    [
        ("You are a title generator. You output ONLY a thread title.", "Scripted work"),
        ("Generate a concise title. Return JSON with a single field.", '{"title": "Scripted work"}'),
        ("Return a JSON object with isNewTopic and title.", '{"isNewTopic": false, "title": null}'),
    ],
)
def test_a_title_is_given_where_one_is_asked_for(model: ScriptedModel, system: str, said: str) -> None:
    """Not the script in words, which agents would show as the name of the session."""
    body = messages(stream=False) | {"tools": [], "system": system}
    assert post(model.url() + "/v1/messages", body).json["content"][0]["text"] == said


def test_what_is_asked_besides_is_no_request_of_the_task(model: ScriptedModel) -> None:
    """The title is made of the brief, so its request names the task; a test that counts steps must not count it."""
    post(model.url() + "/v1/messages", messages() | {"tools": [], "system": "You are a title generator."})
    post(model.url() + "/v1/messages", messages())
    assert [request.aside for request in model.requests] == [True, False]
    assert model.count("T1") == 1


def test_a_fault_that_comes_once_is_kept_for_the_work(model: ScriptedModel) -> None:
    """Or else an agent would meet it with a question whose answer it can do without."""
    where = model.url("rate-limit-once") + "/v1/messages"
    bodies = [messages() | {"tools": [], "system": "You are a title generator."}, messages(), messages()]
    assert [post(where, body).status for body in bodies] == [200, 429, 200]


def test_an_answer_of_the_work_fits_the_schema_that_the_agent_was_given(model: ScriptedModel) -> None:
    """Codex hands `--output-schema` on with every request; only the last text is meant."""
    form = {"text": {"format": {"type": "json_schema", "name": "choice", "schema": CHOICE}}}
    bodies = [responses(made=made, stream=False) | form for made in (0, 2)]
    first, last = (post(model.url() + "/v1/responses", body).json["output"][0] for body in bodies)
    assert first["type"] == "function_call"
    assert json.loads(last["content"][0]["text"]) == CHOSEN


def test_tokens_are_counted(model: ScriptedModel) -> None:
    """Agents ask before they send, to stay inside of the context."""
    assert post(model.url() + "/v1/messages/count_tokens", messages()).json["input_tokens"] > 1
    assert post(model.url() + "/v1beta/models/m:countTokens", gemini()).json["totalTokens"] > 1
    assert model.requests == ()


def test_models_are_listed() -> None:
    """Some agents refuse a model that is not in the list."""
    with ScriptedModel({}, models=("one", "two")) as model:
        listed = send("GET", model.url() + "/v1/models").json["data"]
        of_google = send("GET", model.url() + "/v1beta/models").json["models"]
        one = send("GET", model.url() + "/v1/models/two").json
        none = send("GET", model.url() + "/v1/models/three")
    assert [entry["id"] for entry in listed] == ["one", "two"]
    assert [entry["name"] for entry in of_google] == ["models/one", "models/two"]
    assert (one["id"], none.status) == ("two", 404)


def test_a_head_request_is_answered_without_a_body(model: ScriptedModel) -> None:
    """Claude Code opens its connection in this way."""
    said = send("HEAD", model.url())
    assert (said.status, said.text) == (200, "")


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "STRING", "enum": ["user", "model"]}, "user"),
        ({"type": "integer", "minimum": 1}, 1),
        ({"type": ["string", "null"]}, "by the script"),
        ({"const": 3}, 3),
        ({"anyOf": [{"type": "boolean"}, {"type": "null"}]}, False),
        ({"type": "array", "items": {"enum": ["a"]}, "minItems": 1}, ["a"]),
        ({"type": "array", "items": {"type": "string"}}, []),
        ({"type": "string", "maxLength": 2}, "by"),
        (
            {
                "$defs": {
                    "todo": {"type": "object", "properties": {"id": {"type": "number"}}, "required": ["id"]}
                },
                "properties": {"todos": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/todo"}}},
                "required": ["todos"],
            },
            {"todos": [{"id": 0}]},
        ),
        (
            {"allOf": [{"properties": {"a": {"type": "null"}}, "required": ["a"]}], "type": "object"},
            {"a": None},
        ),
    ],
)
def test_an_example_fits_its_schema(schema: dict[str, Any], value: object) -> None:
    """The least that an agent accepts: what is required, one of an enum, no number below its minimum."""
    assert example_of(schema) == value


def test_a_schema_that_holds_itself_has_an_end(model: ScriptedModel) -> None:
    """Trees are described by themselves."""
    tree = {"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]}
    assert "next" in example_of(tree)
