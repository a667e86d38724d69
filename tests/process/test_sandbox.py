"""The arguments of bubblewrap: what is put where, and in which order."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from holdfast.process.sandbox import SandboxPolicy, probe_bubblewrap, sandbox_argv
from tests.support.sandboxes import needs_sandbox


def run(policy: SandboxPolicy, script: str) -> str:
    """Return what a shell script prints in a sandbox."""
    argv = [*sandbox_argv(policy, probe_bubblewrap().program, Path("/")), "--", "/bin/sh", "-c", script]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True).stdout


@needs_sandbox
def test_what_is_shown_below_a_covered_folder_is_there_however_the_policy_is_written(tmp_path: Path) -> None:
    """A folder comes before what lies in it, so nothing that was shown is hidden again, and nothing hidden is shown."""
    for name in ("a/b/c/secret", "a/b/file", "a/other"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    a = tmp_path / "a"
    policy = SandboxPolicy(covered=(a / "b" / "c", a), readable=(a / "b",))
    assert run(policy, f"cd {a}; find . -type f; ls -a b/c | wc -l") == "./b/file\n2\n"


@needs_sandbox
def test_a_withheld_file_cannot_be_opened_although_the_folder_around_it_is_shown(tmp_path: Path) -> None:
    """So a login beside a tool chain stays secret."""
    (tmp_path / "credentials").write_text("hunter2")
    (tmp_path / "tool").write_text("ok")
    policy = SandboxPolicy(readable=(tmp_path,), withheld=(tmp_path / "credentials",))
    assert run(policy, f"cat {tmp_path}/credentials 2>/dev/null; cat {tmp_path}/tool") == "ok"


@needs_sandbox
def test_a_link_is_followed_here_and_never_inside(tmp_path: Path) -> None:
    """What a link leads to is covered, and what is shown by a link can be reached by its name."""
    real, elsewhere = tmp_path / "real", tmp_path / "elsewhere"
    for folder in (real / "home", elsewhere):
        folder.mkdir(parents=True)
    (real / "home" / "secret").write_text("hunter2")
    (elsewhere / "tool").write_text("ok")
    (tmp_path / "home").symlink_to(real / "home")
    (real / "home" / "bin").symlink_to(elsewhere)
    policy = SandboxPolicy(scratch=(tmp_path / "home",), readable=(tmp_path / "home" / "bin",))
    assert run(policy, f"ls {real}/home; cat {tmp_path}/home/bin/tool") == "bin\nok"


@needs_sandbox
def test_a_socket_in_a_folder_that_is_shown_cannot_be_connected_to(tmp_path: Path) -> None:
    """A folder that is read-only keeps nobody from talking to a program that listens there. What is hidden stays empty."""
    connect = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
    with ExitStack() as stack:
        root = Path(stack.enter_context(TemporaryDirectory()))  # the path of a socket must be short
        shown, hidden = (root / name / "socket" for name in ("shown", "hidden"))
        for path in (shown, hidden):
            path.parent.mkdir()
            server = stack.enter_context(socket.socket(socket.AF_UNIX))
            server.bind(str(path))
            server.listen()
        script = f"{sys.executable} -c '{connect}' {shown} 2>/dev/null && echo reached; ls {hidden.parent}"
        policy = SandboxPolicy(covered=(hidden.parent,), sockets=(shown, hidden))
        assert run(replace(policy, sockets=()), script) == "reached\n"
        assert run(policy, script) == ""


@needs_sandbox
def test_nobody_inside_has_a_capability(tmp_path: Path) -> None:
    """Root could undo every mount with one."""
    assert set(run(SandboxPolicy(), "grep CapEff /proc/self/status").split()[1]) == {"0"}


def test_a_machine_without_bubblewrap_says_so_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Nobody has to guess which package it is."""
    monkeypatch.setenv("PATH", str(tmp_path))
    found = probe_bubblewrap.__wrapped__()
    assert (found.program, found.obstacle) == ("", "bubblewrap is not installed")
    assert "bubblewrap" in found.hint


def test_a_bubblewrap_that_does_not_work_is_told_with_its_own_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Many containers refuse namespaces."""
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\necho no permissions to create a new namespace >&2; exit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = probe_bubblewrap.__wrapped__()
    assert found.program == ""
    assert "no permissions to create a new namespace" in found.obstacle


@needs_sandbox
@pytest.mark.parametrize("user", [None, "nobody"])
def test_namespaces_made_inside_undo_nothing(user: str | None) -> None:
    """Who makes a namespace in there is root in it, but cannot uncover or change anything.

    Agents that bring a sandbox of their own need such namespaces. Root without capabilities cannot have them at all.
    """
    if user and os.getuid() != 0:
        pytest.skip("only root can start something as another user")
    covered = Path("/usr/share")
    escape = f"umount {covered}; umount -l {covered}; mount -o remount,rw /; touch /etc/escaped; echo tried"
    script = f"unshare -Urm sh -c '{escape}; ls {covered}'; ls {covered}"
    policy = SandboxPolicy(covered=(covered,))
    argv = [*sandbox_argv(policy, probe_bubblewrap().program, Path("/")), "--", "/bin/sh", "-c", script]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False, user=user)
    assert done.stdout == ("" if os.getuid() == 0 and user is None else "tried\n"), done.stderr
    assert not Path("/etc/escaped").exists()
