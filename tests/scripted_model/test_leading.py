"""A script that calls any tool by its name, with arguments made of what came back from earlier ones."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.scripted_model import Call, Conversation, Script, ScriptedModel, subscription_headers
from tests.scripted_model.requests_by_hand import BRIEF, EACH, ask, chat, messages, post

OPEN = "mcp__holdfast__open_run"
TAKE = {
    "type": "object",
    "properties": {"run": {"type": "string"}, "mode": {"type": "string", "enum": ["next", "any"]}},
    "required": ["run", "mode"],
}


def _taken(conversation: Conversation) -> dict[str, Any]:
    return {"run": json.loads(conversation.results[-1])["run"]}


LEAD = Script((Call(OPEN, {"plan": "plan.toml"}), Call("take", _taken)), say="Led.")
OPENED = '{"run": "01-try-it"}'


def test_a_tool_is_called_by_its_name() -> None:
    """Whatever the agent offers, such as the tools of its MCP servers."""
    tools = [{"name": OPEN, "input_schema": {"type": "object"}}]
    with ScriptedModel({"T1": LEAD}) as model:
        said = post(model.url() + "/v1/messages", messages(stream=False) | {"tools": tools}).json
    assert (said["content"][0]["name"], said["content"][0]["input"]) == (OPEN, {"plan": "plan.toml"})


@pytest.mark.parametrize("content", [OPENED, [{"type": "text", "text": OPENED}]])
def test_messages_hand_earlier_results_to_the_arguments(content: object) -> None:
    """A result is a string or a list of parts; what the script leaves out is filled in."""
    body = messages(stream=False) | {"tools": [{"name": "take", "input_schema": TAKE}]}
    body["messages"] += [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": OPEN, "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": content}]},
    ]
    with ScriptedModel({"T1": LEAD}) as model:
        said = post(model.url() + "/v1/messages", body).json
    assert said["content"][0]["input"] == {"run": "01-try-it", "mode": "next"}


def test_chat_hands_earlier_results_to_the_arguments() -> None:
    """There they are messages of their own."""
    body = chat(made=1) | {"tools": [{"type": "function", "function": {"name": "take", "parameters": TAKE}}]}
    body["messages"].append({"role": "tool", "tool_call_id": "0", "content": OPENED})
    with ScriptedModel({"T1": LEAD}) as model:
        message = post(model.url() + "/v1/chat/completions", body).json["choices"][0]["message"]
    assert json.loads(message["tool_calls"][0]["function"]["arguments"])["run"] == "01-try-it"


def test_responses_hand_earlier_results_to_the_arguments() -> None:
    """There they are items."""
    body = {
        "input": [
            {"role": "user", "content": BRIEF},
            {"type": "function_call", "call_id": "call_1"},
            {"type": "function_call_output", "call_id": "call_1", "output": OPENED},
        ],
        "tools": [{"type": "function", "name": "take", "parameters": TAKE}],
    }
    with ScriptedModel({"T1": LEAD}) as model:
        item = post(model.url() + "/v1/responses", body).json["output"][0]
    assert json.loads(item["arguments"])["run"] == "01-try-it"


@pytest.mark.parametrize("response", [{"output": OPENED}, {"run": "01-try-it"}])
def test_gemini_hands_earlier_results_to_the_arguments(response: dict[str, str]) -> None:
    """There they are parts with an object; its text is under `output`, if it has one."""
    body = {
        "contents": [
            {"role": "user", "parts": [{"text": BRIEF}]},
            {"role": "model", "parts": [{"functionCall": {"name": OPEN}}]},
            {"role": "user", "parts": [{"functionResponse": {"name": OPEN, "response": response}}]},
        ],
        "tools": [{"functionDeclarations": [{"name": "take", "parametersJsonSchema": TAKE}]}],
    }
    with ScriptedModel({"T1": LEAD}) as model:
        said = post(model.url() + "/v1beta/models/m:generateContent", body).json
    assert said["candidates"][0]["content"]["parts"][0]["functionCall"]["args"]["run"] == "01-try-it"


def test_a_tool_that_is_not_offered_is_named() -> None:
    """With those that are, so that one sees what the agent calls it."""
    with ScriptedModel({"T1": LEAD}) as model:
        said = post(model.url() + "/v1/messages", messages())
    assert said.json["error"]["message"] == f"no {OPEN} among the agent's tools: Write, Bash"


@EACH
def test_every_answer_has_ids_of_its_own(model: ScriptedModel, api: str) -> None:
    """Agents add tokens up by message and match results to calls; one id for all confuses both."""
    said = [ask(model, api).text for _ in range(2)]
    names = {"chat": "chatcmpl-", "responses": "resp_", "messages": "msg_", "gemini": "response-"}
    calls = {"messages": "toolu_"}
    for number, text in enumerate(said, 1):
        assert f'"{names[api]}{number}"' in text
        assert f'"{calls.get(api, "call_")}{number}"' in text


def test_usage_can_come_with_every_chunk() -> None:
    """Some gateways count aloud; who adds it up counts twice."""
    with ScriptedModel({"T1": Script(running_usage=True, tokens=(7, 3))}) as model:
        chunks = ask(model, "chat").events
    assert [chunk["usage"]["total_tokens"] for chunk in chunks] == [10, 10, 10]


def test_usage_of_messages_is_told_twice_and_is_cumulative() -> None:
    """At the start without the answer, at the end as a whole."""
    with ScriptedModel({"T1": Script(tokens=(7, 3))}) as model:
        events = {event["type"]: event for event in ask(model, "messages").events}
    first, last = events["message_start"]["message"]["usage"], events["message_delta"]["usage"]
    assert [(one["input_tokens"], one["output_tokens"]) for one in (first, last)] == [(7, 1), (7, 3)]


@EACH
@pytest.mark.parametrize("mode", ["ok", "server-error"])
def test_a_script_can_add_headers_to_every_answer(api: str, mode: str) -> None:
    """A subscriber with usage credits: the limit is rejected, and the answer comes all the same."""
    headers = subscription_headers("rejected", 1_800_000_000, window="7d", overage="allowed")
    with ScriptedModel({"T1": Script(headers=headers)}) as model:
        said = ask(model, api, mode)
    unified = {k.removeprefix("anthropic-ratelimit-unified-"): v for k, v in said.headers.items()}
    assert (unified["status"], unified["representative-claim"]) == ("rejected", "seven_day")
    assert (unified["5h-status"], unified["7d-status"]) == ("allowed", "rejected")
    assert (unified["reset"], unified["7d-reset"]) == ("1800000000", "1800000000")
    assert (unified["overage-status"], unified["overage-reset"]) == ("allowed", "1800000000")
