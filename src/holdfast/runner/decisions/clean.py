"""`clean`: removes what a finished run still occupies. Its branch, its landed commits and its outputs stay.

Only the user starts this, and only for a run that is over. Safe to repeat after a crash.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from holdfast.core import ids
from holdfast.core.status import RUN_IS_OVER
from holdfast.errors import HoldfastError, LeaseHeldError
from holdfast.fleet import open_fleet
from holdfast.journal.lease import Lease
from holdfast.journal.protocol import Journal, JournalReader
from holdfast.paths import RunDir
from holdfast.repo.debris import remove_workspaces, uncommitted_folders, uncommitted_folders_of_people
from holdfast.repo.files import is_plain_directory, remove, remove_if_allowed, write_durably
from holdfast.repo.refs import run_refs
from holdfast.repo.repository import Repository


@dataclass(frozen=True, slots=True)
class RunSize:
    """What a run occupies: bytes of its folders, and private refs that would go."""

    size: int
    refs: int


def run_size(repo: Repository, run: str) -> RunSize:
    """Return what cleaning a run would free. Changes nothing."""
    directory = repo.state_dir.run(run)
    size = sum(_sizes(directory.root)) + sum(_sizes(directory.workspaces))
    return RunSize(size, len(_disposable(repo, run)))


def clean_run(repo: Repository, journal: Journal, run: str, outputs: Mapping[str, str]) -> None:
    """Write a run's outputs, then remove its folders, its private refs and its rows, in this order.

    What another user owns stays: `undeletable_folders` names it. So does what a person wrote and no commit has. Raises HoldfastError if the run is not over, LeaseHeldError if another process holds it.
    """
    directory = repo.state_dir.run(run)
    with Lease.acquire(directory.lease) as lease:
        stored = journal.load(run)
        if (status := stored.row.status) not in RUN_IS_OVER:
            raise HoldfastError(f"run {run} is {status}", f"`holdfast abandon {run}` ends it first")
        _write(repo.state_dir.outputs(run), outputs)
        theirs = uncommitted_folders_of_people(repo, run)
        for path in uncommitted_folders(repo, run):
            if path not in theirs:
                remove_if_allowed(path)
        remove_workspaces(repo, run, stored.plan.workspace)
        _empty(directory)
        repo.ref_updates.delete(_disposable(repo, run))
        journal.remove_run(run, journal.take_epoch(run, lease.holder))
        lease.remove()


def remove_forgotten_folders(repo: Repository, journal: JournalReader) -> None:
    """Remove the folders of runs that a killed `clean` had already forgotten: neither journal nor git knows them.

    Those of planners are among them. One that works has its lease, or a planner that outlived its command: it stays.
    """
    for run in repo.state_dir.runs():
        if _is_forgotten(repo, journal, run):
            with suppress(LeaseHeldError, PermissionError):  # at work, or another user's
                _remove_forgotten(repo, journal, run)


def _remove_forgotten(repo: Repository, journal: JournalReader, run: str) -> None:
    """Remove the folder of a forgotten run. Raises LeaseHeldError if somebody works in it."""
    directory = repo.state_dir.run(run)
    if not is_plain_directory(directory.root):
        remove(directory.root)
        return
    with Lease.acquire(directory.lease) as lease, closing(open_fleet(repo.state_dir.fleet)) as fleet:
        # Its command may have begun and ended since we looked, or a run of this name was made.
        if _is_forgotten(repo, journal, run) and not fleet.live_launches(run):
            _empty(directory)
            lease.remove()


def _is_forgotten(repo: Repository, journal: JournalReader, run: str) -> bool:
    """Tell whether neither journal nor git knows a run. A new run is in the journal before it has a folder."""
    return all(listing.row.run != run for listing in journal.runs()) and not run_refs(repo, run)


def _empty(directory: RunDir) -> None:
    """Remove what is in the folder of a run, as far as we may, except its lease."""
    for path in directory.root.iterdir():
        if path != directory.lease:
            remove_if_allowed(path)


def _disposable(repo: Repository, run: str) -> dict[str, str]:
    """Return the private refs that may go. What a person made and has not landed stays, and the archive ref of a discarded run: nothing else is left."""
    refs = run_refs(repo, run)
    branch = repo.read_ref(ids.run_branch(run))
    archived = (
        {} if branch else {ref: commit for ref, commit in refs.items() if _is_archived_branch(run, ref)}
    )
    lasting = [branch] if branch else list(archived.values())
    return {
        ref: commit
        for ref, commit in refs.items()
        if ref not in archived and (not ids.is_taken_ref(ref) or _has_landed(repo, ref, commit, lasting))
    }


def _is_archived_branch(run: str, ref: str) -> bool:
    return ref.startswith(ids.archive_ref(run, "branch-")) and not ids.is_taken_ref(ref)


def _has_landed(repo: Repository, ref: str, commit: str, tips: Collection[str]) -> bool:
    """Tell whether the commit of a person, which this ref keeps, is in the result. Other refs of a person hold more in their logs."""
    return ids.is_taken_commit_ref(ref, commit) and any(repo.is_ancestor(commit, tip) for tip in tips)


def _write(folder: Path, outputs: Mapping[str, str]) -> None:
    if not is_plain_directory(folder):
        remove(folder)  # a link: what is behind it is not ours to overwrite
    for name, text in outputs.items():
        write_durably(folder / name, text.encode())


def _sizes(folder: Path) -> Iterator[int]:
    """Yield the size of each file, but not of those that we may not look at, or that go meanwhile."""
    for where, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                yield Path(where, name).lstat().st_size
