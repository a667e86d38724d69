"""Recognises what a kill or a power cut leaves of a file that git was writing.

A kill leaves a beginning of its content. A power cut may leave any block of it as zeros, also all of them.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

_BLOCK = 512  # what a disk writes at once; pages of a file system consist of them


@dataclass(frozen=True, slots=True)
class FileContent:
    """A file or link: its kind, with whether it is executable, and what it holds."""

    kind: int
    data: bytes

    def is_beginning_of(self, written: FileContent) -> bool:
        """Tell whether a kill can have left this of a file that was being written."""
        return self.kind == written.kind and written.data.startswith(self.data)

    def is_torn_from(self, written: FileContent) -> bool:
        """Tell whether a power cut can have left this of a file: it is not longer, and has its blocks, or zeros.

        A last block in part does not count: whoever deletes the last lines of a file leaves that.
        """
        if self.kind != written.kind or len(self.data) > len(written.data):
            return False
        blocks = [slice(at, at + _BLOCK) for at in range(0, len(self.data), _BLOCK)]
        return all(
            self.data[block] in (written.data[block], bytes(len(self.data[block]))) for block in blocks
        )


@dataclass(frozen=True, slots=True)
class FileReader:
    """Reads files to compare them. Without `has_modes` the file system does not tell which ones are executable."""

    has_modes: bool

    def read(self, path: Path) -> FileContent | None:
        """Return what is at a path; None if nothing is. A folder has no content."""
        try:
            mode = path.lstat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            return None
        kind = stat.S_IFMT(mode) | (mode & stat.S_IXUSR if self.has_modes else 0)
        if stat.S_ISLNK(mode):
            return FileContent(kind, os.fsencode(path.readlink()))
        return FileContent(kind, path.read_bytes() if stat.S_ISREG(mode) else b"")

    def is_beginning(self, path: Path, written: Path) -> bool:
        """Tell whether a kill can have left a file of what git was writing there."""
        found, whole = self.read(path), self.read(written)
        return found is not None and whole is not None and found.is_beginning_of(whole)

    def is_torn(self, path: Path, *versions: Path) -> bool:
        """Tell whether a power cut can have left a file of one of those that git wrote there. It may be gone."""
        found = self.read(path)
        return found is None or any(
            found.is_torn_from(whole) for whole in map(self.read, versions) if whole is not None
        )
