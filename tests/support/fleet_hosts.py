"""Hosts of a fleet of many machines: workers as real processes, each with a home of its own, behind a relay if links break.

The labels of a test's hosts are its own, so that tests share one Temporal server.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from holdfast.fleet.protocol import Fleet, LaunchKey, LaunchSpec
from holdfast.fleet.temporal import open_carried_fleet
from holdfast.repo.repository import Repository
from holdfast.repo.workspaces import Workspaces
from holdfast.runner.fleet_choice import GitCarrier
from tests.support.command import COMMAND
from tests.support.launches import PATH, RUN, FleetSetup
from tests.support.repositories import Project, git
from tests.support.tcp_relay import TcpRelay
from tests.support.temporal_server import temporal_port

DEADLINE_S = 40.0
TTL_S = 6.0
"""Long enough for a loaded machine to renew in time, short enough to wait for."""


@dataclass
class WorkerProcess:
    """One worker, which can be killed and started again in the same home."""

    home: Path
    url: str
    labels: str
    slots: int = 2
    program: list[str] = field(default_factory=lambda: COMMAND)
    _process: subprocess.Popen[bytes] | None = None

    def start(self) -> WorkerProcess:
        """Start it."""
        self.home.mkdir(exist_ok=True)
        own = ["--home", str(self.home), "--labels", self.labels, "--slots", str(self.slots)]
        with (self.home / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self.program, "worker", "--fleet", self.url, *own],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        return self

    def kill(self) -> None:
        """Kill it as with kill -9. What it supervises lives on."""
        self.send(signal.SIGKILL)
        assert self._process is not None
        self._process.wait(DEADLINE_S)

    def leave(self) -> None:
        """End it as a user does: the fleet knows at once that it is gone."""
        self.send(signal.SIGTERM)
        assert self._process is not None
        assert self._process.wait(DEADLINE_S) == 0

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    def stop(self) -> None:
        """End it if it lives. Idempotent."""
        if self._process is not None and self._process.poll() is None:
            self.kill()

    @property
    def said(self) -> str:
        """What it printed."""
        return (self.home / "log").read_text()


@dataclass
class RemoteSetup(FleetSetup):
    """A fleet with hosts. `work` is a folder that all its processes see; what a launch works in is `files`, sent by git."""

    project: Project = field(kw_only=True)
    url: str = field(kw_only=True)
    label: str = field(kw_only=True)
    workers: list[WorkerProcess] = field(default_factory=list, kw_only=True)
    told: list[str] = field(default_factory=list, kw_only=True)

    def sh(self, script: str, attempt: int = 1, **limits: float) -> LaunchSpec:
        """Return a launch of a shell script in the folder that all see."""
        return self.spec("/bin/sh", "-c", f"cd {self.work} && {script}", attempt=attempt, **limits)

    def spec(self, *argv: str, attempt: int = 1, **limits: float) -> LaunchSpec:
        """Return a launch with a secret of its own, the same one each time."""
        key = LaunchKey(RUN, "T1", attempt, "agent")
        secret = f"{self.work.parent.name}-{attempt}"
        return LaunchSpec(key, argv, self.files, PATH, secret, **limits)  # type: ignore[arg-type]

    def another(self) -> Fleet:
        """Return the fleet of another runner of the same clone."""
        return open_fleet_of(self.project, self.url, self.told.append)

    def worker(
        self,
        *,
        relay: TcpRelay | None = None,
        port: int | None = None,
        slots: int = 2,
        program: list[str] | None = None,
    ) -> WorkerProcess:
        """Start a worker that takes this test's launches."""
        port = relay.port if relay else port or temporal_port()
        home = self.project.path.parent / f"host-{len(self.workers)}"
        made = WorkerProcess(home, f"temporal://127.0.0.1:{port}", self.label, slots, program or COMMAND)
        self.workers.append(made.start())
        return made

    def close(self) -> None:
        """End all workers and close the fleet."""
        for worker in self.workers:
            worker.send(signal.SIGCONT) if worker._process and worker._process.poll() is None else None
            worker.stop()
        self.fleet.close()


def open_fleet_of(project: Project, url: str, tell: Callable[[str], None]) -> Fleet:
    """Return the fleet that a URL names, for a project."""
    repo = project.open()
    git_server = url.partition("git=")[2].partition("&")[0]
    return open_carried_fleet(url, repo.state_dir, GitCarrier(repo, git_server), tell)


@contextmanager
def remote_setup(
    folder: Path, *, ttl_s: float = TTL_S, port: int | None = None, label: str = ""
) -> Iterator[RemoteSetup]:
    """Yield a project, a git server beside it, a prepared workspace, and a fleet without hosts but those with a `label`."""
    folder.mkdir(exist_ok=True)
    project = Project.create(folder / "project")
    git(folder, "init", "--quiet", "--bare", str(folder / "exchange.git"))
    (folder / "shared").mkdir()
    label = label or f"{folder.name}-{os.getpid()}"
    url = f"temporal://127.0.0.1:{port or temporal_port()}?git={folder}/exchange.git&ttl={ttl_s:g}&labels={label}"
    told: list[str] = []
    repo = project.open()
    repo.prepare_state_dir()
    workspace = prepare(repo, "0")
    fleet = open_fleet_of(project, url, told.append)
    setup = RemoteSetup(
        repo.state_dir, folder / "shared", fleet, workspace, project=project, url=url, label=label, told=told
    )
    try:
        yield setup
    finally:
        setup.close()


def prepare(repo: Repository, name: str) -> Path:
    """Prepare a workspace of the run at the commit that the user is on."""
    return Workspaces(repo, repo.state_dir.run(RUN).workspaces).prepare(name, repo.resolve("HEAD"))


def until(holds: Callable[[], bool], what: str, seconds: float = DEADLINE_S) -> float:
    """Wait until something holds; return how long that took."""
    began = time.monotonic()
    while not holds():
        assert time.monotonic() - began < seconds, f"not within {seconds:g} s: {what}"
        time.sleep(0.02)
    return time.monotonic() - began


@cache
def shared_worker() -> WorkerProcess:
    """Return a worker for tests that do nothing to it: one for each test process."""
    home = Path(tempfile.mkdtemp(prefix="holdfast-host-"))
    worker = WorkerProcess(
        home, f"temporal://127.0.0.1:{temporal_port()}", f"shared-{os.getpid()}", 8
    ).start()
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    atexit.register(worker.stop)
    until(lambda: "offers" in worker.said, "the worker is there")
    return worker


PROGRAM_HEAD = [sys.executable, "-P", "-c"]
"""A worker with a planted bug is the same program, after some lines that change it."""
