"""Making objects that somebody else wrote survive a power cut: git by itself does not wait for the disk."""

from __future__ import annotations

import os
from pathlib import Path

from holdfast.repo.repository import Repository


def sync_objects(repo: Repository, old: str, new: str) -> None:
    """Force every object of `old..new` to disk. Repeating it costs little."""
    listing = repo.git.text("rev-list", "--objects", "--no-object-names", f"{old}..{new}")
    objects = repo.common_dir / "objects"
    loose = {objects / name[:2] / name[2:] for name in listing.split()}
    present = {path for path in loose if path.is_file()}
    packs = set((objects / "pack").glob("pack-*")) if present != loose else set()
    for path in present | packs:
        _sync(path)
    for folder in {path.parent for path in present | packs}:
        _sync(folder)


def _sync(path: Path) -> None:
    """Wait until a file or directory is on disk; one that was just repacked away needs no wait."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
