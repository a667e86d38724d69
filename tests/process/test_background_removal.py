"""Folders that are deleted by a process of its own."""

from __future__ import annotations

from pathlib import Path

from holdfast.process.background_removal import remove_in_background
from tests.support.command import eventually


def test_folders_are_deleted_and_the_empty_one_above(tmp_path: Path) -> None:
    """Also folders that an agent closed; the process needs nobody to wait for it."""
    for name in ("one", "two"):
        deep = tmp_path / "work" / name / "a" / "b"
        deep.mkdir(parents=True)
        (deep / "file").touch()
        deep.chmod(0o500)
        deep.parent.chmod(0o500)
    remove_in_background([tmp_path / "work" / "one", tmp_path / "work" / "two"])
    eventually(lambda: not (tmp_path / "work").exists(), "all of it is deleted")


def test_what_is_behind_a_link_or_beside_stays(tmp_path: Path) -> None:
    """A link is deleted, not what it leads to."""
    (tmp_path / "users").mkdir()
    (tmp_path / "users" / "file").touch()
    trash = tmp_path / "work" / "trash"
    trash.mkdir(parents=True)
    (trash / "folder").symlink_to(tmp_path / "users")
    (trash / "link").symlink_to(tmp_path / "users" / "file")
    (tmp_path / "work" / "other").touch()
    remove_in_background([trash])
    eventually(lambda: not trash.exists(), "it is deleted")
    assert (tmp_path / "users" / "file").exists()
    assert (tmp_path / "work" / "other").exists()
