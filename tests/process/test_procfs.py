"""A process is known by the token in its environment, also at moments when it seems to have none; and where programs listen."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from holdfast.fleet.termination import end_carriers
from holdfast.process import procfs
from tests.support.launches import PATH, alive

TOKEN = "mid-exec"
EXECS_ITSELF = "import os, sys; os.execve(sys.executable, sys.orig_argv, os.environ)"
_WORKERS, _ROUNDS = 10, 20
MANY_ARGUMENTS = ["x"] * 100_000
"""The kernel copies the arguments before it makes the environment known: many of them hold an exec up for milliseconds."""


@contextmanager
def process_in_exec() -> Iterator[int]:
    """Lend a process that does nothing but execute itself again and again."""
    argv = [sys.executable, "-S", "-E", "-c", EXECS_ITSELF, *MANY_ARGUMENTS]
    process = subprocess.Popen(argv, env={procfs.TOKEN_VARIABLE: TOKEN})
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


def test_a_process_in_the_middle_of_an_exec_still_has_its_token() -> None:
    """Whenever its environment is seen empty, the token is found all the same."""
    with process_in_exec() as pid:
        environ = Path(f"/proc/{pid}/environ")
        seen_empty = 0
        while seen_empty < 5:
            if not environ.read_bytes():
                seen_empty += 1
                assert procfs.token(pid) == TOKEN


def test_a_process_in_the_middle_of_an_exec_is_ended_with_the_others() -> None:
    """The sweep misses nobody that carries its token."""
    with process_in_exec() as pid:
        assert asyncio.run(end_carriers(frozenset({TOKEN}))) == {pid}
        assert not alive(pid)


def test_nobody_waits_for_an_environment_that_will_never_come() -> None:
    """A process with an empty environment has no token, nor has one that ended and was not reaped."""
    empty = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, env={})
    ended = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, env={**PATH, procfs.TOKEN_VARIABLE: TOKEN})
    ended.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    began = time.monotonic()
    assert [procfs.token(process.pid) for process in (empty, ended)] == ["", ""]
    assert time.monotonic() - began < procfs.EXEC_WAIT_S
    for process in (empty, ended):
        process.communicate()


def test_a_folder_is_occupied_while_a_process_works_in_it_or_below(tmp_path: Path) -> None:
    """A neighbour whose name begins alike is another folder, and a process that ended occupies nothing."""
    (tmp_path / "work" / "below").mkdir(parents=True)
    process = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, cwd=tmp_path / "work" / "below", env={})
    assert procfs.works_in(str(tmp_path / "work"))
    assert not procfs.works_in(str(tmp_path / "wor"))
    process.communicate()
    assert not procfs.works_in(str(tmp_path / "work"))


def test_workers_that_exec_without_pause_are_all_ended() -> None:
    """Two hundred of them, ten at a time: none survives a sweep."""
    loop, token = 'exec sh -c "$0" "$0"', "without-pause"
    for _ in range(_ROUNDS):
        workers = [
            subprocess.Popen(["sh", "-c", loop, loop], env={**PATH, procfs.TOKEN_VARIABLE: token})
            for _ in range(_WORKERS)
        ]
        ended = asyncio.run(end_carriers(frozenset({token})))
        assert ended == {worker.pid for worker in workers}
        assert [worker.wait() for worker in workers] == [-signal.SIGTERM] * _WORKERS


def test_only_what_really_is_a_socket_is_told_as_one() -> None:
    """Who names a socket writes into the kernel's list of them, also whole lines."""
    with (
        TemporaryDirectory() as folder,
        socket.socket(socket.AF_UNIX) as one,
        socket.socket(socket.AF_UNIX) as two,
    ):
        tool, path = Path(folder, "tool"), Path(folder, "so cket")  # the path of a socket must be short
        tool.touch()
        one.bind(str(path))
        two.bind(f"\0\n0: 2 0 10000 0001 01 1 {tool}\n")
        assert f" {tool}\n" in Path("/proc/net/unix").read_text()
        found = procfs.live_sockets()
        assert str(path) in found
        assert str(tool) not in found
        path.unlink()
        assert str(path) not in procfs.live_sockets()
