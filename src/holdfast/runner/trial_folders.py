"""The scratch folders in which agents are tried, and what is left of those whose command was killed.

Each holds a repository, and perhaps a copy of a login. Whoever works in one holds its lock, which the kernel frees. So a folder
that nobody holds is a leftover: the next trial ends what still runs there, and removes it.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from holdfast.errors import HoldfastError
from holdfast.fleet import open_fleet
from holdfast.locks import try_folder_lock
from holdfast.repo.files import remove_if_allowed
from holdfast.repo.repository import Repository
from holdfast.system_errors import doing

_PREFIX = "holdfast-try-"


@contextmanager
def trial_folder() -> Iterator[Path]:
    """Yield an empty folder that nobody else takes for a leftover. It is locked while it is there; the caller removes it."""
    with doing("make the scratch repository", Path(tempfile.gettempdir())):
        folder, fd = _locked_folder()
    try:
        yield folder
    finally:
        os.close(fd)


def _locked_folder() -> tuple[Path, int]:
    """Make a folder and lock it. One that was taken for a leftover before it was locked is left to whoever did that."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        fd = try_folder_lock(folder)
        if fd is not None and folder.is_dir():
            return folder, fd
        if fd is not None:
            os.close(fd)


def remove_leftovers() -> int:
    """Remove the folders of killed trials of this user, with what still runs there; return how many there were. Idempotent."""
    found = (path for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*") if _is_own_folder(path))
    return sum(_removed(folder) for folder in found)


def _is_own_folder(path: Path) -> bool:
    """Tell whether this is a folder of ours. Others may put names into a shared folder for temporary files."""
    with suppress(OSError):
        return path.is_dir() and not path.is_symlink() and path.lstat().st_uid == os.geteuid()
    return False


def _removed(folder: Path) -> bool:
    """Remove one folder; tell whether it was a leftover and is gone. A trial at work holds its lock."""
    fd = try_folder_lock(folder)
    if fd is None:
        return False
    try:
        with suppress(
            HoldfastError, OSError
        ):  # a trial that was killed early has no repository, and runs nothing
            _end_processes(folder)
        return remove_if_allowed(folder)
    finally:
        os.close(fd)


def _end_processes(folder: Path) -> None:
    """End the agent of a killed trial: its supervisor outlives the command."""
    state = Repository.open(folder).state_dir
    with closing(open_fleet(state.fleet)) as fleet:
        for run in state.runs():
            asyncio.run(fleet.sweep(run, frozenset()))
