"""The staging worktree: it shows a run's branch, so that people can open, run and test the build so far.

It is made like a workspace, not by `git worktree add`, and updated in place, because somebody may work in it.
A commit says what we put there, a note that a move is under way. So a kill is repaired and no edit is lost.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from holdfast.errors import RepositoryError
from holdfast.repo.blocking_files import blocking_files
from holdfast.repo.files import (
    abandoned_drafts,
    copy_atomically,
    is_plain_directory,
    remove,
    write_atomically,
    write_durably,
)
from holdfast.repo.git import decode_text
from holdfast.repo.index import changed_paths, temporary_index
from holdfast.repo.private_git_dir import private_dir
from holdfast.repo.repository import Repository
from holdfast.repo.workspace import Workspace
from holdfast.repo.workspaces import Workspaces
from holdfast.repo.worktrees import linked_git_dirs

_UNDER_WAY = (
    "index.lock", "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply", "BISECT_LOG",
)  # fmt: skip
_NAME = re.compile(r"[a-z0-9][\w-]*(\.(?!lock$)[\w-]+)*", re.ASCII | re.IGNORECASE)
"""Git makes a ref name from it."""
_SHOWN = 3


class StagingKeptError(RepositoryError):
    """The worktree is somebody else's, or holds what we did not put there. It stays as it is."""


