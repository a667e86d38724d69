"""Adds files of a work tree to a private index. What git refuses to convert is stored as it is, byte by byte.

Attributes can demand a conversion that a file does not allow, or a filter that fails. An agent writes both, so that must
not keep its work from being stored: the rest is stored as usual, and a sentence about each such file says why.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from holdfast.repo.git import Git, GitError

_CULPRITS_MAX = 20
_REASON_CHARS = 300
_EXECUTABLE = 0o100


def add_files(private_git: Git, root: Path, index: Path, paths: Sequence[str]) -> list[str]:
    """Add files and links to an index, and drop those that are gone. Return a sentence for each that was stored raw.

    Raises GitError if that fails, too: then the cause is not in the files.
    """
    problems: list[str] = []
    pending = [list(paths)] if paths else []
    while pending:
        batch = pending.pop()
        try:
            _convert(private_git, root, index, batch)
        except GitError as error:
            if len(batch) > 1 and len(problems) < _CULPRITS_MAX:
                # Git names only one of them, and only in words: halves find them all.
                middle = len(batch) // 2
                pending += [batch[middle:], batch[:middle]]
                continue
            problems += _add_anyway(private_git, root, index, batch, _reason(error))
    return problems


def _add_anyway(private_git: Git, root: Path, index: Path, paths: Sequence[str], reason: str) -> list[str]:
    """Add files that git could not convert as they are. First try once more: an error of the disk may pass, a filter's stays."""
    try:
        _convert(private_git, root, index, paths)
    except GitError:
        return _add_raw(private_git, root, index, paths, reason)
    return []


def _convert(private_git: Git, root: Path, index: Path, paths: Sequence[str]) -> None:
    listing = b"".join(os.fsencode(path) + b"\0" for path in paths)
    args = ("update-index", "--add", "--remove", "--replace", "-z", "--stdin")
    private_git.run(*args, stdin=listing, work_tree=root, index=index)


def _add_raw(private_git: Git, root: Path, index: Path, paths: Sequence[str], reason: str) -> list[str]:
    files = [path for path in paths if not (root / path).is_symlink()]
    stored = private_git.text(
        "hash-object",
        "-w",
        "--no-filters",
        "--stdin-paths",
        stdin=b"".join(_line(root / path) for path in files),
    )
    entries = [
        os.fsencode(f"{_mode(root / path)} {blob}\t{path}\0")
        for path, blob in zip(files, stored.split(), strict=True)
    ]
    args = ("update-index", "--add", "--replace", "-z", "--index-info")
    private_git.run(*args, stdin=b"".join(entries), index=index)
    if links := [path for path in paths if path not in files]:
        _convert(private_git, root, index, links)
    return [f"{path} was stored as it is, because git could not convert it: {reason}" for path in files]


def _line(path: Path) -> bytes:
    """Return a path as git reads it from a line, every byte escaped: a name may contain a line end."""
    return b'"%s"\n' % b"".join(b"\\%03o" % byte for byte in os.fsencode(path))


def _mode(path: Path) -> str:
    return "100755" if path.lstat().st_mode & _EXECUTABLE else "100644"


def _reason(error: GitError) -> str:
    """Return the last thing that git said, which names the cause; its hints come before."""
    lines = [line for line in error.stderr.splitlines() if line.strip()]
    return (
        lines[-1].removeprefix("fatal: ").removeprefix("error: ")[:_REASON_CHARS]
        if lines
        else "no reason given"
    )
