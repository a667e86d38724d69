"""Indexes of linked worktrees that a power cut tore: a single one makes the user's `git gc` fail.

Git writes an index aside and renames it, but syncs neither. A whole one ends with the checksum of the rest, so a torn one
is known for certain. The index of the main checkout is the user's own and never looked at here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from holdfast.repo.files import copy_atomically, read_regular
from holdfast.repo.git import decode_text
from holdfast.repo.index import temporary_index
from holdfast.repo.repository import Repository

_SIGNATURE = b"DIRC"
_HEADER_BYTES = 12
_CHECKSUMS = {"sha1": 20, "sha256": 32}
"""How an index can end, and the bytes of that. The objects of a repository tell which; a torn file has neither."""
_TORN = "index.torn"
"""Where the torn bytes stay, for whoever wants to look for staged files in them."""


def torn_indexes(repo: Repository) -> list[Path]:
    """Return the indexes of linked worktrees that git cannot use. Nothing is changed."""
    return [path for path in sorted((repo.common_dir / "worktrees").glob("*/index")) if _is_torn(path)]


def replace_torn_indexes(repo: Repository) -> list[str]:
    """Make each torn index anew from its worktree's commit; return a sentence for each. The torn bytes stay beside it.

    The files of the worktree stay as they are. What was staged there was lost with the index.
    """
    return list(_replaced(repo))


def _replaced(repo: Repository) -> Iterator[str]:
    """Replace one after the other. A worktree whose HEAD is torn as well stays without an index, which git accepts."""
    for path in torn_indexes(repo):
        question = ("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        head = decode_text(repo.git.try_run(*question, git_dir=path.parent).stdout).strip()
        path.rename(path.with_name(_TORN))
        if head:
            with temporary_index(repo.private_git, head) as fresh:
                copy_atomically(fresh, path)
        yield f"Made {path} anew, which a power cut tore; the old one is {_TORN} beside it."


def _is_torn(path: Path) -> bool:
    """Tell whether a file is no whole index. An empty one is none either."""
    content = read_regular(path)
    return not any(_ends_well(content, kind, size) for kind, size in _CHECKSUMS.items())


def _ends_well(content: bytes, kind: str, size: int) -> bool:
    """Tell whether an index ends with its checksum, or with zeros: newer versions of git can be told to write none."""
    body, checksum = content[:-size], content[-size:]
    is_index = content.startswith(_SIGNATURE) and len(body) >= _HEADER_BYTES
    return is_index and checksum in (hashlib.new(kind, body).digest(), bytes(size))
