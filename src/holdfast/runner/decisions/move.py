"""`move`, `backup` and `restore`: runs go from one store to another, whole and compared, or stay where they are.

A run is removed where it was only after the other store has all of it. A crash leaves it in the first store, or in both;
the same command completes it. What is in git, workspaces and logs does not move.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import msgspec

from holdfast.agents.consent import consent_digest
from holdfast.agents.presets import Presets
from holdfast.errors import HoldfastError
from holdfast.journal import open_journal, open_reader
from holdfast.journal.lease import Lease, making_runs
from holdfast.journal.protocol import Journal, JournalReader
from holdfast.journal.transfer import copy_run
from holdfast.repo.repository import Repository
from holdfast.runner.store_choice import Store, remember_store, require_same_repository


class MovedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that is in another store now."""

    run: str
    events: int


def move_runs(
    repo: Repository, source: Store, target: Store, runs: Sequence[str], presets: Presets
) -> list[MovedRun]:
    """Move runs to another store. If no run stays behind, the repository uses that store from now on.

    Raises LeaseHeldError, with nothing moved, if one of them is held. Safe to repeat after a crash.
    """
    if str(source) == str(target):
        raise HoldfastError(f"the runs are in {source} already", "name another store with --to")
    with (
        _all_held(repo, runs) as leases,
        closing(open_journal(source)) as old,
        closing(open_journal(target)) as new,
    ):
        require_same_repository(repo, new)
        moved = [_move(old, new, run, leases[run], presets) for run in runs]
        if not old.runs():
            remember_store(repo.state_dir, target)
    return moved


def restore_runs(repo: Repository, backup: Path, store: Store) -> list[MovedRun]:
    """Bring back from a backup what the store does not have; return the runs of which something was missing.

    What the store has more of stays as it is. Raises NeedsDecisionError if the two contradict each other.
    """
    if not backup.is_file():
        raise HoldfastError(f"there is no file {backup}", "`holdfast backup FILE` writes one")
    repo.prepare_state_dir()
    with closing(open_reader(backup)) as kept, closing(open_journal(store)) as journal:
        require_same_repository(repo, journal)
        there = {listing.row.run: listing for listing in journal.runs()}
        lacking = [
            listing.row.run
            for listing in kept.runs()
            if listing.row.run not in there or there[listing.row.run].last_seq < listing.last_seq
        ]
        with _all_held(repo, lacking) as leases:
            restored = [
                MovedRun(run=run, events=copy_run(kept, journal, run, leases[run].holder)) for run in lacking
            ]
        remember_store(repo.state_dir, store)
    return restored


@contextmanager
def _all_held(repo: Repository, runs: Sequence[str]) -> Iterator[dict[str, Lease]]:
    """Keep others from making runs, and from these runs."""
    with ExitStack() as held:
        held.enter_context(making_runs(repo.state_dir.runs_lock))
        yield {run: held.enter_context(Lease.acquire(repo.state_dir.run(run).lease)) for run in runs}


def _move(source: Journal, target: Journal, run: str, lease: Lease, presets: Presets) -> MovedRun:
    """Copy a run, then forget it where it was. From the first step on, no runner elsewhere can write it there."""
    epoch = source.take_epoch(run, lease.holder)
    events = copy_run(source, target, run, lease.holder)
    _copy_consents(source, target, run, presets)
    source.remove_run(run, epoch)
    return MovedRun(run=run, events=events)


def _copy_consents(source: JournalReader, target: Journal, run: str, presets: Presets) -> None:
    """Take along that the user agreed to the commands of a run, so that nobody is asked twice."""
    stored = source.load(run)
    for digest in {stored.row.plan_hash, consent_digest(stored.plan, presets)}:
        if source.is_confirmed(digest):
            target.confirm_plan(digest, stored.updated_at)
