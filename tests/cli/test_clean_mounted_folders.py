"""A folder that somebody mounted into a workspace is not ours: no command deletes what is in it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from holdfast.repo.files import remove
from tests.support.command import COMMAND, Cli, Done
from tests.support.mounts import run_mounted

REMOVALS = {
    "remove": "from holdfast.repo.files import remove_if_allowed; remove_if_allowed(p)",
    "remove within": "from holdfast.repo.files import remove_within; remove_within(p, float('inf'))",
    "in the background": "from holdfast.process.background_removal import delete; delete([str(p)])",
    "scratch folder": "from holdfast.process.scratch_folder import remove_scratch; remove_scratch(str(p))",
}


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """A folder of the user."""
    folder = tmp_path / "precious things"
    folder.mkdir()
    (folder / "keep.txt").write_text("keep\n")
    return folder


def _with_mount(cli: Cli, precious: Path, place: Path, *commands: tuple[str, ...]) -> Done:
    """Run commands of ours while a folder of the user is mounted below a workspace."""
    inside = (["env", "-C", str(cli.here), *COMMAND, *words] for words in commands)
    done = run_mounted(precious, place, *inside)
    assert done.code != 99, done.err
    assert (precious / "keep.txt").exists(), done.out
    return done


@pytest.mark.parametrize("removal", REMOVALS)
def test_no_removal_goes_through_a_mount(removal: str, precious: Path, tmp_path: Path) -> None:
    """Not even through one of the same file system. Without the mount, all of it goes."""
    root = tmp_path / "to remove"
    script = f"import sys, pathlib; p = pathlib.Path(sys.argv[1]); {REMOVALS[removal]}"
    argv = [sys.executable, "-c", script, str(root)]
    done = run_mounted(precious, root / "deep er" / "mnt", argv)
    assert done.code == 0, done.err
    assert (precious / "keep.txt").exists()
    assert root.exists()
    remove(root)
    assert not root.exists()


@pytest.mark.parametrize("name", ["mnt", "mnt.log"])
def test_leaving_a_run_spares_and_names_what_is_mounted_in_a_workspace(
    name: str, blocked: Cli, precious: Path
) -> None:
    """With the way to go on, which is not to delete it. Also where git ignores it, so that the whole workspace is kept."""
    assert blocked("take", "b").code == 0
    work = blocked.here / ".holdfast" / "work" / "01-try-it"
    leaving = (("discard", "--yes"), ("clean", "--all", "--yes"))
    done = _with_mount(blocked, precious, work / "taken-b" / name, *leaving)
    assert done.out.count("Something is mounted in it: run `sudo umount ") == 2
    assert "rm -rf" not in done.out


def test_a_workspace_with_a_mount_is_not_used_again(blocked: Cli, precious: Path) -> None:
    """Git would empty it. The next attempt has a fresh one."""
    assert blocked("retry", "b").code == 0
    place = blocked.here / ".holdfast" / "work" / "01-try-it" / "0"
    assert place.is_dir()
    _with_mount(blocked, precious, place / "mnt", ("resume", "--yes", "--no-sandbox"))
    assert blocked.task("b")["attempts"] == 2
    assert not (place / "mnt").exists()