class StagingWorktree:
    """The staging worktree at one path. The caller holds the lease of the run that it shows."""

    def __init__(self, repo: Repository, path: Path) -> None:
        self._repo = repo
        self.path = path
        self._pool = Workspaces(repo, path.parent)
        self._workspace = self._pool.get(path.name)
        self._note = self._workspace.index.with_suffix(".moving")

    def show(self, commit: str) -> None:
        """Make the worktree show `commit`, on no branch. Idempotent.

        Ignored files stay. Safe to repeat after a crash. Raises StagingKeptError, and changes
        nothing, if files of others would be lost or the worktree is not ours.
        """
        self._pool.reconnect(self.path.name)
        self._repair()
        self._replace_torn_note(commit)
        shown = self._shown()
        if not shown:
            self._make(commit)
        elif shown != commit:
            self._move(shown, commit)

    def remove(self) -> None:
        """Delete the worktree. Nothing happens if it is gone, or was never ours.

        Raises StagingKeptError if there is any file in it that we did not put there, ignored ones too.
        """
        if not os.path.lexists(self.path):
            self._forget()
        elif self._is_known():
            self._pool.reconnect(self.path.name)
            self._repair()
            if shown := self._shown():
                self._require_none("has changes", self._edits(shown))
                self._require_none("has files", self._git("ls-files", "-z", "-o"))
            self._forget()

    def _shown(self) -> str:
        """Return the commit that we put there, or nothing if the place is free."""
        if not os.path.lexists(self.path):
            return ""
        if self._pool.is_intact(self.path.name) and (shown := self._workspace.start()):
            return shown
        if is_plain_directory(self.path) and not any(self.path.iterdir()):
            return ""
        raise StagingKeptError(
            f"{self.path} is not Holdfast's and is left as it is",
            "move it away to have the build shown there",
        )

    def _make(self, commit: str) -> None:
        if not _NAME.fullmatch(self.path.name):
            raise StagingKeptError(
                f"{self.path.name!r} is no name for a worktree", "rename the spec's folder"
            )
        registered = linked_git_dirs(self._repo)
        if any(path == self.path and git_dir != self._workspace.git_dir for path, git_dir in registered):
            raise StagingKeptError(
                f"git knows another worktree at {self.path}", "`git worktree prune` forgets one that is gone"
            )
        self._announce("", commit)
        self._pool.prepare(self.path.name, commit)
        remove(self._note)

    def _move(self, old: str, new: str) -> None:
        self._require_none("has changes", self._edits(old))
        self._require_none("has files in the way", _in_the_way(self._repo, self.path, old, new))
        self._announce(old, new)
        self._git("update-index", "-q", "--refresh")
        self._git("read-tree", "-m", "-u", old, new)
        self._settle(new)

    def _repair(self) -> None:
        """Complete what a kill interrupted. Raises StagingKeptError if somebody wrote into it since."""
        old, new = self._announced()
        if not new:
            return
        remove(self._workspace.index.with_name(self._workspace.index.name + ".lock"))
        for draft in (
            *abandoned_drafts(self.path),
            *abandoned_drafts(self._workspace.git_dir),
            *self._aside(),
        ):
            remove(draft)
        if old and os.path.lexists(self.path):
            self._require_none("was half moved and has changes", self._edits_since(old, new))
            self._git("read-tree", "--reset", "-u", new)
            self._settle(new)
            return
        if os.path.lexists(self.path):
            self._require_none("was half made and has files", self._files_since(new))
        self._pool.prepare(self.path.name, new)
        remove(self._note)

    def _replace_torn_note(self, commit: str) -> None:
        """Make the worktree again if a power cut took what we noted about it, and everything else says that it is ours.

        Nobody else was at work there if it is on a commit of the run's history and all its files are of that commit.
        """
        if self._workspace.start() or not self._pool.is_intact(self.path.name):
            return
        head = self._workspace.head()
        busy = any(os.path.lexists(self._workspace.git_dir / name) for name in _UNDER_WAY)
        if head and not busy and self._repo.is_ancestor(head, commit):
            self._announce("", head)
            self._repair()

    def _edits(self, shown: str) -> Iterator[str]:
        """Yield what others changed in a worktree that shows a commit."""
        yield from _git_work_of_others(self._repo, self._workspace, shown)
        yield from changed_paths(self._repo.private_git, self.path, self._workspace.index)

    def _edits_since(self, old: str, new: str) -> Iterator[str]:
        """Yield what others changed since a kill interrupted a move."""
        if self._pool.is_intact(self.path.name):
            yield from _git_work_of_others(self._repo, self._workspace, old, new)
            yield from _unlike_both(self._repo, self._workspace, old, new)
        else:
            yield ".git"

    def _files_since(self, new: str) -> Iterator[str]:
        """Yield what others put there since a kill interrupted the making."""
        pointer = self.path / ".git"
        if os.path.lexists(pointer) and not self._workspace.points_to_git_dir():
            yield ".git"
        yield from _unlike_both(self._repo, self._workspace, "", new)

    def _require_none(self, what: str, found: Iterable[str]) -> None:
        """Raise StagingKeptError if others left something. Git does not run if a file would block it."""
        blocking = next(blocking_files(self.path), None)
        if named := [str(blocking)] if blocking else list(islice(found, _SHOWN)):
            raise StagingKeptError(
                f"{self.path} {what} that are not Holdfast's ({', '.join(named)}) and is left as it is",
                f"`git worktree remove {self.path}` removes it when you no longer need it",
            )

    def _git(self, *args: str) -> tuple[str, ...]:
        """Run git on the worktree with our own index; return the paths that it lists."""
        return self._repo.private_git.paths(*args, work_tree=self.path, index=self._workspace.index)

    def _settle(self, commit: str) -> None:
        write_atomically(self._workspace.git_dir / "HEAD", f"{commit}\n".encode())
        write_atomically(self._workspace.start_file, commit.encode())
        copy_atomically(self._workspace.index, self._workspace.git_dir / "index")
        remove(self._note)

    def _announce(self, old: str, new: str) -> None:
        write_durably(self._note, f"{old} {new}".encode())

    def _announced(self) -> tuple[str, str]:
        """Return the old and new commit of an unfinished move; nothing if there is none."""
        try:
            old, _, new = self._note.read_text().partition(" ")
        except FileNotFoundError:
            return "", ""
        return old, new

    def _is_known(self) -> bool:
        marks = (self._workspace.start_file, self._workspace.index, self._note)
        return any(map(os.path.lexists, marks))

    def _aside(self) -> list[Path]:
        """Return git's files about the worktree that a kill kept from being moved into place."""
        return list(
            (private_dir(self._repo.common_dir) / "staging").glob(f"{self._workspace.git_dir.name}.*")
        )

    def _forget(self) -> None:
        if is_plain_directory(self.path.parent):
            self._pool.remove(self.path.name)
            remove(self._note)
            with suppress(OSError):  # Another worktree beside it keeps the folders.
                self.path.parent.rmdir()
                self.path.parent.parent.rmdir()


