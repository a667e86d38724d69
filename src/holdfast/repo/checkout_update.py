"""Moves a branch forward that is checked out, with its files and index; and completes that if it was cut short.

Git does it in many steps (`git merge --ff-only`). A kill in between leaves its locks, and files of both commits that git
then takes for the user's changes and refuses to overwrite. A power cut takes back any of these steps, or tears the files.
So it is written down first which files are about to change and were as git knows them. Only those are ever restored, and
only if they still hold what git wrote into them. All of it is on disk before the record goes.

There is one record for a checkout: the caller holds the landing lock (`landing_lock.py`).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from holdfast.disk_sync import sync, sync_all
from holdfast.errors import ExitCode, RepositoryError
from holdfast.repo.debris import git_in_repository, remove_stale_locks, wait_for_orphans
from holdfast.repo.files import abandoned_drafts, is_plain_directory, remove, write_durably
from holdfast.repo.git import Git, GitError, decode_text, known_way_out
from holdfast.repo.index import changed_paths, temporary_index
from holdfast.repo.repository import Repository
from holdfast.repo.torn_files import FileReader
from holdfast.system_errors import doing

_RECORD = "holdfast-update"
_LOCKS = ("index.lock", "HEAD.lock", "ORIG_HEAD.lock")
_TAKEN = "index.lock': File exists"
_WITH_SYNC = ("-c", "core.fsync=reference,index")
_SPARSE = r"^(core\.sparsecheckout(cone)?|index\.sparse)$"
_ABSENT = "000000"
_SUBMODULE = "160000"
_IN_USE = "H"

_Entries = dict[str, str]
"""Files of a commit or an index: by path, the mode and the blob, as git writes them."""


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
        noted = self._untouched(*self._changes(old, new))
        with doing("note what is about to change in the checkout", self._record):
            write_durably(self._record, os.fsencode("\0".join([branch, old, new, *noted])))
        self._merge(new)
        self._finish(branch, noted)

    def _merge(self, new: str) -> None:
        # Git counts ignored files as expendable and would overwrite them, but a `.env` has no other copy.
        merging = ("merge", "--ff-only", "--no-overwrite-ignore", "--no-autostash", "--quiet", new)
        self.repo.ref_updates.sync_objects()
        args = (*_WITH_SYNC, *self._sparse_settings(), *merging)
        result = self.repo.git.try_run(*args, work_tree=self.place, git_dir=self.git_dir)
        if result.rc != 0:
            if _TAKEN in result.stderr:
                self._remove_record()  # nothing was begun, and the lock is another program's
            else:
                self.complete()
            in_the_way = (
                f"Commit, stash or move what is in the way in {self.place}, then run the command again."
            )
            hint = known_way_out(result.stderr) or in_the_way
            raise CheckoutBlockedError(
                f"git did not update the checkout in {self.place}: {result.stderr.strip()}", hint
            )

    def _sparse_settings(self) -> list[str]:
        """Return what says that a checkout lacks files by the user's choice. No other setting of its own is in force."""
        asked = ("config", "-z", "--get-regexp", _SPARSE)
        found = Git(self.repo.common_dir).try_run(*asked, git_dir=self.git_dir)
        settings = (entry.partition("\n") for entry in decode_text(found.stdout).split("\0") if entry)
        return [part for key, _, value in settings for part in ("-c", f"{key}={value or 'true'}")]

    def complete(self) -> None:
        """Complete an update that was cut short: remove its locks, restore its files, make them durable.

        Afterwards the branch has moved with everything, or nothing has changed. Idempotent; nothing happens if none
        was cut short. Raises RepositoryError while git is at work in the repository, and CheckoutBlockedError if the
        machine refuses: then the note of it stays, and another call goes on.
        """
        for draft in abandoned_drafts(self.git_dir):
            remove(draft)
        if not self._record.exists():
            return
        branch, old, new, *noted = os.fsdecode(self._record.read_bytes()).split("\0")
        self._remove_locks()
        try:
            if (head := self._head()) in (old, new):
                changes = [_only(noted, entries) for entries in self._changes(old, new)]
                self._restore(noted, *changes, is_new=head == new)
            self._finish(branch, noted)
        except (GitError, OSError) as error:
            raise CheckoutBlockedError(
                f"the checkout in {self.place} is half updated, and could not be restored: {error}",
                "Make room on the disk, then run the command again: it restores the files and goes on.",
            ) from error

    def _remove_locks(self) -> None:
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

    def _finish(self, branch: str, noted: Sequence[str]) -> None:
        self.repo.ref_updates.sync(f"refs/heads/{branch}")
        self._sync_files(noted)
        self._remove_record()

    def _sync_files(self, noted: Sequence[str]) -> None:
        """Make files and index durable: a power cut must not leave empty files for the user's next commit."""
        paths = [self.place / name for name in noted]
        files = [path for path in paths if path.is_file() and not path.is_symlink()]
        folders = {self.place / folder for name in noted for folder in Path(name).parents}
        with doing("sync the files of the checkout", self.place):
            sync_all([*map(str, files), *map(str, folders)], str(self.place))
            sync_all([str(self._index), str(self.git_dir)], str(self.git_dir))

    def _remove_record(self) -> None:
        """If it came back after a power cut, what the user did since would look like an update that was cut short."""
        with doing("remove the note of what changed in the checkout", self._record):
            self._record.unlink(missing_ok=True)
            sync(self.git_dir)

    @property
    def _record(self) -> Path:
        return self.git_dir / _RECORD

    @property
    def _index(self) -> Path:
        return self.git_dir / "index"

    def _head(self) -> str:
        """Return the commit that the checkout is on; empty if there is none."""
        found = self.repo.git.try_run("rev-parse", "--verify", "--quiet", "HEAD", git_dir=self.git_dir)
        return decode_text(found.stdout).strip()

    def _restore(self, noted: Sequence[str], old: _Entries, new: _Entries, *, is_new: bool) -> None:
        """Give files and index what the commit has that the checkout is on, but leave what the user changed."""
        wanted, other = (new, old) if is_new else (old, new)
        self._restore_index(noted, wanted, other)
        indexed = self._indexed()
        ours = [path for path in noted if indexed.get(path) == wanted.get(path)]
        with tempfile.TemporaryDirectory() as folder:
            old_files, new_files = Path(folder, "old"), Path(folder, "new")
            self._check_out(old, f"--prefix={old_files}/")
            self._check_out(new, f"--prefix={new_files}/")
            begun = self._remove_begun(ours, old_files, new_files, is_new=is_new)
        self._check_out(_only(begun, wanted), "--force")

    def _restore_index(self, noted: Sequence[str], wanted: _Entries, other: _Entries) -> None:
        """Replace entries of the other commit: git writes the index before the branch, and its name may be lost."""
        indexed = self._indexed()
        stale = [path for path in noted if indexed.get(path) == other.get(path) != wanted.get(path)]
        if stale:
            lines = _index_info({path: wanted.get(path, "") for path in stale}, self._head())
            args = (*_WITH_SYNC, "update-index", "-z", "--index-info")
            self.repo.git.run(*args, stdin=lines, git_dir=self.git_dir)

    def _remove_begun(self, ours: Sequence[str], old: Path, new: Path, *, is_new: bool) -> list[str]:
        """Remove what git left of files that are not as wanted, and return their names."""
        reader = FileReader(self.repo.config.is_true("core.filemode"))
        wanted = new if is_new else old
        begun = []
        # First what shall be gone: a file may have to take the place of its folder.
        for name in sorted(ours, key=lambda name: os.path.lexists(wanted / name)):
            path = self.place / name
            if reader.read(path) == reader.read(wanted / name) or not self._is_in_folders(name):
                continue
            # The branch moves last: once it is new, no kill was in the middle of a file.
            is_killed = not is_new and reader.is_beginning(path, new / name)
            if is_killed or reader.is_torn(path, old / name, new / name):
                remove(path)
                self._remove_empty_folders(name)
                begun.append(name)
        return begun

    def _remove_empty_folders(self, name: str) -> None:
        with suppress(OSError):
            for folder in list(Path(name).parents)[:-1]:
                (self.place / folder).rmdir()

    def _is_in_folders(self, name: str) -> bool:
        """Tell whether nothing above a file is a link or a file: the user put it there."""
        folders = [self.place / folder for folder in Path(name).parents]
        return all(is_plain_directory(folder) or not os.path.lexists(folder) for folder in folders)

    def _check_out(self, entries: _Entries, option: str) -> None:
        """Write files of a commit, as git writes them into this checkout."""
        git = self.repo.private_git
        with temporary_index(git) as index:
            git.run("update-index", "-z", "--index-info", stdin=_index_info(entries), index=index)
            git.run("checkout-index", "--all", option, work_tree=self.place, index=index)

    def _changes(self, old: str, new: str) -> tuple[_Entries, _Entries]:
        """Return the files in which two commits differ, of each. What a submodule holds, git leaves alone here."""
        args = ("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", old, new)
        fields = self.repo.git.fields(*args)
        before: _Entries = {}
        after: _Entries = {}
        for facts, path in zip(fields[::2], fields[1::2], strict=False):
            old_mode, new_mode, old_blob, new_blob, _ = facts.removeprefix(":").split()
            if _SUBMODULE not in (old_mode, new_mode):
                before |= {path: f"{old_mode} {old_blob}"} if old_mode != _ABSENT else {}
                after |= {path: f"{new_mode} {new_blob}"} if new_mode != _ABSENT else {}
        return before, after

    def _untouched(self, old: _Entries, new: _Entries) -> list[str]:
        """Return which of the files that change are as in the old commit, in the index and on disk."""
        modified = set(changed_paths(self.repo.private_git, self.place, self._index))
        indexed = self._indexed()
        return [
            path
            for path in sorted({*old, *new})
            if indexed.get(path) == old.get(path)
            and (path not in modified if path in old else self._is_free(path))
        ]

    def _is_free(self, name: str) -> bool:
        """Tell whether no file is in the place of a new one. Git itself looks what is in a folder that is there."""
        path = self.place / name
        return not os.path.lexists(path) or is_plain_directory(path)

    def _indexed(self) -> _Entries:
        """Return the entries of the index. One in conflict, or without a file by the user's choice, is like no other."""
        lines = self.repo.git.paths("ls-files", "-z", "--stage", "-t", git_dir=self.git_dir)
        entries = (line.partition("\t") for line in lines)
        tagged = ((facts.split(" "), path) for facts, _, path in entries)
        return {path: f"{mode} {blob}" if tag == _IN_USE else tag for (tag, mode, blob, _), path in tagged}


def _only(paths: Collection[str], entries: _Entries) -> _Entries:
    return {path: entries[path] for path in paths if path in entries}


def _index_info(entries: Mapping[str, str], commit: str = "") -> bytes:
    """Return what `git update-index` reads. An empty entry is removed; `commit` shows how long an id is."""
    absent = f"{_ABSENT} {'0' * len(commit)}"
    return b"".join(os.fsencode(f"{entry or absent}\t{path}\0") for path, entry in entries.items())
