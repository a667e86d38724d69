"""The scratch folder of a launch is empty when it begins and gone when it ends, whatever was put there."""

from __future__ import annotations

import os
from pathlib import Path

from holdfast.process.scratch_folder import make_scratch, remove_scratch


def test_a_new_one_is_empty_although_an_old_one_is_there(tmp_path: Path) -> None:
    """A power cut can take the record of a launch away and leave its scratch."""
    scratch = tmp_path / "scratch"
    for _ in range(2):
        make_scratch(str(scratch))
        assert {path.name: list(path.iterdir()) for path in scratch.iterdir()} == {"home": [], "tmp": []}
        (scratch / "tmp" / "left").write_text("left")


def test_closed_folders_and_paths_that_are_too_long_are_removed(tmp_path: Path) -> None:
    """An agent can make both, also by accident."""
    scratch, here = tmp_path / "scratch", os.open(".", os.O_RDONLY)
    make_scratch(str(scratch))
    try:
        os.chdir(scratch / "tmp")
        for _ in range(60):
            Path("d" * 99).mkdir()
            Path("file").write_text("x")
            os.chdir("d" * 99)
    finally:
        os.fchdir(here)
        os.close(here)
    (scratch / "closed" / "inner").mkdir(parents=True)
    (scratch / "closed" / "inner").chmod(0)
    (scratch / "closed").chmod(0)
    scratch.chmod(0)
    remove_scratch(str(scratch))
    assert list(tmp_path.iterdir()) == []


def test_no_link_is_followed(tmp_path: Path) -> None:
    """What a link in it, or in its place, leads to stays."""
    kept, scratch = tmp_path / "kept" / "folder", tmp_path / "scratch"
    kept.mkdir(parents=True)
    make_scratch(str(scratch))
    (scratch / "tmp" / "link").symlink_to(kept.parent)
    remove_scratch(str(scratch))
    scratch.symlink_to(kept.parent)
    remove_scratch(str(scratch))
    assert (kept.exists(), scratch.is_symlink()) == (True, False)
    remove_scratch(str(scratch))
