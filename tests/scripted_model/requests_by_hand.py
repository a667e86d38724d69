"""Requests to the scripted model by plain HTTP, as agents make them in each API."""

from __future__ import annotations

import http.client
import json
from contextlib import closing
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.scripted_model import Script, ScriptedModel, Shell, Write

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
    return send("POST", url, json.dumps(body))


def send(method: str, url: str, body: str = "") -> Said:
    """Send a request by any method."""
    where = urlsplit(url)
    with closing(http.client.HTTPConnection(where.hostname or "", where.port, timeout=10)) as connection:
        connection.request(method, f"{where.path}?{where.query}", body, {"X-Mark": "canary"})
        answer = connection.getresponse()
        text = answer.read().decode()
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
    """Make a streamed request in an API."""
    path, body = PATHS[api]
    return post(model.url(mode) + path, body(made, stream=True))
