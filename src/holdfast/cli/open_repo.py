"""Opens the repository and its journal, and chooses the run for a command.

Reading changes nothing on disk. `status` must be quick: reading avoids git where possible, and imports the
git modules only if needed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.core.state import RunState
from holdfast.core.status import RUN_IS_OVER
from holdfast.errors import (
    HoldfastError,
    JournalError,
    LeaseHeldError,
    NeedsDecisionError,
    did_you_mean,
    quoted,
)
from holdfast.journal import open_journal, open_reader
from holdfast.journal.lease import Holder, holder
from holdfast.journal.protocol import Journal, JournalReader, RunListing
from holdfast.paths import RunDir, StateDir
from holdfast.repo.state_folder import require_own_state_dir

if TYPE_CHECKING:
    from holdfast.core.projection import RunRow
    from holdfast.repo.repository import Repository

_LISTED_MAX = 6


@dataclass(frozen=True, slots=True)
class ReadOnlyRepo:
    """A repository and its journal, to read. `journal` is None if no run was ever started."""

    checkout: Path
    state_dir: StateDir
    journal: JournalReader | None

    def require_journal(self) -> JournalReader:
        """Return the journal, or raise JournalError because there is nothing to read."""
        if self.journal is None:
            raise no_run_yet()
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

    def holder(self, run: str) -> Holder | None:
        """Return the live runner of a run."""
        return holder(self.directory(run).lease)


@dataclass(frozen=True, slots=True)
class OpenRepo(ReadOnlyRepo):
    """A repository and its journal, to change."""

    journal: Journal
    repo: Repository

    def require_free(self, run: str) -> None:
        """Raise LeaseHeldError if a live runner holds the run."""
        if (held := self.holder(run)) is not None:
            raise LeaseHeldError(
                f"run {run} is held by another runner: {held}",
                f"`holdfast status {run}` shows what it does; `holdfast stop {run}` ends it",
            )


def open_read_only() -> ReadOnlyRepo:
    """Find the repository around the current directory and its journal, read-only."""
    checkout, git_dir = _checkout(Path.cwd())
    state = StateDir.of_checkout(checkout)
    require_own_state_dir(state, git_dir)
    journal = open_reader(state.journal) if state.journal.exists() else None
    return ReadOnlyRepo(checkout, state, journal)


def _checkout(start: Path) -> tuple[Path, Path]:
    """Return the main checkout around a directory, and its git directory. A journal beside `.git` is proof; otherwise ask git."""
    nearest = next((folder for folder in (start, *start.parents) if (folder / ".git").exists()), None)
    if nearest and (nearest / ".git").is_dir() and StateDir.of_checkout(nearest).journal.is_file():
        return nearest, nearest / ".git"
    from holdfast.repo.discovery import find_repository

    found = find_repository(start)
    return found.checkout, found.common_dir


@contextmanager
def open_repo(*, create: bool = False, start: Path | None = None) -> Iterator[OpenRepo]:
    """Open the repository around a directory (default: the current one) and its journal for writing.

    The journal is closed afterwards. Only `create` makes a missing one.
    """
    from holdfast.repo.repository import Repository
    from holdfast.runner.content_filters import with_accepted_filters

    repo = Repository.open(start or Path.cwd())
    repo.require_own_state_dir()
    _require_person(repo.state_dir)
    _ = repo.private_git  # who changes something needs it: say so before anything else
    if create:
        repo.prepare_state_dir()
    elif not repo.state_dir.journal.exists():
        raise no_run_yet()
    journal = open_journal(repo.state_dir.journal)
    try:
        yield OpenRepo(repo.checkout, repo.state_dir, journal, with_accepted_filters(repo, journal))
    finally:
        journal.close()


def _require_person(state_dir: StateDir) -> None:
    """Raise NeedsDecisionError if this process belongs to an attempt at a task of this repository."""
    from holdfast.fleet import open_fleet

    if (agent := open_fleet(state_dir.fleet).launch_of(os.getpid())) is not None:
        raise NeedsDecisionError(
            f"this is the {agent.step} of task {agent.owner} of run {agent.run}: agents decide nothing",
            "`holdfast report` and `holdfast save` are for agents; ask a person for everything else",
        )


def no_run_yet() -> HoldfastError:
    """Return the error for a repository without runs."""
    return JournalError(
        "there is no run in this repository yet",
        "`holdfast run` starts one; if there was one, `holdfast rebuild` restores it from git",
    )


def choose_run(opened: ReadOnlyRepo, named: str | None) -> RunRow:
    """Return the named run, by id, number or name prefix; else the latest unfinished one, or the latest."""
    runs = opened.runs()
    if not runs:
        raise no_run_yet()
    if named is not None:
        return _named(runs, named)
    unfinished = [listing for listing in runs if listing.row.status not in RUN_IS_OVER]
    return (unfinished or runs)[-1].row


def choose_latest_run(opened: ReadOnlyRepo, named: str | None) -> RunRow:
    """Return the named run, else the latest one, finished or not."""
    runs = opened.runs()
    return choose_run(opened, named) if named is not None or not runs else runs[-1].row


def require_task(state: RunState, task: str) -> None:
    """Raise HoldfastError, with the nearest name, unless the run has this task."""
    if task not in state.tasks:
        run = state.row.run
        raise HoldfastError(
            f"run {run} has no task {quoted(task)}{did_you_mean(task, state.names)}",
            f"`holdfast status {run}` lists its tasks",
        )


def _named(runs: Sequence[RunListing], named: str) -> RunRow:
    by_id = {listing.row.run: listing.row for listing in runs}
    if named in by_id:
        return by_id[named]
    found = [row for row in by_id.values() if _matches(row.run, named)]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(row.run for row in found[:_LISTED_MAX])
        raise HoldfastError(f"{quoted(named)} could be {names}", "name one of them, or give its number")
    raise HoldfastError(
        f"there is no run {quoted(named)}{did_you_mean(named, list(by_id))}",
        "`holdfast list` shows every run",
    )


def _matches(run: str, named: str) -> bool:
    number, _, slug = run.partition("-")
    if named.isdecimal():
        return int(number) == int(named)
    return run.startswith(named) or slug.startswith(named)
