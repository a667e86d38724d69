"""A real dashboard server as a process of its own, and somebody who asks it over HTTP."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import msgspec

from tests.support.command import COMMAND
from tests.support.runs import DEADLINE_S

API = "/api/v1"
_ADDRESS = re.compile(rb"(https?)://([^/]+)/#token=(\S+)")


@dataclass(slots=True)
class DashboardProcess:
    """A running `holdfast serve`, its address and its token."""

    process: subprocess.Popen[bytes]
    base: str
    token: str
    port: int
    client: httpx.Client = field(init=False)

    def __post_init__(self) -> None:
        self.client = self.stranger(headers={"authorization": f"Bearer {self.token}"})

    def stranger(self, **more: Any) -> httpx.Client:
        """Return a client without the token."""
        return httpx.Client(base_url=self.base, timeout=DEADLINE_S * 2, verify=False, **more)

    def get(self, path: str, **more: Any) -> Any:
        """Return what the API answers to a question, which must succeed."""
        answer = self.client.get(API + path, **more)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, body: object) -> httpx.Response:
        """Send something to the API."""
        return self.client.post(API + path, json=body)

    def act(self, run: str, name: str, task: str | None = None, **fields: Any) -> Any:
        """Do an action of a run of the first repository, and return its answer."""
        body = {"name": name, "fields": fields} | ({"task": task} if task else {})
        answer = self.post(f"{self.run_path(run)}/actions", body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def run_path(self, run: str) -> str:
        """Return the path of a run of the first repository."""
        first = self.get("/overview")["repositories"][0]["id"]
        return f"/repositories/{first}/runs/{run}"

    @contextmanager
    def stream(self, path: str, **headers: str) -> Iterator[Stream]:
        """Open a stream of events."""
        with self.client.stream("GET", API + path, headers=headers) as answer:
            assert answer.status_code == 200, answer.read()
            yield Stream(answer)


@dataclass(frozen=True, slots=True)
class StreamMessage:
    """One message of a stream; `number` is 0 if it has none."""

    event: str
    data: Any
    number: int = 0


class Stream:
    """The messages of a stream, one by one."""

    def __init__(self, answer: httpx.Response) -> None:
        self._lines = answer.iter_lines()

    def next(self) -> StreamMessage:
        """Return the next message."""
        fields: dict[str, str] = {}
        for line in self._lines:
            if not line and "data" in fields:
                return StreamMessage(
                    fields["event"], msgspec.json.decode(fields["data"]), int(fields.get("id", 0))
                )
            name, _, value = line.partition(": ")
            if name:
                fields[name] = value
        raise StopIteration

    def until(self, event: str, holds: Any = lambda _data: True) -> StreamMessage:
        """Return the next message of a kind that fulfils something."""
        while True:
            found = self.next()
            if found.event == event and holds(found.data):
                return found

    def __iter__(self) -> Iterator[StreamMessage]:
        while True:
            try:
                yield self.next()
            except StopIteration:
                return


@contextmanager
def serving(here: Path, *words: str, port: str = "0", **env: str) -> Iterator[DashboardProcess]:
    """Start a server in a folder and wait until it can be asked; end it afterwards."""
    process = subprocess.Popen(
        [*COMMAND, "serve", "--port", port, *words],
        cwd=here,
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    with ExitStack() as stack:
        stack.callback(_end, process)
        server = _started(process)
        stack.callback(server.client.close)
        yield server


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    process.communicate(timeout=DEADLINE_S)


def _started(process: subprocess.Popen[bytes]) -> DashboardProcess:
    assert process.stdout is not None
    said, deadline = b"", time.monotonic() + DEADLINE_S * 2
    while (found := _ADDRESS.search(said)) is None or not said.endswith(b"\n"):
        left = deadline - time.monotonic()
        assert left > 0, said
        if select.select([process.stdout], [], [], left)[0]:
            piece = os.read(process.stdout.fileno(), 4096)
            assert piece, process.communicate()
            said += piece
    scheme, host, token = (part.decode() for part in found.groups())
    return DashboardProcess(process, f"{scheme}://{host}", token, int(host.rpartition(":")[2]))
