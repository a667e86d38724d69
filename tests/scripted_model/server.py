"""A model that follows a script, served on loopback through the APIs of three providers, for real agents to talk to.

Answers come in chunks, as from the providers: only then does every HTTP client tell a clean end from a cut.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from holdfast.views.text import count
from tests.scripted_model.exchange import (
    HttpReply,
    MissingToolError,
    ModelReply,
    ModelTurn,
    ProviderApi,
    reply_to,
)
from tests.scripted_model.provider_apis import api_of, asked_besides
from tests.scripted_model.script import ModelFault, Script
from tests.scripted_model.wording import STREAM, encode

_LOOPBACK = "127.0.0.1"
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_BEGINNING = "I will begin by"

Scripts = Mapping[str, Script] | Callable[[str], Script]
"""The script of each task by its id, or a function from the prompt to the script."""
RequestHandler = Callable[[str, str, Mapping[str, str], bytes], HttpReply]
"""Answers a request: the method, the path, the headers (names in lower case) and the body."""


class LoopbackServer(ThreadingHTTPServer):
    """A server at a port of 127.0.0.1, a free one unless told, with a thread for each request."""

    daemon_threads = True

    def __init__(self, answer_request: RequestHandler, port: int = 0) -> None:
        super().__init__((_LOOPBACK, port), _Handler)
        self.answer_request = answer_request

    def refuse_connections(self) -> None:
        """Listen no longer, but keep the port, so that nobody else listens there. Repeating changes nothing."""
        self.shutdown()
        with suppress(OSError):  # it listened no longer
            self.socket.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: object, client_address: object) -> None:
        """Stay silent when a client hangs up: killed agents do. Anything else goes to standard error."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: LoopbackServer

    def do_POST(self) -> None:
        """Reply to a request."""
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer = self.server.answer_request(self.command, self.path, headers, body)
        self.send_response(answer.status)
        # Node takes a reset for the end of an answer after which the connection was to be closed.
        framing = {"transfer-encoding": "chunked"} | ({} if answer.cut else {"connection": "close"})
        for name, value in {"content-type": answer.media, **framing, **answer.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self._send(answer)
        self.close_connection = True
        if answer.cut:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            os.close(self.connection.detach())

    def _send(self, answer: HttpReply) -> None:
        """Send the body as one chunk. The empty chunk that ends it is missing where the connection is cut."""
        if answer.body:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(answer.body), answer.body))
        if not answer.cut:
            self.wfile.write(b"0\r\n\r\n")

    do_GET = do_HEAD = do_POST  # noqa: N815 - the names that the base class looks for

    def log_message(self, *words: object) -> None:
        """Print nothing: the requests are kept in the model."""


@dataclass(frozen=True, slots=True)
class ServedRequest:
    """A request for a reply that reached the model. `made` is how many tool calls its conversation held.

    `aside` is one that asks for something beside the work, such as a title.
    """

    path: str
    headers: Mapping[str, str]
    body: bytes
    task: str
    made: int
    aside: bool = False


