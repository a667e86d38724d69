"""A real small file system, to be filled to the last byte: what a command does to the user's files without room."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

_BLOCK = 4096


@dataclass(frozen=True, slots=True)
class TinyDisk:
    """A mounted one."""

    root: Path

    @property
    def _ballast(self) -> Path:
        return self.root / "ballast"

    def fill(self, leave: int = 0) -> None:
        """Leave so many bytes, in whole blocks."""
        room = os.statvfs(self.root)
        with self._ballast.open("wb") as file:
            file.write(bytes(max(0, room.f_bavail - -(-leave // _BLOCK)) * room.f_bsize))

    def free(self) -> None:
        """Make room again."""
        self._ballast.unlink()


@contextmanager
def tiny_disk(root: Path, megabytes: int) -> Iterator[TinyDisk]:
    """Mount a new, empty file system at a new folder. Skips the test where nobody may mount."""
    root.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(root)]
    mounted = subprocess.run(mounting, capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    try:
        yield TinyDisk(root)
    finally:
        subprocess.run(["umount", "--lazy", str(root)], check=True)
