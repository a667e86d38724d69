"""A real run whose journal is in a server: the command as a user types it, and agents that wait until a test lets them go on."""

from __future__ import annotations

import os
import subprocess
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from holdfast.journal import open_reader
from holdfast.journal.address import JournalAddress
from holdfast.journal.lease import Holder
from tests.support.command import COMMAND, Cli, eventually
from tests.support.runs import Fifo

RUN = "01-try-it"


@dataclass(frozen=True, slots=True)
class StoredTrial:
    """A user whose runs are in a server. Some tasks report that they work, and wait until they may go on."""

    cli: Cli
    at_work: Fifo
    go_on: Fifo

    def start(self, command: tuple[str, ...] = ("run", "--yes"), **env: str) -> subprocess.Popen[bytes]:
        """Start the run; return once a task waits."""
        runner = self.start_command([*COMMAND, *command], **env)
        self.at_work.wait()
        return runner

    def start_command(self, argv: list[str], **env: str) -> subprocess.Popen[bytes]:
        """Start a program in the repository. What it says is kept."""
        with self._output.open("ab") as output:
            return subprocess.Popen(
                argv,
                cwd=self.cli.here,
                env={**os.environ, **env},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    @property
    def _output(self) -> Path:
        return self.cli.here.with_name("output")

    def wait_until_said(self, words: str) -> None:
        """Wait until a program that was started said something."""
        eventually(lambda: words in self._output.read_text(), f"{words!r} was said")

    def landed(self) -> list[str]:
        """Return what git shows to have landed, in order."""
        subjects = self.cli.project.git(
            "log", "--first-parent", "--reverse", "--format=%s", f"holdfast/{RUN}"
        )
        return [line.removeprefix("Land ") for line in subjects.splitlines() if line.startswith("Land ")]

    def attempts(self) -> dict[str, int]:
        """Return how often each task was tried."""
        return {task["id"]: task["attempts"] for task in self.cli.json("status")["tasks"]}

    def shown(self, file: str) -> str:
        """Return a file of the run branch."""
        return self.cli.project.git("show", f"holdfast/{RUN}:{file}")

    def holder(self, url: str) -> Holder | None:
        """Return who holds the run, as the server at an address has it."""
        with closing(open_reader(JournalAddress(url, self.cli.project.open().id()))) as reader:
            return reader.holder(RUN)
