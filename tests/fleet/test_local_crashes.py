"""Launches survive the death of everything above them, and their records cannot be mistaken."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

import holdfast
from holdfast.core.facts import Presence
from holdfast.errors import LaunchError
from holdfast.fleet.local import LocalFleet
from holdfast.fleet.protocol import LaunchKey, LaunchSpec
from holdfast.paths import StateDir
from holdfast.process import fork_server_main
from holdfast.process.fork_server import ForkServer
from holdfast.process.supervisor import is_abandoned
from tests.crash.faults import Program, list_points
from tests.support.launches import RUN, FleetSetup, alive, ended
from tests.support.power_cut import left_in

RUNNER = """
import asyncio, sys
from pathlib import Path
from holdfast.fleet.local import LocalFleet
from holdfast.fleet.protocol import LaunchKey, LaunchSpec
from holdfast.paths import StateDir
key = LaunchKey("01-run", "T1", 1, "agent")
script = "echo $$ > up; cat gate; echo $$ > up; exit 8"
spec = LaunchSpec(key, ("/bin/sh", "-c", script), Path(sys.argv[2]), {"PATH": "/usr/bin:/bin"}, sys.argv[3])
fleet = LocalFleet(StateDir(Path(sys.argv[1])))
asyncio.run(fleet.launch(spec))
print(fleet._fork_server._process.pid, flush=True)
sys.stdin.read()
"""


def launch_and_die(setup: FleetSetup) -> tuple[LaunchSpec, int]:
    """Let another process launch an agent, kill that process, and return a pidfd of its fork server."""
    spec = setup.sh("")
    argv = [sys.executable, "-c", RUNNER, str(setup.state.root), str(setup.work), spec.secret]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as runner:
        assert runner.stdout is not None
        fork_server = os.pidfd_open(int(runner.stdout.readline()))
        runner.kill()
    setup.fleet.recognise(spec.key, spec.token)
    return spec, fork_server


def test_an_agent_outlives_the_runner_that_launched_it(setup: FleetSetup) -> None:
    """The next runner finds it alive, the same process, and gets its exit record."""
    spec, _ = launch_and_die(setup)
    agent = setup.heard("up")
    assert setup.fleet.live_launches(RUN) == [spec.key]
    (setup.work / "gate").write_text("go")
    assert setup.heard("up") == agent
    assert asyncio.run(ended(setup.fleet.wait(spec.key))).code == 8


def test_the_next_runner_can_cancel_what_a_dead_one_launched(setup: FleetSetup) -> None:
    """Stopping needs nothing that died with the runner."""
    spec, _ = launch_and_die(setup)
    agent = setup.heard("up")
    asyncio.run(setup.fleet.cancel(spec.key))
    assert not alive(agent)


def test_the_fork_server_ends_with_its_runner(setup: FleetSetup) -> None:
    """Nothing of Holdfast stays behind but the supervisors of live agents."""
    _, fork_server = launch_and_die(setup)
    poll = select.poll()
    poll.register(fork_server, select.POLLIN)
    assert poll.poll(20_000), "the fork server lives on"


def test_a_killed_fork_server_is_replaced_and_its_launches_live_on(setup: FleetSetup) -> None:
    """Only the forking of new supervisors needs it."""
    first, second = setup.sh("echo $$ > up; cat gate; exit 1"), setup.sh("exit 2", attempt=2)
    asyncio.run(setup.fleet.launch(first))
    setup.heard("up")
    fork_server = setup.fleet._fork_server._process  # type: ignore[attr-defined]
    fork_server.kill()
    fork_server.wait()
    assert asyncio.run(setup.finish(second)).code == 2
    (setup.work / "gate").write_text("go")
    assert asyncio.run(ended(setup.fleet.wait(first.key))).code == 1


class FullMachine:
    """Stands for the fork server of a machine that has no room for another process."""

    def hand_over(self, link: socket.socket, _holds: Sequence[int]) -> None:
        """Take the link, and try to fork as the fork server does."""
        fork_server_main._fork([os.dup(link.fileno())], -1, "")

    def close(self) -> None:
        """Nothing was started."""


def test_a_machine_without_room_for_a_process_says_so(
    setup: FleetSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fork server answers before it reads the order, and the link may be closed before that is sent."""

    def fork() -> int:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(os, "fork", fork)
    monkeypatch.setattr(setup.fleet, "_fork_server", FullMachine())
    with pytest.raises(LaunchError, match="fork: Resource temporarily unavailable") as refused:
        asyncio.run(setup.fleet.launch(setup.sh("exit 0")))
    assert "No more processes" in refused.value.hint


