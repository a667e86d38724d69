"""What a launch in a sandbox sees, how it is stopped, and how its end is told: as without one, except for what it must not see."""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import signal
import socket
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.facts import Exit, ExitReason, Presence
from holdfast.fleet.protocol import LaunchSpec, SandboxPolicy
from holdfast.process import procfs
from holdfast.process.sandbox import BUBBLEWRAP, BY_VARIABLE, LANDLOCK
from tests.support.launches import RUN, SAVES_AT_STOP, FleetSetup, require_grace
from tests.support.sandboxes import needs_landlock, needs_sandbox

pytestmark = needs_sandbox
WAITS = "echo there > up; exec cat gate"


def inside(setup: FleetSetup, script: str, **more: Any) -> LaunchSpec:
    """Return a launch of a shell script that sees of the test's own folder only the working folder."""
    policy = SandboxPolicy(covered=(setup.work.parent,), writable=(setup.work,))
    return replace(setup.sh(script, **more), sandbox=policy)


def finish(setup: FleetSetup, spec: LaunchSpec) -> tuple[Exit, str]:
    """Launch, wait for the end, and return its record and what was printed."""
    record = asyncio.run(setup.finish(spec))
    return record, setup.fleet.output(spec.key).data.decode()


def processes_of(setup: FleetSetup, spec: LaunchSpec) -> list[int]:
    """Return the live processes of a launch, also those that carry no token."""
    found = procfs.open_carriers({spec.token})
    for fd in found.values():
        os.close(fd)
    return sorted({*found, *(pid for carrier in found for pid in procfs.descendants(carrier))})


def test_nothing_but_the_working_folder_can_be_written(setup: FleetSetup) -> None:
    """The system is read-only, also for root."""
    script = "echo a > a; for f in /etc/x /usr/x /x ../x; do echo no > $f; done 2>/dev/null; cat a"
    record, said = finish(setup, inside(setup, script))
    assert (record.code, said) == (0, "a\n")
    assert (setup.work / "a").read_text() == "a\n"
    assert not any(Path(place).exists() for place in ("/etc/x", "/usr/x", "/x"))


def test_a_socket_that_goes_before_the_launch_does_not_prevent_it(setup: FleetSetup, tmp_path: Path) -> None:
    """The program that had it ended meanwhile, and took its folder along. A stopped fork server makes the moment certain."""
    place = tmp_path / "of-another" / "socket"
    place.parent.mkdir()
    spec = setup.sh("echo there", attempt=2)
    policy = SandboxPolicy(writable=(setup.work,), sockets=(place,))

    async def play() -> Exit:
        assert (await setup.finish(inside(setup, "true"))).code == 0
        os.kill(setup.fleet._fork_server._process.pid, signal.SIGSTOP)  # type: ignore[attr-defined]
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(place))
            launching = asyncio.create_task(setup.fleet.launch(replace(spec, sandbox=policy)))
            await asyncio.sleep(0)  # the order is made and sent
        shutil.rmtree(place.parent)
        await launching
        return await setup.finish(spec)

    assert asyncio.run(play()).code == 0


def test_the_switches_of_the_kernel_are_read_only(setup: FleetSetup) -> None:
    """Root without capabilities still owns them: only a read-only mount keeps it from, say, naming a program for core files."""
    script = (
        "for f in kernel/core_pattern vm/swappiness; do : >> /proc/sys/$f && echo open; done 2>/dev/null; :"
    )
    assert finish(setup, inside(setup, script))[1] == ""


_KEYRING = """
import ctypes
call = ctypes.CDLL(None, use_errno=True).syscall
ADD_KEY, KEYCTL, SESSION, SEARCH, REVOKE = 248, 250, -3, 10, 3
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the test knows the numbers of these calls there")
@pytest.mark.parametrize("by", [BUBBLEWRAP, pytest.param(LANDLOCK, marks=needs_landlock)])
def test_keys_of_the_users_session_are_not_there(
    setup: FleetSetup, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel keeps tokens for programs of a session, such as those of network drives; they are no files."""
    monkeypatch.setenv(BY_VARIABLE, by)
    known: dict[str, Any] = {}
    exec(_KEYRING, known)
    call, name = known["call"], f"holdfast-test-{os.getpid()}".encode()
    key = call(known["ADD_KEY"], b"user", name, b"hunter2", 7, known["SESSION"])
    if key < 0:
        pytest.skip("this kernel has no keyrings, or a container forbids them")
    look = f"{_KEYRING}print(call(KEYCTL, SEARCH, SESSION, b'user', {name!r}, 0) > 0)"
    (setup.work / "look.py").write_text(look)
    try:
        said = [
            finish(setup, replace(setup.sh(f"{sys.executable} look.py", attempt=number), sandbox=sandbox))[1]
            for number, sandbox in enumerate((None, SandboxPolicy(writable=(setup.work,))), start=1)
        ]
    finally:
        call(known["KEYCTL"], known["REVOKE"], key)
    assert said == ["True\n", "False\n"]


