"""Programs that Holdfast starts besides agents: itself in the background, and programs it queries briefly.

Agents are never started here; they belong under a supervisor.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import LaunchError


def start_in_background(arguments: Sequence[str], output: Path) -> int:
    """Start `holdfast` with these arguments in a new session and return its pid. Its output is added to the file."""
    # Without -P, a folder named `holdfast` in the user's repository would be run in our place.
    argv = [sys.executable, "-P", "-m", "holdfast", *arguments]
    output.parent.mkdir(parents=True, exist_ok=True)
    to_file = (os.POSIX_SPAWN_OPEN, 1, str(output), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    from_nowhere = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
    try:
        return os.posix_spawn(
            sys.executable,
            argv,
            os.environ,
            file_actions=[from_nowhere, to_file, (os.POSIX_SPAWN_DUP2, 1, 2)],
            setsid=True,
        )
    except OSError as error:
        raise LaunchError(
            f"{sys.executable} cannot be started: {error.strerror}",
            "run it in the foreground, without --detach",
        ) from error


def has_ended(pid: int) -> bool:
    """Tell whether a process that we started has ended. A second call gives the same answer."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


def kill_started(pid: int) -> None:
    """Kill a process that we started and wait until it is gone. Idempotent."""
    if not has_ended(pid):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


@dataclass(frozen=True, slots=True)
class ToolResult:
    """How a program of the user ended; `code` is -1 if it could not be run or took too long."""

    code: int
    out: str = ""
    err: str = ""


def run_tool(argv: Sequence[str], cwd: Path, timeout_s: float) -> ToolResult:
    """Run a program of the user, such as `gh`, in a folder that is ours, and return what it said."""
    try:
        done = subprocess.run(
            argv, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout_s, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return ToolResult(-1, err=str(error))
    return ToolResult(
        done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
    )


def show_in_pager(command: str, text: str, defaults: Mapping[str, str]) -> None:
    """Show a text in the user's pager, which is a line for the shell, as git has it. Returns once the user has left it.

    `defaults` are variables that the pager gets where the user has none. If there is no such program, the shell says so.
    """
    env = {**defaults, **os.environ}
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the pager's
    try:
        with subprocess.Popen(["/bin/sh", "-c", command], stdin=subprocess.PIPE, env=env) as pager:
            assert pager.stdin is not None
            with suppress(BrokenPipeError):  # the user has seen enough
                pager.stdin.write(text.encode("utf-8", "replace"))
            with suppress(BrokenPipeError):
                pager.stdin.close()
    finally:
        signal.signal(signal.SIGINT, before)


_OUTPUT_CHARS = 2_000


def ask_program(argv: Sequence[str], timeout_s: float) -> ToolResult:
    """Return what a program prints, such as its version. Nothing of it is left, also if it takes too long."""
    try:
        asked = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        return ToolResult(-1, err=str(error))
    try:
        said = asked.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired as error:
        return ToolResult(-1, err=str(error))
    finally:
        _end(asked)
    out, err = (text[:_OUTPUT_CHARS].decode(errors="replace") for text in said)
    return ToolResult(asked.returncode, out, err)


def _end(asked: subprocess.Popen[bytes]) -> None:
    """Kill what is left of its session, so that no child of it keeps the pipe or the machine busy."""
    with suppress(ProcessLookupError):  # nothing was left: the usual case
        os.killpg(asked.pid, signal.SIGKILL)
    asked.wait()
    for pipe in filter(None, (asked.stdout, asked.stderr)):
        pipe.close()
