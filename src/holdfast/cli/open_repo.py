"""Finding the repository, its journal, and the run that is meant. Looking changes nothing on disk.

Looking starts no git where it can be helped, and what only git needs is imported when it is: `status` must be quick.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.core.status import RUN_IS_OVER
from holdfast.errors import HoldfastError, JournalError, did_you_mean, quoted
from holdfast.journal.lease import Holder, holder
from holdfast.journal.protocol import JournalReader, RunListing
from holdfast.journal.sqlite import SqliteJournal
from holdfast.paths import RunDir, StateDir

if TYPE_CHECKING:
    from holdfast.repo.repository import Repository

_SHOWN = 6


@dataclass(frozen=True, slots=True)
class ReadOnlyRepo:
    """A repository's runs, for looking at. `journal` is None where no run was ever started."""

    checkout: Path
    state: StateDir
    journal: JournalReader | None

    def require_journal(self) -> JournalReader:
        """Return the journal, or say that there is nothing to look at."""
        if self.journal is None:
            raise no_run_yet()
        return self.journal

    def holder(self, run: str) -> Holder | None:
        """Return who carries a run on at this moment."""
        return holder(self.state.run(run).lease)


@dataclass(frozen=True, slots=True)
class OpenRepo:
    """A repository and its journal, for working with."""

    repo: Repository
    journal: SqliteJournal

    def directory(self, run: str) -> RunDir:
        """Return where a run's files are."""
        return self.repo.state.run(run)

    def holder(self, run: str) -> Holder | None:
        """Return who carries a run on at this moment."""
        return holder(self.directory(run).lease)


def open_read_only() -> ReadOnlyRepo:
    """Find the repository around the current directory and its journal, read-only."""
    checkout = _checkout(Path.cwd())
    state = StateDir.of_checkout(checkout)
    journal = SqliteJournal.open_read_only(state.journal) if state.journal.exists() else None
    return ReadOnlyRepo(checkout, state, journal)


def _checkout(start: Path) -> Path:
    """Return the main checkout around a directory. A journal beside `.git` is proof enough; else git is asked."""
    nearest = next((folder for folder in (start, *start.parents) if (folder / ".git").exists()), None)
    if nearest and (nearest / ".git").is_dir() and StateDir.of_checkout(nearest).journal.is_file():
        return nearest
    from holdfast.repo.discovery import find_repository

    return find_repository(start).checkout


@contextmanager
def open_repo(*, create: bool = False, start: Path | None = None) -> Iterator[OpenRepo]:
    """Open the repository around a directory, the current one, and its journal for writing, and close it after.

    Only `create` makes a journal where there is none.
    """
    from holdfast.repo.repository import Repository

    repo = Repository.open(start or Path.cwd())
    if create:
        repo.require_own_state_dir()
        repo.hide_state_dir()
    elif not repo.state.journal.exists():
        raise no_run_yet()
    journal = SqliteJournal.open(repo.state.journal)
    try:
        yield OpenRepo(repo, journal)
    finally:
        journal.close()


def no_run_yet() -> HoldfastError:
    """Return the error for a repository without runs."""
    return JournalError(
        "there is no run in this repository yet",
        "`holdfast run` starts one; if there was one, `holdfast rebuild` restores it from git",
    )


def choose_run(runs: Sequence[RunListing], wanted: str | None) -> RunListing:
    """Return the run that is meant: by id, number or beginning of its name; else the latest unfinished, or the latest."""
    if not runs:
        raise no_run_yet()
    if wanted is None:
        unfinished = [listing for listing in runs if listing.row.status not in RUN_IS_OVER]
        return (unfinished or runs)[-1]
    return _named(runs, wanted)


def choose_latest_run(runs: Sequence[RunListing], wanted: str | None) -> RunListing:
    """Return the run that is meant, or without a word the newest, finished or not."""
    return choose_run(runs, wanted) if wanted is not None or not runs else runs[-1]


def _named(runs: Sequence[RunListing], wanted: str) -> RunListing:
    by_id = {listing.row.run: listing for listing in runs}
    if wanted in by_id:
        return by_id[wanted]
    found = [listing for name, listing in by_id.items() if _matches(name, wanted)]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(listing.row.run for listing in found[:_SHOWN])
        raise HoldfastError(f"{quoted(wanted)} could be {names}", "name one of them, or give its number")
    raise HoldfastError(
        f"there is no run {quoted(wanted)}{did_you_mean(wanted, list(by_id))}",
        "`holdfast list` shows the runs there are",
    )


def _matches(run: str, wanted: str) -> bool:
    number, _, slug = run.partition("-")
    if wanted.isdecimal():
        return int(number) == int(wanted)
    return run.startswith(wanted) or slug.startswith(wanted)
