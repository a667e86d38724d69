"""Which points need not be broken: what is taken for equal really is, and nothing is left out."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tests.crash.coverage import equal_to_kills, left_disks, targets
from tests.crash.disk_image import DiskImage
from tests.crash.faults import Fault, Program, list_points, run_with_fault
from tests.crash.recording import Recording, record

# Syncs, a write of what is there, a file that is gone again, writes of one byte and of many.
SCRIPT = """
import os
one = os.open('one', os.O_RDWR | os.O_CREAT)
os.write(one, b'all of it'); os.fsync(one); os.fdatasync(one); os.pwrite(one, b'a', 0)
os.close(os.open('gone', os.O_WRONLY | os.O_CREAT)); os.unlink('gone')
print('told', flush=True)
os.fsync(one); os.mkdir('folder'); os.rename('one', 'folder/one')
"""
# The child begins when its parent has done all that belongs to starting it, and waits.
CHILD = """
import os, subprocess
open('mine', 'w').close()
waits = 'until grep -q "^State:.S" /proc/$PPID/status; do :; done'
subprocess.run(['sh', '-c', waits + '; : > a; : > b; : > c; echo said; : > d'], stdout=subprocess.PIPE)
open('mine, too', 'w').close()
"""


def program(root: Path, script: str = SCRIPT) -> Program:
    """Return a program that changes an empty folder."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    return Program([sys.executable, "-I", "-S", "-c", script], root, root)


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    """A recording of the program with syncs and repetitions."""
    return record(program(tmp_path / "root"))


def content(digest_of: Path) -> str:
    """Return what is in a folder, without time stamps."""
    return DiskImage.read(digest_of).whole().digest(times=False)


def test_every_kill_leaves_a_disk_that_is_recovered_from(tmp_path: Path, recording: Recording) -> None:
    """Killed before, after and in the middle of each call, the folder is one of those that are played back."""
    played = {left.disk.digest(times=False) for left in left_disks(recording)}
    for point in recording.points:
        for mode in ("kill", "after", "torn"):
            assert run_with_fault(program(tmp_path / "root"), Fault(mode, point.number)).fired
            assert content(tmp_path / "root") in played, (mode, point)


def test_each_disk_is_recovered_from_once_and_stands_for_all_that_are_equal(recording: Recording) -> None:
    """Every point counts once before, once after, and once in the middle if it writes."""
    left = list(left_disks(recording))
    digests = [one.disk.digest() for one in left]
    assert len(digests) == len(set(digests)) < len(recording.points)
    writes = sum(point.syscall in ("write", "pwrite64") for point in recording.points)
    covered = {kind: sum(one.covers[kind] for one in left) for kind in ("kill", "after", "torn")}
    assert covered == {"kill": len(recording.points), "after": len(recording.points), "torn": writes}


def test_of_equal_disks_the_one_is_taken_at_which_most_was_told(recording: Recording) -> None:
    """Between two syncs the program printed something: only the later of them shows whether it kept its word."""
    syncs = [point.number for point in recording.points if point.syscall == "fsync"]
    taken = {left.point.number: left.printed for left in left_disks(recording) if left.kind == "kill"}
    after_the_last_sync = syncs[-1] + 1
    assert taken[after_the_last_sync] == "told\n"
    assert syncs[-1] not in taken


def test_points_between_which_nobody_noticed_anybody_are_equal_for_a_lonely_death(tmp_path: Path) -> None:
    """What a child does by itself is one moment to its parent, until it says something. Where there is no child, all die."""
    points = list_points(program(tmp_path / "root", CHILD))
    chosen = {target.number: target.covers for target in targets("main_process", points)}
    places = {point.path: point.number for point in points}
    assert [point.path for point in points] == ["mine", "a", "b", "c", "d", "mine, too"]
    assert chosen == {places["a"]: 3, places["d"]: 1}
    assert equal_to_kills("main_process", points) == 2


def test_only_calls_that_need_room_fail_for_lack_of_it(recording: Recording) -> None:
    """Removing a file and moving one within the disk's metadata are not the same: a rename may need a new block."""
    failing = {target.number for target in targets("enospc", recording.points)}
    kinds = {point.syscall for point in recording.points if point.number in failing}
    assert kinds == {"openat", "write", "pwrite64", "fsync", "fdatasync", "mkdir", "rename"}
    assert len(targets("eio", recording.points)) == len(recording.points)
