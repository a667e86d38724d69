"""Every object that is in a repository is on disk after a look at it, and no look does more than it must."""

from __future__ import annotations

from pathlib import Path

from tests.crash.faults import list_points
from tests.support.power_cut import after_power_cut, using
from tests.support.repositories import Project

BEGIN = """
from holdfast.repo.object_sync import ObjectSync
objects = repo.common_dir / "objects"
looks = ObjectSync(objects)
def write(number):
    folder = objects / "ab"
    folder.mkdir(exist_ok=True)
    (folder / "tmp_obj_1").write_text(str(number))
    (folder / "tmp_obj_1").rename(folder / f"{number:038x}")
"""


def test_objects_that_follow_each_other_at_once_are_all_synced(tmp_path: Path) -> None:
    """A folder that changes twice within a tick of the clock has the same time stamp twice."""
    code = "for number in range(50):\n    write(number)\n    looks.sync_new()\n"
    left = after_power_cut(Project.create(tmp_path / "p"), BEGIN + code)
    written = [path.read_text() for path in sorted((left.git_dir / "objects" / "ab").iterdir())]
    assert written == [str(number) for number in range(50)]


def test_an_object_that_was_removed_and_written_again_is_synced_again(tmp_path: Path) -> None:
    """Pruning removes objects that nothing refers to, and with the last one their folder."""
    code = """
write(1)
looks.sync_new()
(objects / "ab" / f"{1:038x}").unlink()
(objects / "ab").rmdir()
write(2)
write(1)
looks.sync_new()
"""
    left = after_power_cut(Project.create(tmp_path / "p"), BEGIN + code)
    written = [path.read_text() for path in sorted((left.git_dir / "objects" / "ab").iterdir())]
    assert written == ["1", "2"]


def test_an_object_with_the_name_and_inode_of_an_earlier_one_is_synced(tmp_path: Path) -> None:
    """A file system may give the number of a removed file to the next one. Writing over a file looks the same."""
    code = """
write(1)
looks.sync_new()
(objects / "ab" / f"{1:038x}").write_text("later")
write(2)
looks.sync_new()
"""
    left = after_power_cut(Project.create(tmp_path / "p"), BEGIN + code)
    assert (left.git_dir / "objects" / "ab" / f"{1:038x}").read_text() == "later"


def test_a_clock_that_is_set_forward_hides_no_object(tmp_path: Path) -> None:
    """Only at the first look are old files taken for synced; what comes later is new, whatever the clock says."""
    code = """
import time
looks.sync_new()
now = time.time
time.time = lambda: now() + 86_400
write(1)
looks.sync_new()
"""
    left = after_power_cut(Project.create(tmp_path / "p"), BEGIN + code)
    assert (left.git_dir / "objects" / "ab" / f"{1:038x}").read_text() == "1"


def test_a_second_look_syncs_only_what_is_new(tmp_path: Path) -> None:
    """A file that is on disk is not synced again, nor is the folder above a folder that is known."""
    code = "write(1)\nlooks.sync_new()\nwrite(2)\nlooks.sync_new()\nlooks.sync_new()\n"
    points = list_points(using(Project.create(tmp_path / "p"), BEGIN + code))
    looks = [p.path for p in points if p.syscall == "fsync" and p.path.startswith(".git/objects/ab")]
    assert sorted(looks) == [
        ".git/objects/ab",
        ".git/objects/ab",
        f".git/objects/ab/{1:038x}",
        f".git/objects/ab/{2:038x}",
    ]


def test_an_object_that_is_still_being_written_is_left_alone(tmp_path: Path) -> None:
    """Its writer will give it a name; it may also remove it while we look."""
    code = '(objects / "ab").mkdir()\n(objects / "ab" / "tmp_obj_2").write_text("half")\nlooks.sync_new()\n'
    points = list_points(using(Project.create(tmp_path / "p"), BEGIN + code))
    assert [p for p in points if p.syscall == "fsync" and "tmp_obj" in p.path] == []
