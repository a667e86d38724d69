"""The `holdfast` command on a real terminal of its own."""

from __future__ import annotations

import os
import pty
import select
import subprocess

from tests.cli.kit import COMMAND, Cli
from tests.runkit import DEADLINE_S


def on_terminal(cli: Cli, *args: str, answers: str, **env: str) -> tuple[int, str]:
    """Run a command on a terminal of its own, typing `answers` beforehand; return its code and screen."""
    keyboard, terminal = pty.openpty()
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
