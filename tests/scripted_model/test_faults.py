"""How the scripted model fails: in every API, with the status and the words of the real provider."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.scripted_model import ModelFault, Script, ScriptedModel
from tests.scripted_model.requests_by_hand import EACH, SCRIPT, ask, chat, post


@EACH
@pytest.mark.parametrize(
    ("mode", "status"),
    [
        ("rate-limit", 429),
        ("usage-limit", 429),
        ("bad-key", 401),
        ("payment-required", 402),
        ("server-error", 500),
    ],
)
def test_refusals_have_the_status_of_the_real_thing(
    model: ScriptedModel, api: str, mode: str, status: int
) -> None:
    """Agents decide by status first."""
    said = ask(model, api, mode)
    assert said.status == status
    assert "error" in said.json


@EACH
def test_an_overflow_is_told_as_the_provider_tells_it(model: ScriptedModel, api: str) -> None:
    """OpenAI has a code for it, the others a sentence."""
    words = {"messages": "prompt is too long", "gemini": "exceeds the maximum number of tokens"}
    assert words.get(api, "context_length_exceeded") in ask(model, api, "overflow").text


@EACH
def test_a_usage_limit_names_its_reset(api: str) -> None:
    """The wait is where each provider puts it: in the body, in details or in a header."""
    with ScriptedModel(lambda _: Script(fault=ModelFault.USAGE_LIMIT, resets_in_s=1234)) as model:
        said = ask(model, api)
    assert "1234" in said.text + said.headers.get("retry-after", "")


@EACH
def test_a_429_that_comes_once_is_followed_by_the_script(model: ScriptedModel, api: str) -> None:
    """What a client that retries sees."""
    assert [ask(model, api, "rate-limit-once").status for _ in range(3)] == [429, 200, 200]


@EACH
def test_a_cut_answer_ends_in_a_reset_connection(model: ScriptedModel, api: str) -> None:
    """The client has read the beginning and then finds nobody at the other end."""
    with pytest.raises(ConnectionResetError):
        ask(model, api, "cut")


@EACH
def test_an_answer_that_ends_early_ends_cleanly(model: ScriptedModel, api: str) -> None:
    """Only the missing finish reason tells it from a whole answer."""
    said = ask(model, api, "eof")
    assert "I will begin by" in said.text
    assert not [word for word in ('"stop"', "completed", "message_stop", "STOP") if word in said.text]


def test_a_fault_can_come_in_the_middle_of_the_work(model: ScriptedModel) -> None:
    """A limit hits an agent that has already achieved something."""
    with ScriptedModel(lambda _: Script(SCRIPT.actions, fault=ModelFault.RATE_LIMIT, after=1)) as late:
        assert [ask(late, "chat", made=made).status for made in range(2)] == [200, 429]


TOLD = {
    "bad-model": {
        "chat": (404, "The model `m` does not exist or you do not have access to it."),
        "responses": (400, "The requested model 'm' does not exist."),
        "messages": (404, "model: m"),
        "gemini": (404, "models/m is not found for API version v1beta"),
    },
    "no-credit": {
        "chat": (429, "insufficient_quota"),
        "responses": (200, "insufficient_quota"),
        "messages": (400, "Your credit balance is too low to access the Anthropic API."),
        "gemini": (429, "Your prepayment credits are depleted."),
    },
}


@EACH
@pytest.mark.parametrize("fault", TOLD)
def test_a_missing_model_and_a_lack_of_credit_are_told_as_the_provider_tells_them(
    model: ScriptedModel, api: str, fault: str
) -> None:
    """Of a model, each has a sentence with its name. Credit: two use the status of a limit, one puts it into the stream."""
    said = ask(model, api, fault)
    status, words = TOLD[fault][api]
    assert (said.status, words in said.text) == (status, True)


@EACH
def test_an_api_that_is_not_there_is_told_without_a_model(model: ScriptedModel, api: str) -> None:
    """So that it is not taken for a wrong name; Google answers with a page for people."""
    said = ask(model, api, "not-found")
    words = {"messages": "Not Found", "gemini": "<title>Error 404 (Not Found)!!1</title>"}
    assert said.status == 404
    assert words.get(api, "Invalid URL (POST /v1/") in said.text


@EACH
def test_a_refusal_is_an_answer_with_a_stop_reason(model: ScriptedModel, api: str) -> None:
    """The answer begins, and a filter ends it; the status is that of a success."""
    reasons = {
        "chat": '"finish_reason": "content_filter"',
        "responses": '"incomplete_details": {"reason": "content_filter"}',
        "messages": '"stop_reason": "refusal"',
        "gemini": '"finishReason": "SAFETY"',
    }
    said = ask(model, api, "refusal")
    assert said.status == 200
    assert reasons[api] in said.text
    assert not [word for word in ('"stop"', "response.completed", "end_turn", "STOP") if word in said.text]


@EACH
def test_a_refused_connection_is_a_port_where_nobody_listens(model: ScriptedModel, api: str) -> None:
    """The port is reserved: no other process can begin to listen there."""
    with pytest.raises(ConnectionRefusedError):
        ask(model, api, "refused")


@EACH
@pytest.mark.parametrize("fault", [fault for fault in ModelFault if fault is not ModelFault.REFUSED])
def test_every_fault_can_come_after_the_first_action(api: str, fault: ModelFault) -> None:
    """The first answer is a whole one. The second is not, and claims no success."""
    with ScriptedModel({"T1": replace(SCRIPT, fault=fault, after=1)}) as late:
        assert "b.txt" in ask(late, api).text
        try:
            said = ask(late, api, made=1).text
        except ConnectionResetError:
            assert fault is ModelFault.CUT
            return
    assert '"ls' not in said.replace("\\", "")


@EACH
def test_the_port_can_close_after_the_first_action(api: str) -> None:
    """It is closed before the agent can know what to do, so the next request always finds nobody."""
    with ScriptedModel({"T1": replace(SCRIPT, fault=ModelFault.REFUSED, after=1)}) as late:
        assert "b.txt" in ask(late, api).text
        for _ in range(2):
            with pytest.raises(ConnectionRefusedError):
                ask(late, api, made=1)


def test_an_agent_without_tools_meets_a_late_fault_with_its_second_question() -> None:
    """It makes no tool calls that could be counted: its first answer held all the work."""
    with ScriptedModel({"T1": replace(SCRIPT, fault=ModelFault.BAD_KEY, after=1)}) as late:
        bare = chat() | {"tools": []}
        said = [post(late.url() + "/v1/chat/completions", bare).status for _ in range(3)]
    assert said == [200, 401, 401]
