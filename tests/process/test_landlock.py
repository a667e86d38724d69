"""A sandbox by Landlock alone: what can be opened, and who can be reached. Also root is kept from all of it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.errors import HoldfastError
from holdfast.process import sandbox
from holdfast.process.landlock import enter_domain
from holdfast.process.landlock_rules import environment_inside, file_rules, home_links
from holdfast.process.sandbox import BUBBLEWRAP, BY_VARIABLE, LANDLOCK, SandboxPolicy, probe_sandbox
from tests.support.sandboxes import needs_landlock


def run(folder: Path, policy: SandboxPolicy, script: str) -> str:
    """Return what a shell script prints in the sandbox, its errors left out. It starts in `folder`."""
    rules = file_rules(policy)
    done = subprocess.run(
        ["/bin/sh", "-c", script],
        cwd=folder,
        preexec_fn=lambda: enter_domain(rules),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stdout


def folders(root: Path) -> tuple[Path, Path, SandboxPolicy]:
    """Return a hidden folder with a secret, a workspace in it, and the policy that shows only the latter."""
    hidden, work = root / "hidden", root / "hidden" / "work"
    work.mkdir(parents=True)
    (hidden / "secret").write_text("hunter2")
    return hidden, work, SandboxPolicy(covered=(root,), writable=(work,))


@needs_landlock
@pytest.mark.parametrize(
    "attempt",
    [
        "cat ../secret",
        "ls ..",
        "ln -s ../secret link; cat link",
        "ln ../secret linked; cat linked",
        "mv ../secret moved; cat moved",
        "cat /proc/self/cwd/../secret",
        "cd ..; cat secret",
        "unshare -Ur cat ../secret",
        "exec 3< ../secret; cat <&3",
    ],
)
def test_what_is_hidden_cannot_be_read_whatever_its_path(tmp_path: Path, attempt: str) -> None:
    """Links, renames and namespaces lead to the same file, and the kernel asks where that is."""
    _, work, policy = folders(tmp_path)
    assert run(work, policy, f"({attempt}); echo tried") == "tried\n"


@needs_landlock
@pytest.mark.parametrize(
    "attempt",
    [
        "echo x > ../secret",
        ": > ../secret",
        "truncate -s 0 ../secret",
        "rm ../secret",
        "mv ../secret ../other",
        "echo x > new; mv new ../secret",
        "echo x > ../new",
        "mkdir ../new",
        "mkfifo ../new",
        "ln -s x ../new",
        "echo x > new; ln new ../new",
    ],
)
def test_what_is_hidden_cannot_be_changed(tmp_path: Path, attempt: str) -> None:
    """Nothing is made beside the workspace, moved there, cut off or removed."""
    hidden, work, policy = folders(tmp_path)
    assert run(work, policy, f"({attempt}); echo tried") == "tried\n"
    assert sorted(path.name for path in hidden.iterdir()) == ["secret", "work"]
    assert (hidden / "secret").read_text() == "hunter2"


@needs_landlock
def test_the_workspace_can_be_changed_in_every_way(tmp_path: Path) -> None:
    """Files move between its folders, and programs that were built there run."""
    _, work, policy = folders(tmp_path)
    script = """mkdir a b; echo 'echo built' > a/x; chmod +x a/x; mv a/x b/x; ln b/x a/y; ln -s b/x z; mkfifo f
        rm -r a; truncate -s 11 b/x; ./b/x; ls"""
    assert run(work, policy, script) == "built\nb\nf\nz\n"


@needs_landlock
def test_what_is_shown_can_be_run_and_read_and_not_changed(tmp_path: Path) -> None:
    """The system, and what the policy shows of a hidden folder; a FIFO that is shown wakes its reader."""
    hidden, work, policy = folders(tmp_path)
    tools = hidden / "tools"
    tools.mkdir()
    (tools / "tool").write_text("#!/bin/sh\necho ran\n")
    (tools / "tool").chmod(0o755)
    os.mkfifo(hidden / "bell")
    waiting = os.open(hidden / "bell", os.O_RDONLY | os.O_NONBLOCK)
    shown = SandboxPolicy(policy.covered, readable=(tools, hidden / "bell"), writable=policy.writable)
    script = "../tools/tool; ls ../tools; echo x >> ../tools/tool || echo kept; echo x > /usr/x || echo kept; echo ring > ../bell"
    try:
        assert run(work, shown, script) == "ran\ntool\nkept\nkept\n"
        assert os.read(waiting, 100) == b"ring\n"
    finally:
        os.close(waiting)
    assert not Path("/usr/x").exists()


@needs_landlock
def test_what_is_hidden_in_a_shown_folder_stays_hidden(tmp_path: Path) -> None:
    """Rules only allow, so what lies beside it is shown one by one, and what is made there later is not."""
    (tmp_path / "a" / "b" / "c").mkdir(parents=True)
    for name in ("credentials", "tool", "b/file", "b/c/secret"):
        (tmp_path / "a" / name).write_text(f"{name}\n")
    a = tmp_path / "a"
    policy = SandboxPolicy(
        covered=(tmp_path, a / "b" / "c"), readable=(a,), withheld=(a / "credentials", a / "later")
    )
    rules = file_rules(policy)
    (a / "later").write_text("later\n")
    assert run(Path("/"), policy, f"cd {a}; cat credentials later tool b/file b/c/secret") == "tool\nb/file\n"
    assert str(a / "later") not in dict(rules)


@needs_landlock
def test_nobody_outside_can_be_signalled_or_looked_into(tmp_path: Path) -> None:
    """Processes of the same user are seen, but neither their environment nor their files; those inside are its own."""
    _, work, policy = folders(tmp_path)
    with subprocess.Popen(["sleep", "600"], env={"SECRET": "hunter2"}) as outside:
        try:
            look = f"cat /proc/{outside.pid}/environ; ls /proc/{outside.pid}/cwd/; kill -9 {outside.pid}"
            unhindered = f"import os; print(open('/proc/{outside.pid}/environ').read())"
            assert "hunter2" in subprocess.check_output([sys.executable, "-c", unhindered], text=True)
            inside = "sleep 600 & cat /proc/$!/environ > /dev/null && kill $! && echo own"
            assert run(work, policy, f"{look}; {inside}") == "own\n"
            assert outside.poll() is None
        finally:
            outside.send_signal(signal.SIGKILL)


@needs_landlock
def test_a_socket_without_a_file_cannot_be_reached(tmp_path: Path) -> None:
    """That of a desktop would let an agent type."""
    _, work, policy = folders(tmp_path)
    name = f"holdfast-landlock-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"\0{name}")
        server.listen()
        code = f"import socket; socket.socket(socket.AF_UNIX).connect('\\0{name}'); print('connected')"
        assert subprocess.check_output(["/usr/bin/env", "python3", "-c", code], text=True) == "connected\n"
        shown = SandboxPolicy(policy.covered, readable=(Path(sys.base_prefix),), writable=policy.writable)
        python = Path(sys.base_prefix, "bin", "python3")
        assert run(work, shown, f'{python} -c "{code}"; echo $?') == "1\n"


@needs_landlock
def test_root_has_no_capability_and_cannot_reach_the_kernel(tmp_path: Path) -> None:
    """Mounts, the switches in /proc/sys and the terminals of others are out of reach; harmless devices are not."""
    _, work, policy = folders(tmp_path)
    script = """grep CapEff /proc/self/status
        mount -t tmpfs none . && echo mounted
        (: >> /proc/sys/kernel/core_pattern) && echo open
        ls /dev/pts && echo open
        ls /dev/shm && echo open
        echo x > /dev/null && head -c 1 /dev/zero | wc -c"""
    assert run(work, policy, script).split() == ["CapEff:", "0" * 16, "1"]


def test_the_home_and_temporary_files_are_in_the_scratch_folder(tmp_path: Path) -> None:
    """So are variables that lead into the hidden home; what is shown of it keeps its place, and has a name there."""
    home, tool = tmp_path / "home", tmp_path / "home" / ".tool" / "bin"
    work = home / "p" / ".holdfast" / "work"
    for folder in (tool, work):
        folder.mkdir(parents=True)
    policy = SandboxPolicy(covered=(home / "p",), scratch=(home,), readable=(tool,), writable=(work,))
    env = {
        "HOME": str(home),
        "TOOL_BIN": str(tool),
        "XDG_CACHE_HOME": f"{home}/.cache",
        "WORK": str(work),
        "PROJECT": str(home / "p"),
        "OTHER": f"{home}-other",
        "TMPDIR": "/tmp",
    }
    assert environment_inside(policy, env, "/s") == env | {
        "HOME": "/s/home",
        "XDG_CACHE_HOME": "/s/home/.cache",
        **dict.fromkeys(("TMPDIR", "TEMP", "TMP"), "/s/tmp"),
    }
    assert home_links(policy, env, "/s") == [(str(tool), "/s/home/.tool/bin")]
    private = SandboxPolicy(scratch=(home,), replaced=((home, Path("/copy")),))
    assert environment_inside(private, env, "/s")["HOME"] == "/copy"
    assert environment_inside(SandboxPolicy(), env, "/s")["HOME"] == str(home)


def without_bubblewrap(monkeypatch: pytest.MonkeyPatch, lacking: str) -> None:
    """Let this be a machine without bubblewrap, whose kernel lacks something or not."""
    found = sandbox.SandboxProbe(obstacle="bubblewrap is not installed", hint="install it")
    monkeypatch.setattr(sandbox, "probe_bubblewrap", lambda **_: found)
    monkeypatch.setattr(sandbox, "landlock_obstacle", lambda: lacking)


def test_without_bubblewrap_it_is_landlock_if_the_kernel_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise there is no sandbox, and both reasons are told."""
    without_bubblewrap(monkeypatch, "")
    assert probe_sandbox().by == LANDLOCK
    without_bubblewrap(monkeypatch, "this kernel has no Landlock")
    assert probe_sandbox().by == ""
    assert probe_sandbox().obstacle == "bubblewrap is not installed, and this kernel has no Landlock"


def test_landlock_closes_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """So `strict`, `allow` and `off` are refused there, with the reason."""
    without_bubblewrap(monkeypatch, "")
    found = probe_sandbox(closed_network=True)
    assert (found.by, found.obstacle) == (
        "",
        "bubblewrap is not installed, and Landlock alone closes no network",
    )


def test_the_user_names_what_sandboxes_are_made_by(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who distrusts user namespaces, or Landlock, has the last word. A typing mistake is refused."""
    without_bubblewrap(monkeypatch, "")
    monkeypatch.setenv(BY_VARIABLE, BUBBLEWRAP)
    assert probe_sandbox().obstacle == "bubblewrap is not installed"
    monkeypatch.setattr(sandbox, "probe_bubblewrap", lambda **_: sandbox.SandboxProbe(BUBBLEWRAP, "/x/bwrap"))
    assert probe_sandbox().by == BUBBLEWRAP
    monkeypatch.setenv(BY_VARIABLE, LANDLOCK)
    assert probe_sandbox().by == LANDLOCK
    monkeypatch.setenv(BY_VARIABLE, "landlok")
    with pytest.raises(HoldfastError, match="landlok"):
        probe_sandbox()
