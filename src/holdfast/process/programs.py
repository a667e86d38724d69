"""Programs that Holdfast starts besides agents: itself in the background, and programs it queries briefly.

Agents are never started here; they belong under a supervisor.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import time
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


_PIECE_BYTES = 65_536
_LOOK_S = 0.1


def run_command(argv: Sequence[str], cwd: Path, timeout_s: float, output_max: int) -> ToolResult:
    """Run a program to its end and return what it said, at most `output_max` bytes of each stream.

    It gets a session of its own. If it takes too long, all of that is killed. What it leaves in the background does not hold
    us up, even if that has kept its output.
    """
    try:
        asked = subprocess.Popen(
            argv,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        return ToolResult(-1, err=str(error))
    assert asked.stdout is not None
    assert asked.stderr is not None
    kept = {asked.stdout.fileno(): bytearray(), asked.stderr.fileno(): bytearray()}
    in_time = _read_until_end(asked, kept, time.monotonic() + timeout_s, output_max)
    if not in_time:
        _end(asked)
        return ToolResult(-1, err=f"it took longer than {timeout_s:g} s and was ended")
    out, err = (bytes(text).decode(errors="replace") for text in kept.values())
    asked.stdout.close()
    asked.stderr.close()
    return ToolResult(asked.wait(), out, err)


def _read_until_end(
    asked: subprocess.Popen[bytes], kept: dict[int, bytearray], deadline: float, most: int
) -> bool:
    """Read what a program says until it has ended and nothing more is there. Tell whether that was in time."""
    with selectors.DefaultSelector() as pipes:
        for fd in kept:
            pipes.register(fd, selectors.EVENT_READ)
        while pipes.get_map() or asked.poll() is None:
            if time.monotonic() > deadline:
                return False
            # Asked before it is read: what an ended one has said is all there.
            over = asked.poll() is not None
            ready = pipes.select(0 if over else _LOOK_S)
            for key, _ in ready:
                piece = os.read(key.fd, _PIECE_BYTES)
                if not piece:
                    pipes.unregister(key.fd)
                kept[key.fd] += piece[: max(0, most - len(kept[key.fd]))]
            if over and not ready:
                return True
    return True
