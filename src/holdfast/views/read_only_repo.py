"""A repository and its journal, to read: what every view stands on. Reading changes nothing on disk.

`status` must be quick: git is avoided where possible, and its modules are imported only if needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError, JournalError
from holdfast.journal import open_reader
from holdfast.journal.lease import Holder, holder, locker
from holdfast.journal.protocol import JournalReader, RunListing
from holdfast.paths import RunDir, StateDir
from holdfast.repo.state_folder import require_own_state_dir
from holdfast.runner.store_choice import chosen_store

if TYPE_CHECKING:
    from holdfast.repo.repository import Repository


@dataclass(frozen=True, slots=True)
class ReadOnlyRepo:
    """A repository and its journal, to read. `journal` is None if no run was ever started."""

    checkout: Path
    state_dir: StateDir
    journal: JournalReader | None

    def require_journal(self) -> JournalReader:
        """Return the journal, or raise JournalError because there is nothing to read."""
        if self.journal is None:
            raise self.no_run_yet()
        return self.journal

    def runs(self) -> Sequence[RunListing]:
        """Return every run, oldest first."""
        return self.journal.runs() if self.journal else []

    def open_repository(self) -> Repository:
        """Open the repository itself, with the content filters that the user accepted."""
        from holdfast.repo.repository import Repository
        from holdfast.runner.content_filters import with_accepted_filters

        repo = Repository.open(self.checkout)
        return with_accepted_filters(repo, self.journal) if self.journal else repo

    def directory(self, run: str) -> RunDir:
        """Return where a run's files are."""
        return self.state_dir.run(run)

    def summaries(self) -> Path | None:
        """Return the folder with the summaries of cleaned runs, if there are any."""
        folder = self.state_dir.outputs("")
        return folder if folder.is_dir() and any(folder.iterdir()) else None

    def runs_in_git(self) -> list[str]:
        """Return the runs that git knows. For who found none in the journal: it may have been lost."""
        from holdfast.repo.refs import recorded_runs
        from holdfast.repo.repository import Repository

        return recorded_runs(Repository.open(self.checkout))

    def no_run_yet(self) -> HoldfastError:
        """Return the error for a repository without runs, or for one whose journal was lost."""
        known = self.runs_in_git()
        return (
            no_run_yet()
            if not known
            else JournalError(
                f"git knows {', '.join(known)}, and there is no run in the journal: it was lost, or is in another store",
                "`holdfast rebuild` restores it from git; --store names another store",
            )
        )

    def holder(self, run: str) -> Holder | None:
        """Return the live runner of a run: who has its lock on this machine, or its lease in the store."""
        lock = self.directory(run).lease
        if (here := holder(lock)) is not None or self.journal is None:
            return here
        # A runner of this machine that was killed has its lease in the store for a while. Its lock is free at once.
        elsewhere = self.journal.holder(run)
        return None if elsewhere is None or elsewhere.is_outlived_by(locker(lock)) else elsewhere


def open_read_only(start: Path | None = None) -> ReadOnlyRepo:
    """Find the repository around a directory (default: the current one) and its journal, read-only."""
    checkout, git_dir = _checkout(start or Path.cwd())
    state = StateDir.of_checkout(checkout)
    require_own_state_dir(state, git_dir)
    store = chosen_store(state, lambda: _repository_id(checkout))
    journal = None if isinstance(store, Path) and not store.exists() else open_reader(store)
    return ReadOnlyRepo(checkout, state, journal)


def _repository_id(checkout: Path) -> str:
    from holdfast.repo.discovery import find_repository, repository_id

    return repository_id(find_repository(checkout))


def _checkout(start: Path) -> tuple[Path, Path]:
    """Return the main checkout around a directory, and its git directory. Our state beside `.git` is proof; otherwise ask git."""
    nearest = next((folder for folder in (start, *start.parents) if (folder / ".git").exists()), None)
    if nearest and (nearest / ".git").is_dir():
        state = StateDir.of_checkout(nearest)
        if state.journal.is_file() or state.store.is_file():
            return nearest, nearest / ".git"
    from holdfast.repo.discovery import find_repository

    found = find_repository(start)
    return found.checkout, found.common_dir


def no_run_yet() -> HoldfastError:
    """Return the error for a repository without runs."""
    return JournalError(
        "there is no run in this repository yet",
        "`holdfast run` starts one; if there was one, `holdfast rebuild` restores it from git",
    )
