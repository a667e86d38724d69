"""What was synced survives a power cut with its name, and a sync that cannot be trusted is not relied upon."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.disk_sync import sync_all, sync_filesystem
from tests.support.power_cut import left_in

BEGIN = "import os\nfrom pathlib import Path\nfrom holdfast.disk_sync import *\nhere = Path.cwd()\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder."""
    made = tmp_path / "folder"
    made.mkdir()
    return made


@pytest.mark.parametrize("base", ["here", "Path()"])
def test_a_folder_survives_with_all_above_it(folder: Path, base: str) -> None:
    """A name is on disk only if all folders on the way to it are."""
    assert (left_in(folder, BEGIN + f"make_folder({base} / 'a' / 'b' / 'c')") / "a" / "b" / "c").is_dir()


def test_a_folder_survives_whose_maker_was_killed_before_it_synced(folder: Path) -> None:
    """Who finds a folder cannot know whether its name is on disk."""
    assert (left_in(folder, BEGIN + "os.mkdir('a')\nmake_folder(here / 'a')") / "a").is_dir()


@pytest.mark.parametrize("number", [1, 20, 400])
def test_many_files_survive_with_their_content(folder: Path, number: int) -> None:
    """However many there are, and although one of them is gone by now."""
    code = f"""
for number in range({number}):
    Path(str(number)).write_text(str(number))
sync_all([*(str(here / str(number)) for number in range({number})), str(here / "gone"), str(here)], str(here))
"""
    left = left_in(folder, BEGIN + code)
    assert {path.name: path.read_text() for path in left.iterdir()} == {str(n): str(n) for n in range(number)}


def test_a_file_system_that_is_not_known_is_not_trusted_to_sync_all() -> None:
    """The kernel does not pass syncfs on to every file system, and nothing tells us."""
    assert not sync_filesystem("/proc")


def test_files_on_such_a_file_system_are_synced_one_by_one() -> None:
    """That fails where files cannot be synced, so it was tried."""
    with pytest.raises(OSError, match="/dev"):
        sync_all(["/dev/null/none"] * 300, "/proc")


def test_a_name_is_synced_once_and_again_when_the_folder_is_a_new_one(folder: Path) -> None:
    """A folder that was removed and made again may even have the same inode."""
    code = """
names = DurableNames()
for _ in range(3):
    os.makedirs("a/b")
    for _ in range(2):
        names.sync_name(str(here / "a" / "b"), str(here))
    os.rmdir("a/b")
    names.sync_name(str(here / "a" / "b"), str(here))
    os.rmdir("a")
os.makedirs("a/b")
names.sync_name(str(here / "a" / "b"), str(here))
"""
    assert (left_in(folder, BEGIN + code) / "a" / "b").is_dir()
