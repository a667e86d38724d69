"""What is in a working tree that we did not put there. Nothing is changed here, not even a time stamp in an index.

It is asked before files are replaced or deleted in a place where people work.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from holdfast.repo.changes import changed_paths
from holdfast.repo.repository import Repository
from holdfast.repo.workspaces import Workspace

_UNDER_WAY = (
    "index.lock", "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply", "BISECT_LOG",
)  # fmt: skip


def work_of_others(repo: Repository, place: Workspace, *commits: str) -> Iterator[str]:
    """Yield what others did with git in a worktree that shows one of `commits`: moved it, staged, began a merge."""
    head = (place.git_dir / "HEAD").read_text().strip()
    if head not in commits:
        yield f"it is on {head.removeprefix('ref: refs/heads/')}"
    yield from (f"{name} is there" for name in _UNDER_WAY if os.path.lexists(place.git_dir / name))
    # No work tree is passed, so only what is staged counts; edited files are looked for by our own index.
    env = {"GIT_INDEX_FILE": str(place.git_dir / "index")}
    question = ("diff-index", "--cached", "--name-only", "-z")
    staged = [repo.sealed.run(*question, commit, env=env) for commit in commits]
    if all(staged):
        yield f"{_first(staged[0])} is staged"


def in_the_way(repo: Repository, root: Path, old: str, new: str) -> Iterator[str]:
    """Yield what lies where a move from `old` to `new` would put a file, though `old` has nothing there.

    Git counts ignored files as expendable and would overwrite them, but a `.env` is there once.
    """
    gone = set(_differing(repo, "D", old, new))
    for path in _differing(repo, "A", old, new):
        above = [str(parent) for parent in Path(path).parents][:-1]
        blocked = [one for one in above if _is_no_folder(root / one) and one not in gone]
        yield from blocked
        yield from (found for found in _files_at(root, path) if found not in gone)


def unlike_both(repo: Repository, place: Workspace, old: str, new: str) -> Iterator[str]:
    """Yield the files of a half-done move from `old` to `new` that are neither's: somebody else wrote them.

    A part of the new file is what a kill leaves; all of it is in git, so nothing would be lost.
    """
    unlike_new = _paths_unlike(repo, place.path, new)
    if old:
        unlike_old = set(changed_paths(repo.sealed, place.path, place.index))
        unlike_new &= unlike_old | set(_differing(repo, "A", old, new))
    for path in sorted(unlike_new):
        if os.path.lexists(place.path / path) and not _is_begun(repo, place.path / path, new, path):
            yield path


def extra_files(repo: Repository, place: Workspace) -> tuple[str, ...]:
    """Return the files that git does not track in a worktree, ignored ones too."""
    env = {"GIT_INDEX_FILE": str(place.index)}
    return _paths(repo.sealed.run("ls-files", "-z", "-o", work_tree=place.path, env=env))


def _paths_unlike(repo: Repository, root: Path, commit: str) -> set[str]:
    """Return every path that is not as `commit` has it, ignored or not. All files are read."""
    with tempfile.TemporaryDirectory() as folder:
        env = {"GIT_INDEX_FILE": str(Path(folder, "index"))}
        repo.sealed.run("read-tree", "--reset", commit, env=env)
        return set(_paths(repo.sealed.run("ls-files", "-z", "-o", "-m", work_tree=root, env=env)))


def _is_begun(repo: Repository, file: Path, commit: str, path: str) -> bool:
    """Tell whether a file is the beginning of what `commit` has there."""
    whole = repo.file_at(commit, path)
    if whole is None or file.is_symlink() or not file.is_file():
        return False
    return file.stat().st_size <= len(whole) and whole.startswith(file.read_bytes())


def _differing(repo: Repository, kind: str, old: str, new: str) -> tuple[str, ...]:
    question = ("diff-tree", "-r", "-z", "--name-only", "--no-renames", f"--diff-filter={kind}")
    return _paths(repo.git.run(*question, old, new))


def _files_at(root: Path, path: str) -> Iterator[str]:
    """Yield the files at a path: itself, or all below it if it is a folder."""
    if _is_no_folder(root / path):
        yield path
    for where, _, names in os.walk(root / path):
        yield from (str(Path(where, name).relative_to(root)) for name in names)


def _is_no_folder(path: Path) -> bool:
    return os.path.lexists(path) and (path.is_symlink() or not path.is_dir())


def _paths(listing: bytes) -> tuple[str, ...]:
    return tuple(path for path in listing.decode("utf-8", "surrogateescape").split("\0") if path)


def _first(listing: bytes) -> str:
    return _paths(listing)[0]
