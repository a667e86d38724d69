"""What the models leave after a power cut is what they say, on disks small enough to see."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.crash.disk_image import DiskImage, RecordedCall, Tree
from tests.crash.faults import Program
from tests.crash.power_models import choice_of
from tests.crash.recording import Recording, record

SYNC_FILE = "def sync(path): fd = os.open(path, os.O_RDONLY); os.fsync(fd); os.close(fd)\n"


def recorded(root: Path, script: str) -> Recording:
    """Return what a Python program does in an empty folder."""
    root.mkdir()
    source = f"import os\nfrom pathlib import Path\n{SYNC_FILE}{script}"
    return record(Program([sys.executable, "-I", "-S", "-c", source], root, root))


def end_of(root: Path, script: str) -> DiskImage:
    """Return the disk when the program has ended."""
    *_, last = recorded(root, script).moments()
    return last.disk


def files(tree: Tree) -> dict[str, bytes]:
    """Return each name with its bytes."""
    return {path: entry.content.data for path, entry in tree.entries.items()}


def left(disk: DiskImage, model: str, seed: int = 0) -> dict[str, bytes]:
    """Return what a model leaves."""
    return files(disk.after(choice_of(model, seed, 1)))


def test_only_a_synced_name_of_synced_bytes_is_left(tmp_path: Path) -> None:
    """Bytes need the sync of the file, a name needs that of its folder, and the folder's own name that of the one above."""
    script = """
for name in ('both', 'bytes', 'name'): Path(name).write_text(name)
sync('both'); sync('bytes'); os.mkdir('new'); Path('new/deep').write_text('x'); sync('new/deep'); sync('new')
"""
    disk = end_of(tmp_path / "unsynced", script)
    assert left(disk, "least") == {}
    disk = end_of(tmp_path / "synced", script + "os.unlink('bytes'); sync('.')")
    assert left(disk, "least") == {"both": b"both", "name": b"", "new": b"", "new/deep": b"x"}


def test_what_was_written_after_a_sync_is_not_there(tmp_path: Path) -> None:
    """The file is as of its last sync; with its names kept, it may also have the new size and zeros."""
    script = "f = open('f', 'wb', 0); f.write(b'old'); os.fsync(f); sync('.'); f.write(b'new')"
    disk = end_of(tmp_path / "p", script)
    assert left(disk, "least") == left(disk, "names", 0) == {"f": b"old"}
    assert left(disk, "names", 1) == {"f": b"old\0\0\0"}
    assert files(disk.whole()) == {"f": b"oldnew"}


def test_a_rename_that_was_not_synced_did_not_happen(tmp_path: Path) -> None:
    """The old file is back under its name, and what replaced it stays a draft."""
    script = """
Path('f').write_text('old'); sync('f'); Path('draft').write_text('new'); sync('draft'); sync('.')
os.rename('draft', 'f')
"""
    disk = end_of(tmp_path / "p", script)
    assert left(disk, "least") == {"f": b"old", "draft": b"new"}
    assert left(disk, "names") == {"f": b"new"}


def test_what_was_removed_comes_back(tmp_path: Path) -> None:
    """A removal is a change of names like any other."""
    disk = end_of(tmp_path / "p", "Path('f').write_text('x'); sync('f'); sync('.'); os.unlink('f')")
    assert left(disk, "least") == {"f": b"x"}
    assert left(disk, "names") == {}


def test_a_rename_between_folders_is_never_half_done(tmp_path: Path) -> None:
    """Syncing one of the folders is enough for both; until then both have the old names or both the new."""
    script = "os.mkdir('a'); os.mkdir('b'); Path('a/f').write_text('x'); sync('a/f'); sync('a'); sync('.')\nos.rename('a/f', 'b/f')"
    disk = end_of(tmp_path / "p", script)
    seen = {frozenset(left(disk, "subset", seed)) for seed in range(30)}
    assert seen == {frozenset({"a", "b", "a/f"}), frozenset({"a", "b", "b/f"})}
    assert set(left(end_of(tmp_path / "q", script + "; sync('b')"), "least")) == {"a", "b", "b/f"}


def test_steps_of_a_folder_reach_the_disk_in_order(tmp_path: Path) -> None:
    """By chance a beginning of them, never a later one without those before it."""
    disk = end_of(tmp_path / "p", "for name in 'abcd': Path(name).touch()")
    seen = {"".join(sorted(left(disk, "subset", seed))) for seed in range(60)}
    assert seen == {"", "a", "ab", "abc", "abcd"}


def test_pages_of_a_file_are_torn_apart_by_chance(tmp_path: Path) -> None:
    """Old, new, zeros, a beginning, and mixtures of pages all turn up."""
    disk = end_of(
        tmp_path / "p",
        "Path('f').write_bytes(b'1' * 8192); sync('f'); sync('.'); Path('f').write_bytes(b'2' * 12288)",
    )
    seen = {left(disk, "subset", seed)["f"] for seed in range(200)}
    assert {b"1" * 8192, b"2" * 12288, bytes(12288)} <= seen
    assert any(b"2" in data and b"\0" in data for data in seen)
    assert any(len(data) in (4096, 8192) and set(data) == {ord("2")} for data in seen)


@pytest.mark.parametrize("syscall", ["syncfs", "sync"])
def test_syncing_the_file_system_makes_everything_durable(tmp_path: Path, syscall: str) -> None:
    """Also what no other sync covered; what comes later is not."""
    disk = end_of(tmp_path / "p", "os.mkdir('d'); Path('d/f').write_text('x')")
    disk.apply(RecordedCall(number=9, syscall=syscall, path="."))
    assert left(disk, "least") == {"d": b"", "d/f": b"x"}


def test_starting_to_write_is_no_sync(tmp_path: Path) -> None:
    """What git's `batch` method does before its one sync of another file promises nothing on Linux."""
    disk = end_of(tmp_path / "p", "Path('f').write_text('x'); sync('.')")
    disk.apply(RecordedCall(number=9, syscall="sync_file_range", path="f"))
    assert left(disk, "least") == {"f": b""}


def test_the_same_seed_leaves_the_same(tmp_path: Path) -> None:
    """So a failure can be seen again."""
    recording = recorded(tmp_path / "p", "for name in 'abcdefgh': Path(name).write_text(name * 9000)")
    *_, last = recording.moments()
    trees = [last.disk.after(choice_of("subset", seed, 5)).digest() for seed in (1, 1, 2)]
    assert trees[0] == trees[1] != trees[2]
