"""What the lease promises, tried with real processes."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from holdfast.errors import ExitCode, LeaseHeldError
from holdfast.journal.lease import Lease, holder

HOLD = """
import sys, subprocess
from pathlib import Path
from holdfast.journal.lease import Lease
lease = Lease.acquire(Path(sys.argv[1]))
child = subprocess.Popen(["sleep", "600"], close_fds=False, stdout=subprocess.DEVNULL) if sys.argv[2:] else None
print(child.pid if child else 0, flush=True)
sys.stdin.read()
"""
PROBE = """
import sys
from pathlib import Path
from holdfast.journal.lease import holder
print("probing", flush=True)
while True:
    holder(Path(sys.argv[1]))
"""
TAKE_TURNS = """
import os, sys
from pathlib import Path
from holdfast.errors import LeaseHeldError
from holdfast.journal.lease import Lease
path, held = Path(sys.argv[1]), 0
print("ready", flush=True)
while held < 100:
    try:
        lease = Lease.acquire(path)
    except LeaseHeldError:
        continue
    inside = path.parent.parent / "inside"
    os.close(os.open(inside, os.O_CREAT | os.O_EXCL))
    held += 1
    inside.unlink()
    lease.remove()
print("alone")
"""


@contextmanager
def process(code: str, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run `code` until the block ends; yields it once it has printed its first line."""
    argv = [sys.executable, "-c", code, *arguments]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        try:
            yield child, child.stdout.readline().strip()
        finally:
            child.kill()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The lease file of a run whose folder does not exist yet."""
    return tmp_path / "runs" / "01-x" / "lease"


def test_the_holder_is_named(path: Path) -> None:
    """Who asks learns pid, start time, boot, host and since when."""
    lease = Lease.acquire(path)
    held = holder(path)
    assert held is not None
    assert held.pid == os.getpid()
    assert str(held.start_ticks) in Path("/proc/self/stat").read_text().split()
    assert held.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert held.host == os.uname().nodename
    assert held.since > 0
    lease.release()


def test_a_held_lease_is_refused_with_the_way_out(path: Path) -> None:
    """The second runner is told who holds the run, where, since when, and what to type."""
    with process(HOLD, str(path)) as (child, _), pytest.raises(LeaseHeldError) as caught:
        Lease.acquire(path)
    assert f"pid {child.pid} on {os.uname().nodename}, started 20" in caught.value.message
    assert "holdfast status" in caught.value.hint
    assert "holdfast stop" in caught.value.hint
    assert caught.value.exit_code is ExitCode.HELD_BY_ANOTHER


def test_one_process_cannot_take_a_lease_twice(path: Path) -> None:
    """The lock belongs to the open file, so two runners in one process exclude each other too."""
    lease = Lease.acquire(path)
    with pytest.raises(LeaseHeldError):
        Lease.acquire(path)
    assert lease.is_ours()
    lease.release()


def test_a_killed_runner_frees_the_lease(path: Path) -> None:
    """As soon as the process is gone, so is its hold."""
    with process(HOLD, str(path)) as (child, _):
        child.kill()
        child.wait()
        assert holder(path) is None
        Lease.acquire(path).release()


def test_a_stopped_runner_still_holds_the_lease(path: Path) -> None:
    """Silence is not death: SIGSTOP frees nothing."""
    with process(HOLD, str(path)) as (child, _):
        child.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
        held = holder(path)
        assert held is not None
        assert held.pid == child.pid
        with pytest.raises(LeaseHeldError):
            Lease.acquire(path)


def test_a_program_the_runner_started_does_not_inherit_the_lease(path: Path) -> None:
    """An agent that outlives its runner keeps nobody out, even if started with every descriptor open."""
    with process(HOLD, str(path), "with a child") as (child, orphan):
        try:
            child.kill()
            child.wait()
            os.kill(int(orphan), 0)
            assert holder(path) is None
            Lease.acquire(path).release()
        finally:
            os.kill(int(orphan), signal.SIGKILL)


def test_a_file_that_names_a_living_process_is_not_a_holder(path: Path) -> None:
    """After a reboot the recorded pid may belong to somebody else: only the lock counts."""
    path.parent.mkdir(parents=True)
    path.write_text(
        json.dumps({"pid": os.getpid(), "start_ticks": 1, "boot_id": "old", "host": "h", "since": 1.0})
    )
    assert holder(path) is None
    Lease.acquire(path).release()


def test_nobody_holds_a_lease_that_was_never_taken(path: Path) -> None:
    """A missing file is a free lease, and asking does not create it."""
    assert holder(path) is None
    assert not path.parent.exists()


def test_a_holder_that_has_not_signed_is_still_a_holder(path: Path) -> None:
    """Between the lock and the signature the lease is held by somebody unnamed."""
    lease = Lease.acquire(path)
    path.write_text("")
    held = holder(path)
    assert held is not None
    assert str(held) == "a runner that is just starting"
    lease.release()


def test_asking_never_keeps_a_runner_out(path: Path) -> None:
    """A probe takes no lock, not even for an instant."""
    Lease.acquire(path).release()
    with process(PROBE, str(path)):
        for _ in range(300):
            Lease.acquire(path).release()


def test_a_lease_file_put_in_its_place_is_noticed(path: Path) -> None:
    """A runner whose lease file was removed or replaced knows that it holds nothing."""
    lease = Lease.acquire(path)
    assert lease.is_ours()
    path.unlink()
    assert not lease.is_ours()
    other = Lease.acquire(path)
    assert not lease.is_ours()
    assert other.is_ours()
    lease.release()
    other.release()


def test_a_released_lease_is_free_and_no_longer_ours(path: Path) -> None:
    """Releasing twice is as good as once."""
    lease = Lease.acquire(path)
    lease.release()
    lease.release()
    assert not lease.is_ours()
    assert holder(path) is None


def test_a_removed_lease_leaves_no_file_and_no_folder(path: Path) -> None:
    """Unless something else is in the folder; then that stays. The next one is made anew."""
    lease = Lease.acquire(path)
    lease.remove()
    assert not path.parent.exists()
    with Lease.acquire(path) as again:
        (path.parent / "other").touch()
        again.remove()
    assert [entry.name for entry in path.parent.iterdir()] == ["other"]


def test_one_lease_has_one_holder_while_leases_are_removed(path: Path) -> None:
    """Processes that take it and remove it at the same time: whoever has it is alone, and no error but "held" comes up."""
    with ExitStack() as stack:
        counters = [stack.enter_context(process(TAKE_TURNS, str(path)))[0] for _ in range(3)]
        said = [counter.communicate()[0].split() for counter in counters]
    assert said == [["alone"]] * 3


def test_the_lease_is_for_its_user_only(path: Path) -> None:
    """File 0600, and every folder made for it 0700."""
    Lease.acquire(path).release()
    assert [stat.S_IMODE(p.stat().st_mode) for p in (path, path.parent, path.parent.parent)] == [
        0o600,
        0o700,
        0o700,
    ]
