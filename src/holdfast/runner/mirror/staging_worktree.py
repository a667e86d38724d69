"""The staging worktree of a mirrored run: its build so far, where the other system would have it.

It is an extra: an obstacle is reported once, and neither the run nor its native files wait for it.
"""

from __future__ import annotations

from pathlib import Path

from holdfast.core import events as ev
from holdfast.core.projection import RunRow
from holdfast.errors import HoldfastError, LeaseHeldError
from holdfast.formats.model import format_of
from holdfast.formats.registry import System
from holdfast.journal.lease import Lease
from holdfast.repo.files import remove, write_atomically
from holdfast.repo.repository import Repository
from holdfast.repo.staging_worktree import StagingWorktree
from holdfast.runner.effect_errors import error_text
from holdfast.runner.mirror.renderer import foreign_name


def staging_path(repo: Repository, row: RunRow) -> Path | None:
    """Return where the staging worktree of a run is: of a system that has one and is mirrored at its own place."""
    system = _staged_system(row)
    return _path(repo, row, system) if system else None


def _staged_system(row: RunRow) -> System | None:
    at_home = (system for system in System if row.mirrors.get(system) == "")
    return next((system for system in at_home if format_of(system).staging_worktree), None)


def _path(repo: Repository, row: RunRow, system: System) -> Path | None:
    place = format_of(system).staging_worktree
    return repo.checkout / place(foreign_name(row, system)) if place else None


def update_staging_worktree(repo: Repository, row: RunRow) -> list[ev.MirrorFailed]:
    """Have the staging worktree, if the run has one, show the tip of the run branch.

    Returns the obstacle, if it is new. Idempotent. The caller holds the run's lease.
    """
    system = _staged_system(row)
    if system is None:
        return []
    notice = repo.state_dir.run(row.run).staging_notice
    try:
        _show(repo, row)
    except Exception as error:  # noqa: BLE001 - an extra must not end a run
        problem = error_text(error)
    else:
        remove(notice)
        return []
    if staging_problem(repo, row) == problem:
        return []
    notice.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(notice, problem.encode("utf-8", "surrogateescape"))
    return [ev.MirrorFailed(system=system, error=problem)]


def staging_problem(repo: Repository, row: RunRow) -> str:
    """Return why the staging worktree does not show the build, or nothing if it does."""
    try:
        return repo.state_dir.run(row.run).staging_notice.read_text("utf-8", "surrogateescape")
    except FileNotFoundError:
        return ""


def remove_staging(repo: Repository, row: RunRow) -> str:
    """Remove the staging worktree of a landed or discarded run; return a sentence if it must stay, to follow another.

    It is no problem if it is gone or not ours. While a runner holds the run, it stays. The run may no longer be mirrored,
    so every system that has such a folder is asked.
    """
    try:
        with Lease.acquire(repo.state_dir.run(row.run).lease):
            for system in System:
                if path := _path(repo, row, system):
                    StagingWorktree(repo, path).remove()
    except LeaseHeldError:
        return ""
    except HoldfastError as error:
        return f" {error.message}; {error.hint}."
    return ""


def _show(repo: Repository, row: RunRow) -> None:
    place = staging_path(repo, row)
    if place is None:
        return
    # It is a repository inside the user's: `git add` must not add it.
    repo.hide(place.parent.parent.relative_to(repo.checkout).as_posix())
    StagingWorktree(repo, place).show(repo.read_ref(row.branch) or row.base)
