"""Redis and Valkey servers of the tests' own: each on a port and in a folder of its own, ended with the test process.

They keep an append-only file that is synced at each write, unless a test says otherwise. A replica gets its copy at once: by itself
a server waits five seconds for others that want one, too.
"""

from __future__ import annotations

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
from typing import Any

import redis

from tests.support.servers import NotInstalledError

_DURABLE = {"appendonly": "yes", "appendfsync": "always", "save": "", "repl-diskless-sync-delay": "0"}
_DEADLINE_S = 30.0
QUOTES = '""'
# The kernel kills the server when the process that started it dies, however it dies.
_WITH_PARENT = ["setpriv", "--pdeathsig", "KILL"]


class PortTakenError(Exception):
    """Somebody else listens there."""


@dataclass(slots=True)
class RedisServerProcess:
    """A server that runs, can be killed, stopped and started again."""

    folder: Path
    port: int
    settings: dict[str, str]
    program: str = "redis-server"
    words: tuple[str, ...] = ()
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @classmethod
    def start(
        cls, program: str = "redis-server", folder: Path | None = None, **settings: str
    ) -> RedisServerProcess:
        """Start one, in an empty folder. Settings are those of the configuration, with `_` for `-`."""
        found = _installed(program)
        given = {name.replace("_", "-"): value for name, value in settings.items()}
        server = cls(folder or _new_folder(), free_port(), {**_DURABLE, **given}, found)
        server.launch_anywhere()
        return server

    @classmethod
    def start_sentinel(cls, service: str, watched: RedisServerProcess, **settings: str) -> RedisServerProcess:
        """Start a Sentinel that watches a server, by TLS if it can, and puts a replica in its place when it is gone."""
        port = watched.settings.get("tls-port", watched.port)
        given = {name.replace("_", "-"): value for name, value in settings.items()}
        given |= {
            "sentinel monitor": f"{service} 127.0.0.1 {port} 1",
            "sentinel auth-pass": f"{service} {watched.settings['requirepass']}",
            "sentinel down-after-milliseconds": f"{service} 500",
        }
        server = cls(_new_folder(), free_port(), given, watched.program, ("--sentinel",))
        server.launch_anywhere()
        return server

    @property
    def url(self) -> str:
        """The address of the first database."""
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def pid(self) -> int:
        """The process of the server."""
        assert self._process is not None
        return self._process.pid

    def launch_anywhere(self) -> None:
        """Start the process; on another port if somebody took the one that was free a moment ago."""
        while True:
            try:
                return self.launch()
            except PortTakenError:
                self.port = free_port()

    def launch(self) -> None:
        """Start the process, with what the folder holds, and wait until it answers."""
        config = self.folder / "server.conf"
        config.write_text("".join(f"{name} {value or QUOTES}\n" for name, value in self.settings.items()))
        own = [f"--port {self.port}", f"--dir {self.folder}", "--bind 127.0.0.1", "--daemonize no"]
        argv = [*_WITH_PARENT, self.program, str(config), *" ".join(own).split(), *self.words]
        log = (self.folder / "log").open("wb")
        self._process = subprocess.Popen(argv, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        log.close()
        self._await_answer()

    def client(self) -> redis.Redis:
        """Return a client of the library, for looks behind the journal."""
        return redis.Redis(port=self.port, password=self.settings.get("requirepass"))

    def set(self, name: str, value: str) -> None:
        """Change a setting while the server runs."""
        with self.client() as client:
            client.config_set(name, value)

    def catch_up(self, primary: RedisServerProcess) -> None:
        """Wait until this replica has all that its primary has now."""
        with primary.client() as theirs, self.client() as ours:
            wanted = theirs.info("replication")["master_repl_offset"]
            deadline = time.monotonic() + _DEADLINE_S
            while not _has_got(ours.info("replication"), wanted):
                assert time.monotonic() < deadline, "the replica does not follow"
                time.sleep(0.01)

    def promote(self) -> None:
        """Make this replica a server of its own."""
        with self.client() as client:
            client.replicaof("NO", "ONE")

    def kill(self) -> None:
        """Kill the server as with kill -9."""
        self.send(signal.SIGKILL)
        self.wait()

    def wait(self) -> None:
        """Wait until it has ended."""
        assert self._process is not None
        self._process.wait(_DEADLINE_S)

    def send(self, what: signal.Signals) -> None:
        """Send the server a signal."""
        os.kill(self.pid, what)

    def pause(self) -> None:
        """Stop the process, as a stalled machine does. It keeps its connections."""
        self.send(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it go on."""
        self.send(signal.SIGCONT)

    def forget(self) -> None:
        """Remove what the server, which is down, has kept."""
        for path in self.folder.glob("*"):
            if path.is_dir():
                shutil.rmtree(path)

    def stop(self) -> None:
        """End it and remove its files."""
        if self._process is not None and self._process.poll() is None:
            self.send(signal.SIGCONT)
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _await_answer(self) -> None:
        deadline = time.monotonic() + _DEADLINE_S
        while time.monotonic() < deadline:
            assert self._process is not None
            said = (self.folder / "log").read_text(errors="replace")
            if self._process.poll() is not None and "Address already in use" in said:
                raise PortTakenError
            assert self._process.poll() is None, f"{self.program} ended: {said}"
            if "eady to accept connections" in said or "Sentinel ID" in said:
                return
            time.sleep(0.01)
        raise AssertionError(f"{self.program} did not start")


class ValkeyServerProcess(RedisServerProcess):
    """The same with Valkey."""

    @classmethod
    def start(
        cls, program: str = "valkey-server", folder: Path | None = None, **settings: str
    ) -> RedisServerProcess:
        """Start one."""
        return super().start(program, folder, **settings)


def _has_got(replication: dict[str, Any], offset: int) -> bool:
    """Tell whether a replica follows, and has come so far. The first copy of all that there is comes without an offset."""
    return bool(replication["master_link_status"] == "up" and replication["slave_repl_offset"] >= offset)


def _installed(program: str) -> str:
    """Return where a program is: on this machine, or beside the tools of the tests."""
    own = Path(sys.prefix) / "servers"
    found = shutil.which(program) or shutil.which(program, path=str(own))
    if found is None:
        raise NotInstalledError(f"{program} is not installed")
    return found


def _new_folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="holdfast-redis-", dir=os.environ.get("TMPDIR", "/tmp")))


def free_port() -> int:
    """Return a port on which nobody listens now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