def test_a_supervisor_that_cannot_open_another_file_says_so(setup: FleetSetup) -> None:
    """It has one descriptor less than it needs. Nothing was started, so the key can be launched later."""
    assert asyncio.run(setup.finish(setup.sh("exit 0"))).code == 0
    second = setup.sh("exit 2", attempt=2)
    fork_server = setup.fleet._fork_server._process  # type: ignore[attr-defined]
    before = resource.prlimit(fork_server.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(fork_server.pid, resource.RLIMIT_NOFILE, (4, before[1]))
    with pytest.raises(LaunchError, match="Too many open files"):
        asyncio.run(setup.fleet.launch(second))
    resource.prlimit(fork_server.pid, resource.RLIMIT_NOFILE, before)
    assert asyncio.run(setup.finish(second)).code == 2


def test_an_order_cut_short_starts_nothing(setup: FleetSetup) -> None:
    """A runner that died while it wrote the order did not launch."""
    fork_server = ForkServer()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        fork_server.hand_over(theirs)
        theirs.close()
        ours.sendall(b"\xa9\x0a")
        ours.shutdown(socket.SHUT_WR)
        assert ours.recv(100) == b""
    fork_server.close()
    assert not setup.state.root.exists()


def test_a_torn_exit_record_counts_as_none(setup: FleetSetup) -> None:
    """After a power cut the end of the launch is unknown, not misread."""
    spec = setup.sh("exit 0")
    asyncio.run(setup.finish(spec))
    record = setup.folder(spec.key) / "exit.json"
    record.write_bytes(record.read_bytes()[:20])
    assert setup.fleet.inspect(spec.key).presence is Presence.LOST


def test_a_pid_that_now_belongs_to_another_process_does_not_look_alive(setup: FleetSetup) -> None:
    """The lock proves life, not the number in the file; and the innocent process is not signalled."""
    spec = setup.sh("exit 0")
    asyncio.run(setup.finish(spec))
    (setup.folder(spec.key) / "exit.json").unlink()
    (setup.folder(spec.key) / "supervisor.json").write_text(
        f'{{"pid": {os.getpid()}, "boot": "", "token": "{spec.token}"}}'
    )
    assert setup.fleet.inspect(spec.key).presence is Presence.LOST
    assert asyncio.run(setup.fleet.cancel(spec.key)).presence is Presence.LOST


def test_a_supervisor_killed_before_it_took_the_launch_leaves_it_unknown(setup: FleetSetup) -> None:
    """Its empty file proves that no agent was started, so the same key may be launched."""
    spec = setup.sh("exit 3")
    setup.folder(spec.key).mkdir(parents=True)
    (setup.folder(spec.key) / "supervisor.json").touch()
    assert setup.fleet.inspect(spec.key).presence is Presence.UNKNOWN
    assert asyncio.run(setup.finish(spec)).code == 3


def test_a_launch_that_is_made_again_shows_none_of_the_output_before_it(setup: FleetSetup) -> None:
    """A power cut took the record of the first one and left its output, which must not speak for the second."""
    spec = setup.sh("exit 0")
    folder = setup.folder(spec.key)
    folder.mkdir(parents=True)
    (folder / "supervisor.json").touch()
    for name in ("output.log", "output.log.44"):
        (folder / name).write_text("usage limit reached\n")
    assert setup.fleet.inspect(spec.key).presence is Presence.UNKNOWN
    asyncio.run(setup.finish(spec))
    assert setup.fleet.output(spec.key).data == b""


def test_the_secrets_of_the_environment_are_stored_nowhere(setup: FleetSetup) -> None:
    """What an agent gets in its environment is in no file of its launch, and the files are for their owner alone."""
    spec = setup.sh("echo ok")
    secret = LaunchSpec(spec.key, spec.argv, spec.cwd, {"KEY": "hunter2", **spec.env}, spec.secret)
    asyncio.run(setup.finish(secret))
    files = list(setup.folder(spec.key).iterdir())
    assert len(files) == 3
    assert not any(b"hunter2" in file.read_bytes() or file.stat().st_mode & 0o077 for file in files)


def test_sigint_to_the_terminal_reaches_neither_fork_server_nor_agent(setup: FleetSetup) -> None:
    """Each has a session of its own, so Ctrl-C stops the runner alone."""
    spec = setup.sh("echo $$ > up; exec cat gate")
    asyncio.run(setup.fleet.launch(spec))
    agent = int(setup.heard("up"))
    supervisor = setup.supervisor(spec.key)
    assert len({os.getsid(0), os.getsid(agent), os.getsid(supervisor)}) == 3
    os.kill(supervisor, signal.SIGINT)
    assert setup.fleet.inspect(spec.key).presence is Presence.ALIVE


def test_an_order_whose_sender_died_is_told_from_one_that_is_awaited() -> None:
    """A runner that only finished writing still waits; one whose end is closed is gone, and nothing may start."""
    ours, theirs = socket.socketpair()
    with theirs:
        ours.shutdown(socket.SHUT_WR)
        awaited = is_abandoned(theirs.fileno())
        ours.close()
        assert (awaited, is_abandoned(theirs.fileno())) == (False, True)


def test_a_supervisor_carries_no_weight_that_it_does_not_need() -> None:
    """Every fork copies what the fork server loaded, so heavy modules stay out."""
    heavy = ("asyncio", "dataclasses", "json", "msgspec", "pathlib", "re", "socket", "subprocess", "typing")
    program = (
        f"import sys, holdfast.process.fork_server_main; print([m for m in {heavy} if m in sys.modules])"
    )
    root = Path(holdfast.__file__).parents[1]
    argv = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.append({str(root)!r}); {program}"]
    assert subprocess.run(argv, capture_output=True, text=True, check=True).stdout == "[]\n"


ORPHAN = """
import asyncio
from pathlib import Path
from holdfast.fleet.local import LocalFleet
from holdfast.fleet.protocol import LaunchKey, LaunchSpec
from holdfast.journal.lease import Lease
from holdfast.paths import StateDir
state, work = StateDir(Path.cwd() / "state"), Path.cwd() / "work"
key = LaunchKey("01-run", "T1", 1, "agent")
fleet = LocalFleet(state)
def launch():
    work.mkdir()
    spec = LaunchSpec(key, ("/bin/sh", "-c", "echo done > file; echo said"), work, {"PATH": "/usr/bin:/bin"}, "token")
    asyncio.run(fleet.launch(spec))
    asyncio.run(fleet.wait(key))
"""


def test_what_an_agent_left_without_a_runner_survives_a_power_cut(tmp_path: Path) -> None:
    """Its record says that its files are on disk, so its work can be collected after a restart of the machine."""
    (tmp_path / "place").mkdir()
    left = left_in(tmp_path / "place", ORPHAN + "launch()")
    (record,) = (left / "state").rglob("exit.json")
    assert (left / "work" / "file").read_text() == "done\n"
    assert msgspec.json.decode(record.read_bytes())["synced"] is True
    assert LocalFleet(StateDir(left / "state")).output(LaunchKey(RUN, "T1", 1, "agent")).data == b"said\n"


def test_a_record_promises_nothing_while_a_runner_is_there_to_collect_the_work(tmp_path: Path) -> None:
    """The runner takes it in at once. To sync everything at the end of each agent would cost as much as a whole launch."""
    (tmp_path / "place").mkdir()
    code = "with Lease.acquire(state.run('01-run').lease):\n    launch()"
    program = Program([sys.executable, "-c", ORPHAN + code], tmp_path / "place", tmp_path / "place")
    calls = {point.syscall for point in list_points(program) if "attempts" in point.path}
    (record,) = (tmp_path / "place").rglob("exit.json")
    assert "synced" not in msgspec.json.decode(record.read_bytes())
    assert not calls & {"fsync", "fdatasync", "syncfs"}
