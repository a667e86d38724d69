"""The `holdfast` command as a real process, in a real repository."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from tests.support.preloaded_command import ForkedProcess, preloaded_command
from tests.support.repositories import Project, write
from tests.support.runs import DEADLINE_S, Fifo

COMMAND = [sys.executable, "-P", "-m", "holdfast"]


@dataclass(frozen=True, slots=True)
class Done:
    """How a command ended and what it said."""

    code: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class Cli:
    """A user at a shell without a terminal, standing in `here`."""

    here: Path

    @classmethod
    def of(cls, path: Path, *tasks: dict[str, Any], **plan: Any) -> Cli:
        """Make a project whose `plan.json` has these tasks."""
        project = Project.create(path)
        cli = cls(project.path)
        cli.plan(*tasks, **plan)
        return cli

    @property
    def project(self) -> Project:
        """The repository."""
        return Project(self.here)

    def plan(self, *tasks: dict[str, Any], name: str = "plan.json", **plan: Any) -> None:
        """Write a plan file with these tasks."""
        body = {} if "stages" in plan else {"tasks": list(tasks)}
        document = {"holdfast": 1, "goal": "Try it", **body, **plan}
        write(self.here / name, msgspec.json.encode(document).decode())

    def __call__(self, *args: str, **env: str) -> Done:
        """Run a command to its end, in a process of its own that has imported the program already."""
        forking, variables = preloaded_command(), {**os.environ, **env}
        if not forking.fits(variables):
            return self.started(*args, **env)
        return Done(*forking.run(self.here, args, variables, DEADLINE_S * 2))

    def started(self, *args: str, **env: str) -> Done:
        """Run a command to its end, as a shell does: the kernel shows its own words and variables."""
        return run_program(self.here, [*COMMAND, *args], **env)

    def piped(self, text: str, *args: str) -> Done:
        """Run a command to its end with this text as its standard input."""
        done = subprocess.run(
            [*COMMAND, *args],
            cwd=self.here,
            input=text,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S * 2,
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def json(self, *args: str) -> Any:
        """Run a command with `--json` and return what it printed."""
        done = self(*args, "--json")
        assert done.out, done.err
        return msgspec.json.decode(done.out)

    def start(self, *args: str, **env: str) -> ForkedProcess:
        """Start a command that a test will end, in a session of its own, with nothing to read and nobody who listens."""
        return preloaded_command().start(self.here, args, {**os.environ, **env})

    def task(self, name: str) -> Any:
        """Return a task of the latest run as `status --json` has it."""
        return next(task for task in self.json("status")["tasks"] if task["id"] == name)

    def run_status(self) -> str:
        """Return the status of the latest run."""
        return str(self.json("status")["run"]["status"])


def run_program(here: Path, argv: list[str], **env: str) -> Done:
    """Run a program to its end, with nothing to read."""
    done = subprocess.run(
        argv,
        cwd=here,
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S * 2,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def writes(task: str, **more: Any) -> dict[str, Any]:
    """Return a task that writes one file."""
    return {"id": task, "run": ["sh", "-c", f"echo {task} > {task}.txt"], **more}


def fails(task: str, **more: Any) -> dict[str, Any]:
    """Return a task that prints why and fails."""
    return {"id": task, "run": ["sh", "-c", "echo no luck; exit 3"], **more}


def eventually(holds: Callable[[], bool], what: str) -> None:
    """Wait until something holds, or fail."""
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    """Tell whether a process lives; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def on_terminal(cli: Cli, *args: str, answers: str, columns: str = "0", **env: str) -> tuple[int, str]:
    """Run a command on a terminal of its own, typing `answers` beforehand; return its code and screen."""
    keyboard, terminal = pty.openpty()
    termios.tcsetwinsize(terminal, (0, int(columns)))
    os.write(keyboard, answers.encode())
    process = subprocess.Popen(
        [*COMMAND, *args],
        cwd=cli.here,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env={**os.environ, "TERM": "xterm", **env},
        start_new_session=True,
    )
    os.close(terminal)
    screen = _read_all(keyboard)
    os.close(keyboard)
    return process.wait(), screen


def _read_all(keyboard: int) -> str:
    """Read until the last process lets go of the terminal, which ends it with an error."""
    seen = b""
    while select.select([keyboard], [], [], DEADLINE_S)[0]:
        try:
            seen += os.read(keyboard, 65536)
        except OSError:
            break
    return seen.decode(errors="replace")


def cli_at_work(tmp_path: Path, *more: dict[str, object]) -> tuple[Cli, ForkedProcess, int]:
    """Start a run whose task `a` works until it is stopped; return the agent's pid too."""
    at_work = Fifo(tmp_path / "at-work")
    script = f"echo half > half.txt; {at_work.give}; sleep 60"
    cli = Cli.of(tmp_path / "p", {"id": "a", "run": ["sh", "-c", script]}, *more)
    return cli, cli.start("run", "--yes"), int(at_work.wait())


def killed_cli(tmp_path: Path) -> tuple[Cli, int]:
    """Leave a run whose runner was killed while task `a` was at work and `b` waited for it; return the agent's pid too."""
    cli, runner, agent = cli_at_work(tmp_path, writes("b", needs=["a"]))
    os.killpg(runner.pid, signal.SIGKILL)
    runner.wait()
    return cli, agent


def has_opened(process: ForkedProcess, file: Path) -> bool:
    """Tell whether a process that lives has opened a file, such as that of a lock. It opens and closes others meanwhile."""
    assert process.poll() is None, "it ended before it got there"
    wanted = file.stat()
    for descriptor in Path(f"/proc/{process.pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            if os.path.samestat(descriptor.stat(), wanted):
                return True
    return False