# -- what is in the worktree that we did not put there: asked before files are replaced or deleted; nothing changes --


def _git_work_of_others(repo: Repository, workspace: Workspace, *commits: str) -> Iterator[str]:
    """Yield what others did with git in a worktree that shows one of `commits`: moved it, staged, began a merge."""
    head = decode_text((workspace.git_dir / "HEAD").read_bytes()).strip()
    if head not in commits:
        yield f"it is on {head.removeprefix('ref: refs/heads/')}"
    yield from (f"{name} is there" for name in _UNDER_WAY if os.path.lexists(workspace.git_dir / name))
    # No work tree is passed, so only what is staged counts; edited files are looked for by our own index.
    question = ("diff-index", "--cached", "--name-only", "-z")
    index = workspace.git_dir / "index"
    staged = [repo.private_git.paths(*question, commit, index=index) for commit in commits]
    if all(staged):
        yield f"{staged[0][0]} is staged"


def _in_the_way(repo: Repository, root: Path, old: str, new: str) -> Iterator[str]:
    """Yield what lies where a move from `old` to `new` would put a file, though `old` has nothing there.

    Git counts ignored files as expendable and would overwrite them, but a `.env` has no other copy.
    """
    gone = set(_differing(repo, "D", old, new))
    for path in _differing(repo, "A", old, new):
        above = [str(parent) for parent in Path(path).parents][:-1]
        blocked = [one for one in above if _is_no_folder(root / one) and one not in gone]
        yield from blocked
        yield from (found for found in _files_at(root, path) if found not in gone)


def _unlike_both(repo: Repository, workspace: Workspace, old: str, new: str) -> Iterator[str]:
    """Yield the files of a half-done move from `old` to `new` that match neither: somebody else wrote them.

    A kill can leave the beginning of a new file; git has all of it, so nothing would be lost.
    """
    with temporary_index(repo.private_git, new) as index:
        question = ("ls-files", "-z", "-o", "-m")  # all files are read, ignored ones too
        unlike_new = set(repo.private_git.paths(*question, work_tree=workspace.path, index=index))
    if old:
        unlike_old = set(changed_paths(repo.private_git, workspace.path, workspace.index))
        unlike_new &= unlike_old | set(_differing(repo, "A", old, new))
    for path in sorted(unlike_new):
        if os.path.lexists(workspace.path / path) and not _is_begun(repo, workspace.path / path, new, path):
            yield path


def _is_begun(repo: Repository, file: Path, commit: str, path: str) -> bool:
    """Tell whether a file is the beginning of what `commit` has there."""
    whole = repo.file_at(commit, path)
    if whole is None or file.is_symlink() or not file.is_file():
        return False
    return file.stat().st_size <= len(whole) and whole.startswith(file.read_bytes())


def _differing(repo: Repository, kind: str, old: str, new: str) -> tuple[str, ...]:
    question = ("diff-tree", "-r", "-z", "--name-only", "--no-renames", f"--diff-filter={kind}")
    return repo.git.paths(*question, old, new)


def _files_at(root: Path, path: str) -> Iterator[str]:
    """Yield the files at a path: itself, or all below it if it is a folder."""
    if _is_no_folder(root / path):
        yield path
    for where, _, names in os.walk(root / path):
        yield from (str(Path(where, name).relative_to(root)) for name in names)


def _is_no_folder(path: Path) -> bool:
    return os.path.lexists(path) and (path.is_symlink() or not path.is_dir())
