"""What deletes or opens the folders of a workspace, while a process that an agent left there makes them links to the user's."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from holdfast.process.background_removal import delete_tree
from holdfast.repo.files import open_up, remove, remove_within
from tests.support.repositories import write

_ROUNDS, _FOLDERS, _FILES = 25, 6, 40
# No test waits longer than a minute; nobody would end it if the test were killed.
_SWAPS = f"""
import ctypes, sys, time
top, libc, ends_at = sys.argv[1], ctypes.CDLL(None), time.monotonic() + 60
while time.monotonic() < ends_at:
    for n in range({_FOLDERS}):
        libc.renameat2(-100, f"{{top}}/d{{n}}".encode(), -100, f"{{top}}/link{{n}}".encode(), 2)
"""
_WAYS: dict[str, Callable[[Path], object]] = {
    "open_up": open_up,
    "remove": remove,
    "remove_within": lambda folder: remove_within(folder, time.monotonic() + 60),
    "in the background": lambda folder: delete_tree(str(folder)),
}


def _fill(top: Path, users: Path) -> None:
    for number in range(_FOLDERS):
        (top / f"d{number}" / "inner").mkdir(parents=True)
        for file in range(_FILES):
            write(top / f"d{number}" / f"f{file}", "the agent's")
        (top / f"link{number}").symlink_to(users)


@pytest.mark.parametrize("way", _WAYS)
def test_a_folder_that_becomes_a_link_costs_the_user_nothing(way: str, tmp_path: Path) -> None:
    """Neither files nor folders of the user are deleted or moved, nor are they opened to everybody."""
    users, top = tmp_path / "users", tmp_path / "workspace"
    (users / "inner").mkdir(parents=True)
    for file in range(_FILES):
        write(users / f"f{file}", "the user's")
    users.chmod(0o750)
    swaps = subprocess.Popen([sys.executable, "-c", _SWAPS, str(top)])
    try:
        for number in range(_ROUNDS):
            _fill(top, users)
            with suppress(OSError):  # it cannot go on among what changes all the time
                _WAYS[way](top)
            assert (len(list(users.iterdir())), users.stat().st_mode & 0o777) == (_FILES + 1, 0o750)
            if top.exists():
                top.rename(tmp_path / f"left-{number}")
    finally:
        swaps.kill()
        swaps.wait()
