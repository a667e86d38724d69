"""`holdfast` without the time that Python takes to import it: a process that has imported it forks one for each command.

What the fork runs is what `python -m holdfast` runs, to the very end of the interpreter, with the streams, the folder and the
environment that the test gives. One thing only a process has that was started: the kernel shows the command line and the
environment of this one for each of its forks. Tests that look at these start one, with `Cli.started`.
"""

from __future__ import annotations

import atexit
import functools
import os
import select
import signal
import socket
import subprocess
import sys
import time
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from tests.support import fork_request, forking_process

_READ_AT_START = ("LD_", "LC_", "LANG", "PYTHON", "TZ")
"""How the variables begin that the loader, the C library and Python read only when a process starts."""
MCP, ACP = forking_process.LARGE
_CHUNK = 1 << 16


class ForkedProcess:
    """A command that goes on while the test does, used like one of `subprocess`."""

    def __init__(self, end: int, out: int | None) -> None:
        self._end, self._close_end = end, weakref.finalize(self, os.close, end)
        self._said = b""
        self.stdout = None if out is None else os.fdopen(out, "rb")
        self.returncode: int | None = None
        self._hear(1, None)
        self.pid = int(self._said)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.communicate()

    def poll(self) -> int | None:
        """Return its code, nothing while it lives."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it ends and return its code."""
        if self.returncode is None:
            self._hear(2, timeout)
            self.returncode = int(self._said.split()[1])
            self._close_end()
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[bytes, None]:
        """Return what it printed until everybody had closed its output, once it has ended."""
        said = b""
        if self.stdout is not None and not self.stdout.closed:
            with self.stdout as out:
                while _is_ready(out.fileno(), timeout) and (chunk := os.read(out.fileno(), _CHUNK)):
                    said += chunk
        self.wait(timeout)
        return said, None

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it, unless it has ended."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Ask it to end, unless it has ended."""
        self.send_signal(signal.SIGTERM)

    def _hear(self, lines: int, timeout: float | None) -> None:
        """Read so many lines: its process id, and its code."""
        while self._said.count(b"\n") < lines:
            if not _is_ready(self._end, timeout):
                raise subprocess.TimeoutExpired("holdfast", timeout or 0)
            heard = os.read(self._end, _CHUNK)
            assert heard, "the process that forks commands has ended"
            self._said += heard


def _is_ready(pipe: int, timeout: float | None) -> bool:
    return bool(select.select([pipe], [], [], timeout)[0])


class PreloadedCommand:
    """One process that forks commands, and has imported a large part that few of them need, if it is named."""

    def __init__(self, part: str = "") -> None:
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._started_with = _read_at_start(os.environ)
        with theirs, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind("")  # the kernel finds a name that is no file's
            listener.listen()
            self._address = listener.getsockname()[1:].decode()
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    forking_process.__file__,
                    str(theirs.fileno()),
                    str(listener.fileno()),
                    part,
                ],
                # Pipes, as a command has. Python makes its streams for them, and forks have these streams.
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=[theirs.fileno(), listener.fileno()],
            )

    def fits(self, env: Mapping[str, str]) -> bool:
        """Tell whether a process that is started in this environment would begin as the one that forks did."""
        return _read_at_start(env) == self._started_with

    def stand_in(self, program: str = "") -> list[str]:
        """Return the beginning of a command line whose process has a command forked, or a program in Python.

        The words of the command come after it. The process is not the command: see `fork_request`.
        """
        return [sys.executable, "-I", "-S", fork_request.__file__, self._address, program]

    def run(
        self, here: Path, words: Sequence[str], env: Mapping[str, str], patience_s: float
    ) -> tuple[int, str, str]:
        """Run a command to its end, with nothing to read; return its code and what it said.

        As with `subprocess.run`, the end is when the last process has closed the output.
        """
        (out, their_out), (err, their_err) = os.pipe(), os.pipe()
        end = self._ask({"here": str(here), "words": words, "env": dict(env)}, their_out, their_err)
        said = _read_all((out, err, end), patience_s)
        return int(said[end].split()[-1]), said[out].decode(), said[err].decode()

    def start(
        self,
        here: Path,
        words: Sequence[str],
        env: Mapping[str, str],
        program: str = "",
        *,
        text: bytes = b"",
        told: bool = False,
    ) -> ForkedProcess:
        """Start a command in a session of its own, or a program in Python, with a text to read, which a pipe must hold.

        If it is told, what it prints can be read.
        """
        assert self.fits(env), "it would begin otherwise if it were started"
        out, their_out = os.pipe() if told else (None, os.open(os.devnull, os.O_WRONLY))
        their_err = os.dup(2) if told else os.dup(their_out)
        asked = {"here": str(here), "words": words, "env": dict(env), "program": program, "session": True}
        return ForkedProcess(self._ask(asked, their_out, their_err, text), out)

    def _ask(self, request: dict[str, object], out: int, err: int, text: bytes = b"") -> int:
        """Have a command forked that reads the text and writes to these; return where its id and its code can be read."""
        return fork_request.ask(self._ours, request, (_pipe_with(text), out, err))

    def close(self) -> None:
        """End the process that forks."""
        self._ours.close()
        self._process.communicate()


@functools.cache
def preloaded_command(part: str = "") -> PreloadedCommand:
    """Return the one of this process that has imported a large part, or none. It ends when this process does."""
    preloaded = PreloadedCommand(part)
    atexit.register(preloaded.close)
    return preloaded


def _read_at_start(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(_READ_AT_START)}


def _pipe_with(text: bytes) -> int:
    """Return where a text can be read, once; nothing can be read from the null device."""
    if not text:
        return os.open(os.devnull, os.O_RDONLY)
    source, sink = os.pipe()
    with os.fdopen(sink, "wb") as pipe:
        pipe.write(text)
    return source


def _read_all(pipes: tuple[int, int, int], patience_s: float) -> dict[int, bytes]:
    """Read pipes until everybody has closed them, and the last one until it has the command's process id and its code."""
    said, deadline, waiting = dict.fromkeys(pipes, b""), time.monotonic() + patience_s, select.poll()
    for pipe in pipes:
        waiting.register(pipe, select.POLLIN)
    still_open = set(pipes)
    while still_open:
        ready = waiting.poll(max(0.0, deadline - time.monotonic()) * 1000)
        if not ready:
            os.kill(int(said[pipes[2]].split()[0]), signal.SIGKILL)
            raise subprocess.TimeoutExpired("holdfast", patience_s, said[pipes[0]], said[pipes[1]])
        for pipe, _ in ready:
            chunk = os.read(pipe, _CHUNK)
            said[pipe] += chunk
            if not chunk or (pipe == pipes[2] and said[pipe].count(b"\n") == 2):
                waiting.unregister(pipe)
                os.close(pipe)
                still_open.remove(pipe)
    return said
