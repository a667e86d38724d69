"""The scripted model by plain HTTP: every API words the same replies."""

from __future__ import annotations

import json
import threading
import time

import pytest

from tests.scripted_model import Script, ScriptedModel
from tests.scripted_model.requests_by_hand import BRIEF, EACH, ask, chat, post, responses


@EACH
def test_a_script_is_followed_step_by_step_in_every_api(model: ScriptedModel, api: str) -> None:
    """The conversation says how many calls were made; the next step comes, and at last the text."""
    said = [ask(model, api, made=made) for made in range(3)]
    assert [answer.status for answer in said] == [200, 200, 200]
    assert "b.txt" in said[0].text
    assert '"ls' in said[1].text.replace("\\", "")
    assert "All done." in said[2].text


def test_chat_calls_name_the_offered_tool_with_all_that_it_requires(model: ScriptedModel) -> None:
    """An agent refuses a call that lacks a parameter, whatever the script knows of it."""
    delta = ask(model, "chat", made=1).events[0]["choices"][0]["delta"]
    function = delta["tool_calls"][0]["function"]
    assert function["name"] == "run_shell_command"
    assert json.loads(function["arguments"]) == {"command": "ls", "background": False}


def test_chat_without_a_stream_is_one_document(model: ScriptedModel) -> None:
    """Some agents ask for the whole answer at once."""
    document = post(model.url() + "/v1/chat/completions", chat(made=2)).json
    assert document["choices"][0]["message"]["content"] == "All done."
    assert document["usage"]["total_tokens"] == 10


def test_the_last_text_ends_with_the_line_that_the_latest_brief_asks_for(model: ScriptedModel) -> None:
    """As a model does that can read; a resumed session holds earlier briefs."""
    asks = "end your last message with this line:\n\nDone with"
    said = chat(made=2)
    said["messages"] += [{"role": "user", "content": f"{asks} {number}\n\nBye."} for number in (1, 2)]
    document = post(model.url() + "/v1/chat/completions", said).json
    assert document["choices"][0]["message"]["content"] == "All done.\n\nDone with 2"


def test_a_file_is_written_by_shell_where_only_a_shell_is_offered(model: ScriptedModel) -> None:
    """Codex has no tool for files that every model may use."""
    item = next(e["item"] for e in ask(model, "responses").events if e["type"] == "response.output_item.done")
    assert item["name"] == "exec_command"
    assert json.loads(item["arguments"])["cmd"] == "mkdir -p a && printf %s 'hi\n' > a/b.txt"


def test_a_patch_tool_is_given_a_patch(model: ScriptedModel) -> None:
    """Codex offers `apply_patch` as freeform text to the models that know it."""
    body = responses() | {"tools": [{"type": "custom", "name": "apply_patch"}]}
    done = [e["item"] for e in post(model.url() + "/v1/responses", body).events if "item" in e][-1]
    assert done["type"] == "custom_tool_call"
    assert done["input"] == "*** Begin Patch\n*** Add File: a/b.txt\n+hi\n*** End Patch\n"


def test_a_path_is_absolute_when_the_agent_says_where_it_works(model: ScriptedModel) -> None:
    """Some tools refuse a relative path."""
    body = chat()
    body["messages"].append({"role": "user", "content": "I'm currently working in the directory: /w/1\n"})
    call = post(model.url() + "/v1/chat/completions", body).json["choices"][0]["message"]["tool_calls"][0]
    assert json.loads(call["function"]["arguments"])["file_path"] == "/w/1/a/b.txt"


def test_an_agent_without_tools_is_told_in_words(model: ScriptedModel) -> None:
    """Aider takes whole files as fenced blocks below their path."""
    document = post(model.url() + "/v1/chat/completions", chat() | {"tools": []}).json
    assert "a/b.txt\n```\nhi\n```\n" in document["choices"][0]["message"]["content"]


def test_a_slow_model_answers_when_the_test_lets_it() -> None:
    """No test has to guess how long something takes."""
    hold = threading.Event()
    with ScriptedModel({"T1": Script(hold=hold)}) as model:
        said: list[int] = []
        client = threading.Thread(target=lambda: said.append(ask(model, "chat").status))
        client.start()
        model.wait_for("T1")
        assert said == []
        hold.set()
        client.join()
    assert said == [200]


def test_a_thinking_model_takes_its_time_for_every_answer() -> None:
    """A measurement needs agents that mostly wait for their model, as real ones do."""
    with ScriptedModel({"T1": Script(think_s=0.05)}) as model:
        began = time.monotonic()
        assert [ask(model, "chat").status for _ in range(2)] == [200, 200]
        assert time.monotonic() - began >= 0.1


@pytest.mark.parametrize(("mode", "think_s"), [("slow", 0.0), ("ok", 3600.0)])
def test_a_closed_model_lets_waiting_clients_go(mode: str, think_s: float) -> None:
    """A test that fails must not leave a thread or an agent behind that waits for ever."""
    with ScriptedModel({"T1": Script(think_s=think_s)}) as model:
        client = threading.Thread(target=ask, args=(model, "chat", mode))
        client.start()
        model.wait_for("T1")
    client.join(10)
    assert not client.is_alive()


def test_requests_are_kept_with_headers_body_and_task(model: ScriptedModel) -> None:
    """A test looks here for what must not have been sent, and for what was asked twice."""
    ask(model, "chat")
    ask(model, "gemini", made=1)
    assert [(request.task, request.made) for request in model.requests] == [("T1", 0), ("T1", 1)]
    assert model.requests[0].headers["x-mark"] == "canary"
    assert BRIEF in json.loads(model.requests[0].body)["messages"][0]["content"]
    assert (model.count("T1"), model.count("T2")) == (2, 0)


def test_an_action_that_no_tool_can_do_is_refused_with_the_reason(model: ScriptedModel) -> None:
    """The agent prints it, and nobody has to guess why nothing happened."""
    body = responses() | {"tools": [{"type": "function", "name": "view_image"}]}
    said = post(model.url() + "/v1/responses", body)
    assert (said.status, said.json["error"]["message"]) == (
        400,
        "no shell among the agent's tools: view_image",
    )


def test_a_function_of_the_prompt_chooses_the_script() -> None:
    """For prompts that are no briefs."""
    with ScriptedModel(lambda prompt: Script(say=f"{len(prompt)} characters")) as model:
        assert f"{len(BRIEF)} characters" in ask(model, "chat").text


def test_waiting_for_a_request_that_never_comes_says_which(model: ScriptedModel) -> None:
    """The message of a failed test names the task and the step."""
    with pytest.raises(TimeoutError, match="no request for T9 after 2 tool calls"):
        model.wait_for("T9", made=2, timeout_s=0.01)


def test_what_is_not_served_is_not_found(model: ScriptedModel) -> None:
    """Agents ask for lists of models and the like, and do without."""
    assert post(model.url() + "/v1/embeddings", {}).status == 404
