"""Objects that a power cut tore go, so that git writes them again; whole ones stay."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from holdfast.repo.torn_objects import remove_torn_objects
from tests.support.command import Cli
from tests.support.repositories import Project

LONG = "".join(f"line {number}\n" for number in range(5000))


def write_object(project: Project, text: str) -> Path:
    """Store a blob as an agent's git does, and return its file."""
    project.write("new.txt", text)
    name = project.git("hash-object", "-w", "new.txt")
    path = project.git_dir / "objects" / name[:2] / name[2:]
    path.chmod(0o644)
    return path


def tear(path: Path, how: str) -> None:
    """Leave of a file what a power cut may leave."""
    data = path.read_bytes()
    half = data[: len(data) // 2]
    torn = {"empty": b"", "zeros": bytes(len(data)), "half": half, "half zeros": half.ljust(len(data), b"\0")}
    path.write_bytes(torn[how])


@pytest.mark.parametrize("how", ["empty", "zeros"])
def test_what_begins_like_no_object_is_removed_at_every_recovery(tmp_path: Path, how: str) -> None:
    """It costs two bytes of each object that was written last."""
    project = Project.create(tmp_path / "p")
    project.open()
    path = write_object(project, "hello\n")
    tear(path, how)
    assert remove_torn_objects(project.git_dir) == [f"Removed {path}, which a power cut tore."]
    assert not path.exists()


@pytest.mark.parametrize("how", ["empty", "zeros", "half", "half zeros"])
def test_after_a_reboot_objects_are_read_to_their_end(tmp_path: Path, how: str) -> None:
    """Git never replaces an object that exists: without this, the new commit would be corrupt."""
    project = Project.create(tmp_path / "p")
    tear(write_object(project, LONG), how)
    project.open()
    project.commit("the same content again")
    assert project.git("show", "HEAD:new.txt") == LONG.strip()
    assert project.git("fsck", "--strict") == ""


def test_a_repository_is_searched_once_after_each_boot(tmp_path: Path) -> None:
    """Objects do not get torn while the machine runs."""
    project = Project.create(tmp_path / "p")
    project.open()
    path = write_object(project, LONG)
    tear(path, "half")
    project.open()
    assert path.exists()
    pretend_reboot(project)
    project.open()
    assert not path.exists()


def pretend_reboot(project: Project) -> None:
    """Make the last search one of an earlier boot."""
    (project.git_dir / "holdfast-private/checked-boot").write_text("an earlier boot")


@pytest.mark.parametrize("command", ["rebuild", "adopt .", "init new.yaml"])
def test_no_command_builds_on_torn_objects(tmp_path: Path, command: str) -> None:
    """Also those that write where no run is: they see no torn object, so git stores the same content again."""
    project = Project.create(tmp_path / "p")
    torn = write_object(project, LONG)
    tear(torn, "half")
    Cli(project.path)(*command.split())
    assert not torn.exists()


def test_an_object_that_was_on_the_disk_long_before_is_not_read(tmp_path: Path) -> None:
    """A large repository is not read as a whole: the kernel writes everything to disk within minutes."""
    project = Project.create(tmp_path / "p")
    old = write_object(project, LONG)
    tear(old, "half")
    os.utime(old, (time.time() - 3600,) * 2)
    for path in (project.git_dir / "objects").glob("??/*"):
        if path != old:
            os.utime(path)
    assert remove_torn_objects(project.git_dir, thorough=False) == []


def test_whole_objects_stay(tmp_path: Path) -> None:
    """Commits, trees, blobs, and what is no object at all."""
    project = Project.create(tmp_path / "p")
    write_object(project, LONG)
    half_written = project.git_dir / "objects" / "00" / "tmp_obj_AAAAAA"
    half_written.parent.mkdir(exist_ok=True)
    half_written.touch()
    before = sorted((project.git_dir / "objects").rglob("*"))
    assert remove_torn_objects(project.git_dir, thorough=True) == []
    assert sorted((project.git_dir / "objects").rglob("*")) == before
