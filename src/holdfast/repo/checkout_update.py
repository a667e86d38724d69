"""Moves a branch forward that is checked out, with its files and index; and completes that if it was cut short.

Git does it in many steps (`git merge --ff-only`). A kill in between leaves its locks, and files of both commits that git
then takes for the user's changes and refuses to overwrite. So it is written down first which files are about to change
and were as git knows them. Only those are ever put back, and only if they still hold what git wrote into them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.disk_sync import sync_all
from holdfast.errors import ExitCode, RepositoryError
from holdfast.repo.debris import git_in_repository, remove_stale_locks, wait_for_orphans
from holdfast.repo.files import abandoned_drafts, remove, write_durably
from holdfast.repo.git import known_way_out
from holdfast.repo.index import changed_paths
from holdfast.repo.repository import Repository
from holdfast.system_errors import doing

_RECORD = "holdfast-update"
_LOCKS = ("index.lock", "HEAD.lock", "ORIG_HEAD.lock")
_TAKEN = "index.lock': File exists"
_LINK = "120000"
_SUBMODULE = "160000"


class CheckoutBlockedError(RepositoryError):
    """Git left the user's checkout as it was, because of what is in it or because the disk refused."""

    exit_code = ExitCode.NEEDS_DECISION


@dataclass(frozen=True, slots=True)
class CheckoutUpdate:
    """A working tree whose branch moves from one commit to another, and the git directory that belongs to it."""

    repo: Repository
    place: Path
    git_dir: Path

    def fast_forward(self, branch: str, new: str, old: str) -> None:
        """Move the branch from `old` to `new`, with files and index.

        Raises CheckoutBlockedError if git refuses, for instance because that would overwrite local changes or files of
        the user, ignored ones too. Then nothing has changed.
        """
        modified = self._modified()
        changes = [change for change in self._changes(old, new) if self._is_untouched(change, modified)]
        fields = [branch, old, new, *(change.path for change in changes)]
        with doing("note what is about to change in the checkout", self._record):
            write_durably(self._record, os.fsencode("\0".join(fields)))
        self._merge(new)
        self.repo.ref_updates.sync(f"refs/heads/{branch}")
        self._sync_files(self.repo.changed_files(old, new))
        self._record.unlink()

    def _merge(self, new: str) -> None:
        # Git counts ignored files as expendable and would overwrite them, but a `.env` has no other copy.
        merging = ("merge", "--ff-only", "--no-overwrite-ignore", "--no-autostash", "--quiet", new)
        args = ("-c", "core.fsync=reference,index", *merging)
        self.repo.ref_updates.sync_objects()
        result = self.repo.git.try_run(*args, work_tree=self.place, git_dir=self.git_dir)
        if result.rc != 0:
            if _TAKEN in result.stderr:
                self._record.unlink()  # nothing was begun, and the lock is another program's
            else:
                self.complete()
            in_the_way = (
                f"Commit, stash or move what is in the way in {self.place}, then run the command again."
            )
            hint = known_way_out(result.stderr) or in_the_way
            raise CheckoutBlockedError(
                f"git did not update the checkout in {self.place}: {result.stderr.strip()}", hint
            )

    def _sync_files(self, changed: Sequence[str]) -> None:
        """Make the files that git has just written durable: a power cut must not leave empty ones for the next commit."""
        paths = [self.place / name for name in changed]
        files = [path for path in paths if path.is_file() and not path.is_symlink()]
        folders = {self.place / folder for name in changed for folder in Path(name).parents}
        with doing("sync the files of the checkout", self.place):
            sync_all([*map(str, files), *map(str, folders)], str(self.place))

    def complete(self) -> None:
        """Remove what an update that was cut short left: locks, and files of the new commit under the old one.

        Afterwards the branch has moved with everything, or nothing has changed. Idempotent; nothing happens if none
        was cut short. Raises RepositoryError while git is at work in the repository.
        """
        for draft in abandoned_drafts(self.git_dir):
            remove(draft)
        if not self._record.exists():
            return
        branch, old, new, *paths = os.fsdecode(self._record.read_bytes()).split("\0")
        wait_for_orphans(self.repo)
        if alive := git_in_repository(self.repo):
            raise RepositoryError(
                f"An update of {self.place} was cut short, and git is running in the repository "
                f"(process {next(iter(alive))}).",
                "Wait for its end, then run the command again.",
            )
        for name in _LOCKS:
            remove(self.git_dir / name)
        remove_stale_locks(self.repo)
        if self.repo.read_ref(f"refs/heads/{branch}") == old:
            self._put_back([change for change in self._changes(old, new) if change.path in paths])
        self._record.unlink()

    @property
    def _record(self) -> Path:
        return self.git_dir / _RECORD

    @property
    def _index(self) -> Path:
        return self.git_dir / "index"

    def _put_back(self, changes: list[_ChangedFile]) -> None:
        """Give the files that git had begun to write the content that the index has. The index is not written.

        If it is the new one already, git had written all of them.
        """
        modified, indexed = self._modified(), self._indexed()
        begun = [
            change
            for change in changes
            if not self._is_untouched(change, modified)
            and (change.is_old or change.path not in indexed)
            and self._is_written_by_git(change)
        ]
        for change in begun:
            if not change.is_old:
                remove(self.place / change.path)
        kept = [change.path for change in begun if change.is_old]
        if kept:
            names = os.fsencode("\0".join(kept))
            args = ("checkout-index", "--force", "-z", "--stdin")
            self.repo.private_git.run(*args, stdin=names, work_tree=self.place, index=self._index)

    def _changes(self, old: str, new: str) -> Iterator[_ChangedFile]:
        """Yield the files in which two commits differ. What a submodule holds, git leaves alone here."""
        args = ("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", old, new)
        fields = self.repo.git.fields(*args)
        for facts, path in zip(fields[::2], fields[1::2], strict=False):
            old_mode, new_mode, _, blob, kind = facts.removeprefix(":").split()
            if _SUBMODULE not in (old_mode, new_mode):
                yield _ChangedFile(path, kind != "A", "" if kind == "D" else blob, new_mode == _LINK)

    def _modified(self) -> set[str]:
        """Return the files that differ from the index, and untracked ones."""
        return set(changed_paths(self.repo.private_git, self.place, self._index))

    def _indexed(self) -> set[str]:
        return set(self.repo.private_git.paths("ls-files", "-z", index=self._index))

    def _is_untouched(self, change: _ChangedFile, modified: set[str]) -> bool:
        path = self.place / change.path
        return change.path not in modified if change.is_old else not os.path.lexists(path)

    def _is_written_by_git(self, change: _ChangedFile) -> bool:
        """Tell whether a file holds the beginning of its new content, or all of it, or is gone."""
        path = self.place / change.path
        if not os.path.lexists(path):
            return True
        if not change.blob or path.is_symlink() != change.is_link:
            return False
        if change.is_link:
            return os.fsencode(path.readlink()) == self.repo.git.run("cat-file", "blob", change.blob)
        args = ("cat-file", "--filters", f"--path={change.path}", change.blob)
        return path.is_file() and self.repo.private_git.run(*args).startswith(path.read_bytes())


@dataclass(frozen=True, slots=True)
class _ChangedFile:
    """A file that two commits have with different contents, or only one of them has: `is_old` if the old one does.

    `blob` is its content in the new commit, empty if that has no such file.
    """

    path: str
    is_old: bool
    blob: str
    is_link: bool
