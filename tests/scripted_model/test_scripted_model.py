"""The scripted model by plain HTTP: every API words the same replies and fails in the same ways."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.scripted_model import ModelFault, Script, ScriptedModel, Shell, Write

BRIEF = "# Task T1: Greet\n\nWrite it."
SCRIPT = Script((Write("a/b.txt", "hi\n"), Shell("ls")), say="All done.", tokens=(7, 3))
WRITE = {
    "type": "object",
    "properties": {"file_path": {}, "content": {}},
    "required": ["file_path", "content"],
}
SHELL = {
    "type": "object",
    "properties": {"command": {"type": "string"}, "background": {"type": "boolean"}},
    "required": ["command", "background"],
}


@dataclass(frozen=True)
class Said:
    """What came back."""

    status: int
    headers: dict[str, str]
    text: str

    @property
    def json(self) -> Any:
        """The body as one document."""
        return json.loads(self.text)

    @property
    def events(self) -> list[Any]:
        """The body as server-sent events."""
        lines = (line.removeprefix("data: ") for line in self.text.splitlines() if line.startswith("data: "))
        return [json.loads(line) for line in lines if line != "[DONE]"]


def post(url: str, body: dict[str, Any]) -> Said:
    """Send a request as an agent would."""
    where = urlsplit(url)
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=10)
    connection.request("POST", f"{where.path}?{where.query}", json.dumps(body), {"X-Mark": "canary"})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return Said(answer.status, {name.lower(): value for name, value in answer.getheaders()}, text)


def chat(made: int = 0, stream: bool = False) -> dict[str, Any]:
    """Return a chat request whose conversation holds `made` tool calls."""
    tools = [("write_file", WRITE), ("run_shell_command", SHELL)]
    calls = [{"role": "assistant", "tool_calls": [{"id": str(n)}]} for n in range(made)]
    return {
        "model": "m",
        "stream": stream,
        "messages": [{"role": "user", "content": BRIEF}, *calls],
        "tools": [{"type": "function", "function": {"name": n, "parameters": p}} for n, p in tools],
    }


def responses(made: int = 0, stream: bool = True) -> dict[str, Any]:
    """Return a Responses request as Codex makes it."""
    shell = {"properties": {"cmd": {"type": "string"}}, "required": ["cmd"]}
    user = {"role": "user", "content": [{"type": "input_text", "text": BRIEF}]}
    return {
        "model": "m",
        "stream": stream,
        "input": [user, *({"type": "function_call"} for _ in range(made))],
        "tools": [{"type": "function", "name": "exec_command", "parameters": shell}],
    }


def messages(made: int = 0, stream: bool = True) -> dict[str, Any]:
    """Return an Anthropic request as Claude Code makes it."""
    calls = [{"role": "assistant", "content": [{"type": "tool_use"}]} for _ in range(made)]
    return {
        "model": "m",
        "stream": stream,
        "messages": [{"role": "user", "content": [{"type": "text", "text": BRIEF}]}, *calls],
        "tools": [{"name": "Write", "input_schema": WRITE}, {"name": "Bash", "input_schema": SHELL}],
    }


def gemini(made: int = 0, stream: bool = True) -> dict[str, Any]:
    """Return a Gemini request as Gemini CLI makes it; the path says whether it is streamed."""
    calls = [{"role": "model", "parts": [{"functionCall": {}}]} for _ in range(made)]
    tools = [("write_file", WRITE), ("run_shell_command", SHELL)]
    declared = [{"name": name, "parametersJsonSchema": schema} for name, schema in tools]
    return {
        "contents": [{"role": "user", "parts": [{"text": BRIEF}]}, *calls],
        "tools": [{"functionDeclarations": declared}],
    }


PATHS = {
    "chat": ("/v1/chat/completions", chat),
    "responses": ("/v1/responses", responses),
    "messages": ("/v1/messages", messages),
    "gemini": ("/v1beta/models/m:streamGenerateContent?alt=sse", gemini),
}
EACH = pytest.mark.parametrize("api", PATHS)


def ask(model: ScriptedModel, api: str, mode: str = "ok", made: int = 0) -> Said:
    """Make a streamed request in a api."""
    path, body = PATHS[api]
    return post(model.url(mode) + path, body(made, stream=True))


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    """A model with a script for T1."""
    with ScriptedModel({"T1": SCRIPT}) as serving:
        yield serving


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


@EACH
@pytest.mark.parametrize(("mode", "status"), [("rate-limit", 429), ("usage-limit", 429), ("bad-key", 401)])
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
