"""What the other tests stand on: a command that is forked from a preloaded process does what one does that is started."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from tests.support.command import Cli, eventually, is_alive, run_program
from tests.support.preloaded_command import preloaded_command


@pytest.mark.parametrize(
    "words", [("status",), ("status", "--json"), ("inspect", "1", "b"), ("logs", "1", "b"), ("stauts",), ()]
)
def test_a_forked_command_ends_and_speaks_like_one_that_is_started(
    ended: Cli, words: tuple[str, ...]
) -> None:
    """Its code, its output and its errors: whatever other tests see of a command, a user sees, too."""
    assert ended(*words) == ended.started(*words)


def test_a_forked_command_has_the_variables_of_its_call_and_no_others(
    ended: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a test sets is there, what it does not set is not: neither from the call before nor from the start of the tests."""
    assert ended("status", HOLDFAST_STORE="nonsense://x").code == 2
    assert ended("status").code == 0
    monkeypatch.setenv("HOLDFAST_STORE", "nonsense://x")
    assert ended("status").code == 2


def test_a_command_whose_interpreter_would_start_otherwise_is_started(ended: Cli) -> None:
    """A fork cannot have another encoding or library than the process that it comes from."""
    assert not preloaded_command().fits({**os.environ, "PYTHONIOENCODING": "ascii"})
    assert ended("status", PYTHONIOENCODING="ascii") == ended.started("status", PYTHONIOENCODING="ascii")


def test_a_killed_command_keeps_its_process_id_until_its_end_is_known(ended: Cli) -> None:
    """A signal that a test sends too late meets no other process."""
    command = ended.start("logs", "--follow")
    os.killpg(command.pid, signal.SIGKILL)
    eventually(lambda: not is_alive(command.pid), "it is killed")
    os.kill(command.pid, 0)
    assert command.wait() == -signal.SIGKILL
    eventually(lambda: not _is_known(command.pid), "its process id is free")


def test_a_stand_in_ends_and_speaks_like_the_command_that_it_has_forked(ended: Cli) -> None:
    """Whoever starts a process by its command line sees the command: its folder, variables, streams and code."""
    stand_in = preloaded_command().stand_in()
    for words, env in (
        (("status",), {}),
        (("stauts",), {}),
        (("status",), {"HOLDFAST_STORE": "nonsense://x"}),
    ):
        assert run_program(ended.here, [*stand_in, *words], **env) == ended.started(*words, **env)


def test_a_stand_in_that_is_told_to_end_ends_its_command() -> None:
    """The command is told, not killed: it may take its time."""
    program = "import signal, sys; signal.signal(15, lambda *_: sys.exit(7)); print(sys.stdin.readline(), flush=True); signal.pause()"
    words = preloaded_command().stand_in(program)
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"hello\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"hello\n"
        process.terminate()
        assert process.wait() == 7


def _is_known(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