_REFUSED = """
import ctypes, errno, mmap, os, resource, socket, sys
call = ctypes.CDLL(None, use_errno=True).syscall
def tell(name, result): print(name, errno.errorcode.get(-result if result < 0 else 0, "done"))
def asks(name, *arguments):
    ctypes.set_errno(0)
    tell(name, -ctypes.get_errno() if call(*arguments) < 0 else 0)
def other_kind_of_processor():
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(bytes.fromhex("b814000000" "cd80" "c3"))  # getpid, by the number that it has there
    return ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
asks("keyctl", 250, 0, -4, 0)  # the id of the keyring of the user
asks("add_key", 248, b"user", b"holdfast-test", b"x", 1, -2)
asks("prlimit", 302, int(sys.argv[1]), 7, None, ctypes.byref((ctypes.c_uint64 * 2)()))
asks("own-limits", 302, 0, 7, None, ctypes.byref((ctypes.c_uint64 * 2)()))
asks("vsock", 41, 40, 1, 0)
asks("unix", 41, 1, 1, 0)
asks("io_uring", 425, 1, ctypes.byref((ctypes.c_char * 256)()))
if os.fork() == 0:
    tell("i386", other_kind_of_processor())
    os._exit(0)
os.wait()
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the test knows the numbers of these calls there")
@pytest.mark.parametrize("by", [BUBBLEWRAP, pytest.param(LANDLOCK, marks=needs_landlock)])
def test_calls_that_no_namespace_and_no_file_rule_holds_are_refused(
    setup: FleetSetup, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys of the user, limits of other processes, the machine around a virtual one; and all by the numbers of i386."""
    monkeypatch.setenv(BY_VARIABLE, by)
    (setup.work / "ask.py").write_text(_REFUSED)
    ask = f"{sys.executable} -u ask.py {os.getpid()}"
    bare, said = (
        dict(line.split() for line in finish(setup, replace(launch, sandbox=sandbox))[1].splitlines())
        for launch, sandbox in (
            (setup.sh(ask), None),
            (setup.sh(ask, attempt=2), SandboxPolicy(writable=(setup.work,))),
        )
    )
    assert bare["prlimit"] == "done"
    assert said == {
        **dict.fromkeys(("keyctl", "add_key", "prlimit"), "EPERM"),
        **dict.fromkeys(("own-limits", "unix"), "done"),
        "vsock": "EAFNOSUPPORT",
        "io_uring": "ENOSYS",
        **({"i386": "ENOSYS"} if "i386" in bare else {}),
    }


def test_a_fifo_in_the_place_of_the_program_holds_nobody_up(setup: FleetSetup) -> None:
    """An agent leaves one in its workspace, and the next attempt begins there."""
    setup.fifo("tool")
    (setup.work / "tool").chmod(0o755)
    spec = setup.spec("./tool", timeout_s=600)
    record, _ = finish(setup, replace(spec, sandbox=SandboxPolicy(writable=(setup.work,))))
    assert (record.reason, record.code) == (ExitReason.EXITED, 1)


def test_a_covered_folder_is_empty_and_what_lies_in_it_is_shown_only_if_named(setup: FleetSetup) -> None:
    """The journal beside a workspace is not there."""
    (setup.work.parent / "secret").write_text("hunter2")
    record, said = finish(setup, inside(setup, "ls ..; cat ../secret 2>/dev/null; ls up"))
    assert (record.code, said) == (0, "work\nup\n")


def test_no_process_outside_is_seen_or_can_be_signalled(setup: FleetSetup) -> None:
    """Its own process table begins with the sandbox itself."""
    ours = os.getpid()
    script = f"ls -d /proc/[0-9]* | wc -l; kill -0 {ours} 2>/dev/null || echo gone; test -e /proc/{ours} || echo unseen"
    count, *said = finish(setup, inside(setup, script))[1].split()
    assert int(count) < 10
    assert said == ["gone", "unseen"]


