"""What a preparation left in a workspace, so that the next one believes no file that was touched since.

Git takes a file for unchanged if its index says so, or if its cleaned content is what is stored. An agent can arrange both:
with an index that it rewrote, or with a keyword or an encoding that a clean filter removes. And git never looks at what is
called `.git`, wherever it lies. So what was touched is removed, and git writes it again. Nothing here runs git.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.repo.files import entries, remove

_GIT = ".git"


@dataclass(frozen=True, slots=True)
class PreparedFiles:
    """The index of a workspace as we left it, and when the workspace was complete. Kept in memory: no agent can edit it."""

    index_bytes: int
    index_digest: bytes
    complete_ns: int

    @classmethod
    def of(cls, root: Path, index: Path) -> PreparedFiles:
        """Remember a workspace that was prepared just now."""
        os.utime(root)  # its file system's own clock tells the time of everything that follows
        content = index.read_bytes()
        return cls(len(content), hashlib.sha256(content).digest(), root.stat().st_ctime_ns)

    def is_of(self, index: Path) -> bool:
        """Tell whether an index is still the one that we left."""
        if not os.path.lexists(index):
            return False
        found = index.lstat()
        if not stat.S_ISREG(found.st_mode) or found.st_size != self.index_bytes:
            return False
        return hashlib.sha256(index.read_bytes()).digest() == self.index_digest


def remove_touched(root: Path, index: Path, prepared: PreparedFiles | None, kept: Sequence[str] = ()) -> None:
    """Remove every file that is not as it was prepared, and every `.git` but the workspace's own. Leave out what is `kept`.

    If that is not known, the index goes: without one, git removes and writes all files. Raises PermissionError if a folder is closed.
    """
    known = prepared if prepared is not None and prepared.is_of(index) else None
    if known is None:
        remove(index)
    passed_over = frozenset(f"{root}/{path}" for path in kept)
    for path in list(_touched(str(root), known.complete_ns if known else None, passed_over)):
        remove(Path(path))


def _touched(root: str, since_ns: int | None, kept: Collection[str]) -> Iterator[str]:
    """Yield what changed since then. Of a change nobody but root can hide the time."""
    pending = [root]
    while pending:
        folder = pending.pop()
        for entry in entries(folder):
            if entry.path in kept:
                continue
            if entry.name.lower() == _GIT:
                if folder != root:
                    yield entry.path
            elif entry.is_dir(follow_symlinks=False):
                pending.append(entry.path)
            elif since_ns is not None and entry.stat(follow_symlinks=False).st_ctime_ns >= since_ns:
                yield entry.path
