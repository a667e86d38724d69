"""Deletes folders by a process of its own, for whoever must not wait for it: a user wants the prompt back.

The folders were moved aside before, and nothing needs them. So a kill leaves some of them, and no more: whoever removes the
same folders later finishes it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import holdfast
from holdfast.folders import files_in, folders_in, opened_up
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
        delete_tree(top)
        with suppress(OSError):
            os.rmdir(os.path.dirname(top))  # noqa: PTH106, PTH120


def delete_tree(top: str) -> None:
    """Delete a folder with all that is in it, as far as that is possible."""
    above, name = os.path.split(top)
    with suppress(OSError, RecursionError), opened_up(above) as folder:
        _delete_in(folder, name)


def _delete_in(above: int, name: str) -> None:
    """Delete the files first, from the top, and open each folder before it is entered: agents and package caches close them."""
    with suppress(OSError), opened_up(name, above) as folder:
        for file in files_in(folder):
            with suppress(OSError):
                os.unlink(file, dir_fd=folder)
        for inner in folders_in(folder):
            _delete_in(folder, inner)
    with suppress(OSError):
        os.rmdir(name, dir_fd=above)
