"""Deletes folders by a process of its own, for whoever must not wait for it: a user wants the prompt back.

The folders were moved aside before, and nothing needs them. So a kill leaves some of them, and no more: whoever removes the
same folders later finishes it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import holdfast
from holdfast.disk_sync import PRIVATE
from holdfast.mounts import mounts_in

_NICE = 10
# Whoever starts it waits only until it has forked, so nobody is left who would have to wait for its end.
_PROGRAM = (
    "import os, sys; os.fork() and os._exit(0); sys.path.append(sys.argv[1]);"
    "from holdfast.process.background_removal import delete; delete(sys.argv[2:])"
)


def remove_in_background(folders: Sequence[Path]) -> None:
    """Begin to delete folders, and the folder above if nothing else is in it; return at once.

    If no process can be started, nothing happens: the folders stay until somebody removes them.
    """
    root = Path(holdfast.__file__).parents[1]
    with suppress(OSError):
        subprocess.run(
            [sys.executable, "-I", "-S", "-c", _PROGRAM, str(root), *map(str, folders)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
            check=False,
        )


def delete(folders: Sequence[str]) -> None:
    """Delete folders, and the folder above each if nothing else is in it. What cannot be deleted stays. Links are not followed.

    A folder in which something is mounted stays as a whole. Somebody else may delete the same at the same time.
    """
    os.nice(_NICE)
    for top in folders:
        if mounts_in(top):
            continue
        _delete_tree(top)
        _try(os.rmdir, str(Path(top).parent))


def _delete_tree(top: str) -> None:
    """Delete the files first, from the top, and open each folder before it is entered: agents and package caches close them."""
    _open(top)
    folders = []
    for folder, inner, files in os.walk(top):
        folders.append(folder)
        for name in files:
            _try(os.unlink, f"{folder}/{name}")
        for name in inner:
            _open(f"{folder}/{name}")
    for folder in reversed(folders):
        _try(os.rmdir, folder)


def _open(path: str) -> None:
    """Let us delete what is in a folder. A link to one is deleted itself."""
    if os.path.islink(path):  # noqa: PTH114 - there may be very many
        _try(os.unlink, path)
    else:
        _try(lambda folder: os.chmod(folder, PRIVATE), path)  # noqa: PTH101


def _try(change: Callable[[str], None], path: str) -> None:
    with suppress(OSError):
        change(path)
