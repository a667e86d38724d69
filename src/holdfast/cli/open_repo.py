"""Opens the repository and its journal to change them, and chooses the run or the task that a command names.

Reading is in `views/read_only_repo.py`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.core.state import RunState
from holdfast.core.status import RUN_IS_OVER
from holdfast.errors import (
    HoldfastError,
    LeaseHeldError,
    NeedsDecisionError,
    did_you_mean,
    nearest,
    quoted,
)
from holdfast.journal import open_journal, open_reader
from holdfast.journal.lease import Holder, holder
from holdfast.journal.protocol import Journal, RunListing, StoredRun
from holdfast.paths import StateDir
from holdfast.runner.store_choice import (
    Store,
    chosen_store,
    is_unknown_here,
    remember_store,
    require_only_store,
    require_same_repository,
)
from holdfast.views.read_only_repo import ReadOnlyRepo, no_run_yet

if TYPE_CHECKING:
    from holdfast.core.projection import RunRow
    from holdfast.repo.repository import Repository

_LISTED_MAX = 6


@dataclass(frozen=True, slots=True)
class OpenRepo(ReadOnlyRepo):
    """A repository and its journal, to change."""

    journal: Journal
    repo: Repository

    def holder(self, run: str) -> Holder | None:
        """Return the live runner of a run on this machine. Raises LeaseHeldError if one elsewhere has it: it cannot be asked."""
        held = ReadOnlyRepo.holder(self, run)
        if held is not None and holder(self.directory(run).lease) is None:
            raise LeaseHeldError(
                f"run {run} is held by another runner: {held}",
                "give the command there, or stop it there first",
            )
        return held

    def require_free(self, run: str, first_hint: str = "") -> None:
        """Raise LeaseHeldError if a live runner holds the run. `first_hint` comes before what is hinted at anyway."""
        if (held := self.holder(run)) is not None:
            raise LeaseHeldError(
                f"run {run} is held by another runner: {held}",
                f"{first_hint}`holdfast status {run} -f` follows it; `holdfast stop {run}` ends it",
            )


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
    store = chosen_store(repo.state_dir, repo.id)
    if create:
        require_only_store(repo.state_dir, store, has_runs=_has_runs)
        repo.prepare_state_dir()
    elif isinstance(store, Path) and not store.exists():
        raise no_run_yet()
    journal = open_journal(store)
    try:
        if not isinstance(store, Path):
            require_same_repository(repo, journal)
        if not create:
            _join(repo, store, journal)
        elif remember_store(repo.state_dir, store) and journal.durability is not None:
            print(f"Runs are kept in {store}. {journal.durability.sentence}", file=sys.stderr)
        yield OpenRepo(repo.checkout, repo.state_dir, journal, with_accepted_filters(repo, journal))
    finally:
        journal.close()


def _has_runs(journal: Path) -> bool:
    """Tell whether a journal has a run."""
    return bool(open_reader(journal).runs())


def _join(repo: Repository, store: Store, journal: Journal) -> None:
    """Let a clone remember the store in which the runs of its repository are, as the clone does where they began."""
    if is_unknown_here(repo.state_dir, store) and journal.runs():
        repo.prepare_state_dir()
        remember_store(repo.state_dir, store)


def _require_person(state_dir: StateDir) -> None:
    """Raise NeedsDecisionError if this process belongs to an attempt at a task of this repository."""
    from holdfast.fleet import open_fleet

    if (agent := open_fleet(state_dir.fleet).launch_of(os.getpid())) is not None:
        raise NeedsDecisionError(
            f"this is the {agent.step} of task {agent.owner} of run {agent.run}: agents decide nothing",
            "`holdfast report` and `holdfast save` are for agents; ask a person for everything else",
        )


def choose_run(opened: ReadOnlyRepo, named: str | None) -> RunRow:
    """Return the named run, by id, number or name prefix; else the latest unfinished one, or the latest."""
    runs = opened.runs()
    if not runs:
        raise opened.no_run_yet()
    if named is not None:
        return _named(opened, runs, named)
    unfinished = [listing for listing in runs if listing.row.status not in RUN_IS_OVER]
    return (unfinished or runs)[-1].row


def choose_latest_run(opened: ReadOnlyRepo, named: str | None) -> RunRow:
    """Return the named run, else the latest one, finished or not."""
    runs = opened.runs()
    return choose_run(opened, named) if named is not None or not runs else runs[-1].row


def choose_last_written_run(opened: ReadOnlyRepo, named: str | None) -> RunRow:
    """Return the named run, else the one in which something happened last: for who only looks."""
    runs = opened.runs()
    if named is not None or not runs:
        return choose_run(opened, named)
    return max(runs, key=lambda listing: listing.updated_at).row


def choose_task(opened: ReadOnlyRepo, run: str | None, task: str) -> tuple[StoredRun, str]:
    """Return a run and the id of one of its tasks. The task may be named by the beginning of its id.

    Without a run, it is the latest that has the task, unfinished ones first.
    """
    if run is None:
        run = run_with_task(opened, task)
        if run is None and names_a_run(opened, task):
            raise HoldfastError(
                f"{task} is a run: name a task of it, too", f"`holdfast status {task}` lists its tasks"
            )
    elif not names_a_run(opened, run) and names_a_run(opened, task):
        raise HoldfastError(f"there is no run {quoted(run)}", f"RUN comes before TASK: `{task} {run}`")
    stored = opened.require_journal().load(choose_run(opened, run).run)
    return stored, find_task(stored.state(), task)


def choose_run_or_task(
    opened: ReadOnlyRepo, run: str | None, task: str | None, *, latest: bool = False
) -> tuple[StoredRun, str | None]:
    """Return a run and, if one is named, a task of it. One word alone names whichever it fits.

    An exact name counts for more than a beginning, and a run for more than a task. `latest`: without a word, the latest run,
    finished or not; else the latest unfinished one.
    """
    if task is None and run is not None and not _is_exactly_a_run(opened, run):
        owner = run_with_task(opened, run, exact=True) or (
            None if names_a_run(opened, run) else run_with_task(opened, run)
        )
        if owner is None and not names_a_run(opened, run):
            raise _neither_run_nor_task(opened, run)
        run, task = (run, None) if owner is None else (owner, run)
    if task is not None:
        return choose_task(opened, run, task)
    chosen = choose_latest_run(opened, run) if latest else choose_run(opened, run)
    return opened.require_journal().load(chosen.run), None


def _neither_run_nor_task(opened: ReadOnlyRepo, word: str) -> HoldfastError:
    """Return the error for a word that may name either, with the nearest names of both."""
    runs = [row.run for row in _rows(opened)]
    if not runs:
        return opened.no_run_yet()
    latest = opened.require_journal().load(choose_run(opened, None).run)
    tasks = [task.id for _, task in latest.plan.tasks()]
    slugs = {run.partition("-")[2]: run for run in runs}
    guess = nearest(word, [*tasks, *runs, *slugs])
    listed = f"tasks of run {latest.row.run}: {_listed(tasks)}; runs: {_listed(runs[::-1])}"
    found = f"did you mean {quoted(slugs.get(guess, guess))}?" if guess else listed
    return HoldfastError(
        f"there is no run or task {quoted(word)}; {found}",
        f"`holdfast list` shows every run, `holdfast status {latest.row.run}` the tasks of one",
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_LISTED_MAX]) + (", …" if len(names) > _LISTED_MAX else "")


def find_task(state: RunState, named: str) -> str:
    """Return the id of the task with this id, or whose id alone begins so. Raises HoldfastError, with the nearest name."""
    found = [named] if named in state.tasks else [name for name in state.names if name.startswith(named)]
    if len(found) == 1:
        return found[0]
    run = state.row.run
    if found:
        names = ", ".join(found[:_LISTED_MAX])
        raise HoldfastError(f"{quoted(named)} could be {names}", "name one of them")
    raise HoldfastError(
        f"run {run} has no task {quoted(named)}{did_you_mean(named, state.names)}",
        f"`holdfast status {run}` lists its tasks",
    )


def run_with_task(opened: ReadOnlyRepo, task: str, *, exact: bool = False) -> str | None:
    """Return the latest run that has a task of this name, unfinished ones first; None if none has."""
    journal = opened.require_journal()
    runs = [listing.row for listing in opened.runs()][::-1]
    runs.sort(key=lambda row: row.status in RUN_IS_OVER)
    for row in runs:
        names = [name.id for _, name in journal.load(row.run).plan.tasks()]
        if task in names or (not exact and any(name.startswith(task) for name in names)):
            return row.run
    return None


def _is_exactly_a_run(opened: ReadOnlyRepo, word: str) -> bool:
    return any(row.run == word or (word.isdecimal() and _matches(row.run, word)) for row in _rows(opened))


def names_a_run(opened: ReadOnlyRepo, word: str) -> bool:
    """Tell whether a word is the id, the number or the beginning of the name of a run."""
    return any(_matches(row.run, word) for row in _rows(opened))


def _rows(opened: ReadOnlyRepo) -> list[RunRow]:
    return [listing.row for listing in opened.runs()]


def _named(opened: ReadOnlyRepo, runs: Sequence[RunListing], named: str) -> RunRow:
    by_id = {listing.row.run: listing.row for listing in runs}
    if named in by_id:
        return by_id[named]
    found = [row for row in by_id.values() if _matches(row.run, named)]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(row.run for row in found[:_LISTED_MAX])
        raise HoldfastError(f"{quoted(named)} could be {names}", "name one of them, or give its number")
    hint = "`holdfast list` shows every run"
    if owner := run_with_task(opened, named, exact=True):
        hint = f"{named} is a task of run {owner}: `holdfast inspect {owner} {named}` shows it; {hint}"
    raise HoldfastError(f"there is no run {quoted(named)}{did_you_mean(named, list(by_id))}", hint)


def _matches(run: str, named: str) -> bool:
    number, _, slug = run.partition("-")
    if named.isdecimal():
        return int(number) == int(named)
    return run.startswith(named) or slug.startswith(named)