def test_scratch_folders_are_gone_with_the_launch(setup: FleetSetup) -> None:
    """What is written to a temporary folder reaches neither the machine nor the next launch."""
    policy = SandboxPolicy(scratch=(Path("/var/tmp"),), writable=(setup.work,))
    spec = replace(
        setup.sh("ls /var/tmp; echo x > /var/tmp/holdfast-test && cat /var/tmp/holdfast-test"), sandbox=policy
    )
    assert finish(setup, spec)[1] == "x\n"
    assert not Path("/var/tmp/holdfast-test").exists()


def test_the_exit_status_is_the_programs_own(setup: FleetSetup) -> None:
    """A status, and the signal that killed it, as without a sandbox."""
    assert finish(setup, inside(setup, "exit 7"))[0].code == 7
    assert finish(setup, inside(setup, "kill -KILL $$", attempt=2))[0].code == -signal.SIGKILL


@pytest.mark.parametrize(
    ("content", "mode", "why"),
    [
        (None, 0, "command not found"),
        ("#!/bin/sh\n", 0o644, "is not executable"),
        ("#!/no/such/shell\n", 0o755, "names an interpreter that is not there"),
    ],
)
def test_a_program_that_cannot_be_executed_is_not_started(
    setup: FleetSetup, content: str | None, mode: int, why: str
) -> None:
    """It is told as what it is, and not as an agent that failed."""
    program = setup.work / "program"
    if content is not None:
        program.write_text(content)
        program.chmod(mode)
    record, _ = finish(setup, replace(inside(setup, ""), argv=(str(program),)))
    assert record.reason is ExitReason.NOT_STARTED
    assert why in record.error


def test_a_stop_gives_the_agent_its_grace(setup: FleetSetup) -> None:
    """The signal reaches the agent and not the sandbox, whose end would kill the agent at once."""
    require_grace(setup, inside(setup, SAVES_AT_STOP, grace_s=60.0))


def test_what_ignores_the_stop_is_killed_with_all_that_it_started(setup: FleetSetup) -> None:
    """Also what cleared its environment and went into a session of its own."""
    stubborn = "env -i setsid sh -c 'trap \"\" TERM; while :; do read x < gate; done' & trap '' TERM; "
    spec = inside(setup, f"{stubborn}echo there > up; while :; do read x < agent; done", grace_s=0.1)
    asyncio.run(setup.fleet.launch(spec))
    setup.heard("up")
    before = processes_of(setup, spec)
    assert len(before) >= 4
    asyncio.run(setup.fleet.cancel(spec.key))
    assert [procfs.stat(pid) for pid in before] == [None] * len(before)


def test_what_an_agent_left_running_is_ended_and_counted(setup: FleetSetup) -> None:
    """The sandbox itself is not counted."""
    record, _ = finish(setup, inside(setup, "setsid cat gate & exit 3"))
    assert (record.reason, record.code, record.strays) == (ExitReason.EXITED, 3, 1)
    assert finish(setup, inside(setup, "exit 0", attempt=2))[0].strays == 0


def test_time_limits_hold(setup: FleetSetup) -> None:
    """As without a sandbox."""
    assert finish(setup, inside(setup, "cat gate", timeout_s=0.2))[0].reason is ExitReason.TIMEOUT


def test_if_the_supervisor_is_killed_a_sweep_ends_even_what_carries_no_token(setup: FleetSetup) -> None:
    """The first process of the sandbox carries it, and all others end with that one."""
    spec = inside(setup, f"env -i setsid cat gate & {WAITS}")
    asyncio.run(setup.fleet.launch(spec))
    setup.heard("up")
    before = processes_of(setup, spec)
    os.kill(setup.supervisor(spec.key), signal.SIGKILL)
    assert asyncio.run(setup.fleet.wait(spec.key)).presence is Presence.LOST
    asyncio.run(setup.fleet.sweep(RUN, frozenset()))
    assert [pid for pid in before if (found := procfs.stat(pid)) and found.alive] == []


def test_a_socket_without_a_file_cannot_be_reached(setup: FleetSetup) -> None:
    """That of a desktop takes the keys that the user types, and gives it others. Kernels before 6.12 cannot prevent it."""
    name = f"holdfast-test-{os.getpid()}"
    if tuple(int(part) for part in platform.release().split(".")[:2]) < (6, 12):
        pytest.skip("this kernel cannot keep processes from such sockets")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"\0{name}")
        server.listen()
        connect = f"import socket; socket.socket(socket.AF_UNIX).connect('\\0{name}')"
        spec = inside(setup, f'{sys.executable} -c "{connect}"')
        assert finish(setup, replace(spec, sandbox=None))[0].code == 0
        again = replace(inside(setup, f'{sys.executable} -c "{connect}"', attempt=2))
        record, said = finish(setup, again)
    assert record.code == 1
    assert "PermissionError" in said
