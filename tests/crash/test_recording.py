"""A recording says all that a run did to the disk: played back, it gives what a kill at the same point leaves."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.disk_image import DiskImage
from tests.crash.faults import Fault, Program, list_points, run_with_fault
from tests.crash.operations import CONFLICTING_RUN
from tests.crash.recording import Recording, record
from tests.crash.sample_run import START
from tests.crash.trial import CrashTrial

# Every kind of change: positions, appending, vectors, copies in the kernel, holes, links, swaps, writes after a rename.
SCRIPT = """
import os, sys
os.umask(0o022)
print('begun', flush=True)
both = os.O_RDWR | os.O_CREAT
one = os.open('one', both)
os.write(one, b'first'); os.write(one, b' second'); os.pwrite(one, b'FIRST', 0); os.lseek(one, 20, 0); os.write(one, b'far')
added = os.open('one', os.O_WRONLY | os.O_APPEND)
os.write(added, b' end'); os.pwrite(added, b' really', 0)
os.rename('one', 'moved'); os.writev(one, [b'after', b'wards'])
os.mkdir('folder'); os.link('moved', 'folder/same'); os.symlink('folder/same', 'link')
with open('link', 'r+b') as through: through.write(b'through the link')
two = os.open('two', both)
os.sendfile(two, one, 0, 9); os.copy_file_range(one, two, 5, 0, 2); os.ftruncate(two, 6); os.posix_fallocate(two, 0, 16)
os.truncate('moved', 3); os.chmod('moved', 0o600); os.utime('two', ns=(5, 7))
open('two', 'w').close()
print('half', flush=True)
os.rename('moved', 'folder/there'); os.mkfifo('pipe'); os.rename('../outside', 'inside'); os.link('../other', 'linked')
os.fsync(two); os.unlink('folder/same'); os.unlink('folder/there'); os.write(one, b'lost'); os.rmdir('folder')
if os.fork() == 0:
    os.rename('two', 'inside'); os._exit(0)
os.wait()
try: os.mkdir('inside/impossible')
except OSError: pass
print('done', flush=True)
"""


def program(root: Path) -> Program:
    """Return a program that changes an empty folder in every way that there is."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    (root.parent / "outside").write_text("from outside")
    (root.parent / "other").write_text("from outside, too")
    return Program([sys.executable, "-I", "-S", "-c", SCRIPT], root, root)


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    """A recording of that program."""
    return record(program(tmp_path / "root"))


def test_a_recording_has_the_points_of_a_listing(tmp_path: Path, recording: Recording) -> None:
    """Moment N is the one before point N of the fault injector."""
    listed = list_points(program(tmp_path / "root"))
    assert [(point.number, point.stratum) for point in recording.points] == [
        (point.number, point.stratum) for point in listed
    ]


def test_the_disk_at_every_moment_is_what_a_kill_there_leaves(tmp_path: Path, recording: Recording) -> None:
    """Names, bytes, modes and hard links are the same as after a real kill."""
    *moments, last = [moment.disk.whole().digest(times=False) for moment in recording.moments()]
    assert last == DiskImage.read(tmp_path / "root").whole().digest(times=False)
    for number, played in enumerate(moments, 1):
        assert run_with_fault(program(tmp_path / "root"), Fault("kill", number)).fired
        assert played == DiskImage.read(tmp_path / "root").whole().digest(times=False), number


def test_what_was_printed_has_its_place_among_the_points(recording: Recording) -> None:
    """At each moment it is known what the program had told."""
    printed = [moment.printed for moment in recording.moments()]
    assert printed[0] == "begun\n"
    assert printed[-1] == "begun\nhalf\ndone\n"
    assert [text for n, text in enumerate(printed) if text not in printed[:n]] == [
        "begun\n",
        "begun\nhalf\n",
        printed[-1],
    ]


def test_a_tree_that_is_written_reads_the_same(tmp_path: Path, recording: Recording) -> None:
    """Time stamps included."""
    for moment in recording.moments():
        tree = moment.disk.whole()
        tree.write_to(tmp_path / "copy")
        assert DiskImage.read(tmp_path / "copy").whole().digest() == tree.digest()
        shutil.rmtree(tmp_path / "copy")


@pytest.fixture
def trial(tmp_path: Path) -> Iterator[CrashTrial]:
    """The sample run's repository."""
    trial = CrashTrial(tmp_path, CONFLICTING_RUN)
    yield trial
    trial.close()


def test_a_whole_run_of_many_processes_is_recorded(trial: CrashTrial) -> None:
    """After the last call of a run's runner, agents and gits the image is the repository, to the time stamps."""
    trial.reset()
    *_, last = record(trial.program(START)).moments()
    assert last.disk.whole().digest() == DiskImage.read(trial.repository).whole().digest()
    assert "RunCompleted" in last.printed


def test_folders_that_two_threads_make_at_once_are_all_recorded(tmp_path: Path) -> None:
    """A call that cannot succeed when it is looked at may do so a moment later, when the other has made its parent."""
    code = """
import pathlib, threading
def make():
    for number in range(150):
        pathlib.Path(f"{number}/a").mkdir(parents=True, exist_ok=True)
threads = [threading.Thread(target=make) for _ in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
    root = tmp_path / "root"
    root.mkdir()
    *_, last = record(Program([sys.executable, "-I", "-S", "-c", code], root, root)).moments()
    assert last.disk.whole().digest(times=False) == DiskImage.read(root).whole().digest(times=False)