class ScriptedModel:
    """A server to use as a context manager; agents are pointed at `url()`.

    The script is chosen by the task that the brief in the prompt names (`# Task <id>`), or by a function of the
    prompt. A task without a script gets the empty one, which just says that it is done. Which step of the script
    comes next follows from the conversation alone: a fresh agent starts over, a resumed one continues.

    The first part of the path can make every script fail or wait: `url("usage-limit")` and the other values of
    `ModelFault`, `url("rate-limit-once")`, and `url("slow")`, where each answer waits for the event `gate`.
    `url("refused")` is at a port of its own, where nobody listens. In a script, that fault closes the model's own port,
    for all its scripts, as soon as an agent was told to do the last action before it.

    `models` are the names in the list of models; a reply is given under any name. `notice` is told of every request and
    its answer in a line.
    """

    def __init__(
        self,
        scripts: Scripts,
        *,
        models: tuple[str, ...] = ("fake-1",),
        port: int = 0,
        notice: Callable[[str], None] | None = None,
    ) -> None:
        self._scripts = scripts
        self._models = models
        self._notice = notice
        self._requests: list[ServedRequest] = []
        self._faults: Counter[tuple[str, str]] = Counter()
        self._told_in_words: Counter[str] = Counter()
        self._replies = 0
        self._change = threading.Condition()
        self._closing = False
        self._held: set[threading.Event] = set()
        self.gate = threading.Event()
        self._bound = socket.socket()
        self._bound.bind((_LOOPBACK, 0))
        self._refused_port: int = self._bound.getsockname()[1]
        self._server = LoopbackServer(self._answer, port)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> ScriptedModel:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop serving and release everything that waits. Repeating changes nothing."""
        with self._change:
            closed, self._closing = self._closing, True
            for event in self._held:
                event.set()
            self._change.notify_all()
        if not closed:
            self._server.shutdown()
            self._server.server_close()
            self._bound.close()
            self._thread.join()

    def url(self, mode: str = "ok") -> str:
        """Return the address to put before a provider's own path, such as `/v1/responses`."""
        port = self._refused_port if mode == ModelFault.REFUSED else self._server.server_address[1]
        return f"http://{_LOOPBACK}:{port}/{mode}"

    @property
    def requests(self) -> tuple[ServedRequest, ...]:
        """Every request for a reply so far, in order of arrival."""
        with self._change:
            return tuple(self._requests)

    def count(self, task: str) -> int:
        """Return how many requests came for the work at a task."""
        return sum(request.task == task and not request.aside for request in self.requests)

    def wait_for(self, task: str, made: int = 0, timeout_s: float = 120.0) -> None:
        """Return once an agent asked what to do in a task after `made` tool calls, or raise TimeoutError."""
        with self._change:
            if not self._change.wait_for(lambda: self._asked(task, made), timeout_s):
                raise TimeoutError(f"no request for {task} after {made} tool calls in {timeout_s:g} s")

    def _asked(self, task: str, made: int) -> bool:
        wanted = (one for one in self._requests if one.task == task and not one.aside)
        return any(request.made >= made for request in wanted)

    def _answer(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> HttpReply:
        answer = self._answer_to(method, path, headers, body)
        if self._notice is not None:
            self._notice(f"{method} {path}: {answer.meaning or answer.status}")
        return answer

    def _answer_to(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> HttpReply:
        plain = path.partition("?")[0]
        if method == "HEAD":
            return HttpReply(200, b"")
        api = api_of(plain)
        if api is not None and method == "POST":
            return self._reply(api, path, headers, body)
        if (besides := asked_besides(plain, body, self._models)) is not None:
            return besides
        return HttpReply(404, encode({"error": {"message": f"nothing is served at {plain}", "code": 404}}))

    def _reply(self, api: ProviderApi, path: str, sent: Mapping[str, str], body: bytes) -> HttpReply:
        # The provider's own path: a failure that quotes it must not name the mode.
        mode, _, plain = path.partition("?")[0].removeprefix("/").partition("/")
        turn = api.read(f"/{plain}", json.loads(body))
        self._record(ServedRequest(path, sent, body, turn.task, turn.made, turn.aside))
        script = self._in_mode(mode, self._script(turn))
        self._wait(script.hold)
        self._think(script.think_s)
        if script.fault and self._fails(script, mode, turn):
            answer = self._failure(api, turn, script, script.fault)
            answer = replace(answer, meaning=f"fails: {script.fault} ({answer.status})")
        else:
            answer = self._next_step(api, turn, script, mode)
        about = (
            "beside the work" if turn.aside else f"{turn.task or 'no task'}, {count(turn.made, 'call')} made"
        )
        headers = {**answer.headers, **script.headers}
        return replace(answer, headers=headers, meaning=f"{about}: {answer.meaning}")

    def _failure(self, api: ProviderApi, turn: ModelTurn, script: Script, fault: ModelFault) -> HttpReply:
        if fault is ModelFault.REFUSED:
            self._server.refuse_connections()
        begun = ModelReply(_BEGINNING, None, *script.tokens, number=self._number())
        if fault is ModelFault.REFUSAL:
            return _worded(api, turn, replace(begun, refused=True))
        if fault in (ModelFault.CUT, ModelFault.EOF, ModelFault.REFUSED):
            return replace(_worded(api, turn, begun, half=True), cut=fault is not ModelFault.EOF)
        return api.fail(turn, fault, int(time.time()) + script.resets_in_s, script.resets_in_s)

    def _next_step(self, api: ProviderApi, turn: ModelTurn, script: Script, mode: str) -> HttpReply:
        try:
            reply = replace(reply_to(turn, script), number=self._number())
        except MissingToolError as error:
            # Not a status that agents retry, so that the reason is the last thing in their output.
            body = encode({"error": {"message": error.message, "code": 400}})
            return HttpReply(400, body, meaning=f"fails: {error.message}")
        if not turn.aside:
            if script.fault is ModelFault.REFUSED and self._made(turn, mode) + 1 >= script.after:
                # Before the answer goes out, so that the agent cannot come back first.
                self._server.refuse_connections()
            self._count_words(turn, mode)
        return replace(_worded(api, turn, reply), meaning=reply.meaning)

    def _count_words(self, turn: ModelTurn, mode: str) -> None:
        with self._change:
            self._told_in_words[mode] += not turn.tools

    def _number(self) -> int:
        with self._change:
            self._replies += 1
            return self._replies

    def _made(self, turn: ModelTurn, mode: str) -> int:
        """Return how many actions the agent was told; one without tools is told all of them in a single answer."""
        with self._change:
            return max(turn.made, 0 if turn.tools else self._told_in_words[mode])

    def _record(self, request: ServedRequest) -> None:
        with self._change:
            self._requests.append(request)
            self._change.notify_all()

    def _script(self, turn: ModelTurn) -> Script:
        if isinstance(self._scripts, Mapping):
            return self._scripts.get(turn.task, Script())
        return self._scripts(turn.prompt)

    def _in_mode(self, mode: str, script: Script) -> Script:
        if mode == "slow":
            return replace(script, hold=self.gate)
        if mode == "rate-limit-once":
            return replace(script, fault=ModelFault.RATE_LIMIT, times=1)
        return replace(script, fault=ModelFault(mode)) if mode in set(ModelFault) else script

    def _wait(self, hold: threading.Event | None) -> None:
        if hold is None:
            return
        with self._change:
            self._held.add(hold)
            if self._closing:
                hold.set()
        hold.wait()

    def _think(self, seconds: float) -> None:
        with self._change:
            self._change.wait_for(lambda: self._closing, seconds)

    def _fails(self, script: Script, mode: str, turn: ModelTurn) -> bool:
        if self._made(turn, mode) < script.after:
            return False
        if script.times is None:
            return True
        with self._change:
            if turn.aside or self._faults[mode, turn.task] >= script.times:
                return False
            self._faults[mode, turn.task] += 1
            return True


def _worded(api: ProviderApi, turn: ModelTurn, reply: ModelReply, *, half: bool = False) -> HttpReply:
    """Return a reply as the agent wants it. Half of it is the opening of a stream, or a document that breaks off."""
    if turn.stream:
        events = api.stream(turn, reply)
        body = b"".join(events.opening if half else events.opening + events.closing)
        return HttpReply(200, body, media=STREAM)
    whole = api.whole(turn, reply)
    return HttpReply(200, whole[: len(whole) // 2] if half else whole)
