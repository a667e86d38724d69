"""The staging worktree of a run that is mirrored as Auto-Claude: its build so far, where Auto-Claude would have it.

It is an extra: whatever stands in its way is said once, and neither the run nor its native files wait for it.
"""

from __future__ import annotations

from pathlib import Path

from holdfast.core.projection import RunRow
from holdfast.errors import HoldfastError, LeaseHeldError
from holdfast.formats.model import System
from holdfast.journal.lease import Lease
from holdfast.repo.files import remove, write_atomically
from holdfast.repo.repository import Repository
from holdfast.repo.staging_worktree import StagingWorktree
from holdfast.runner.mirror.renderer import foreign_name


def has_staging_worktree(row: RunRow) -> bool:
    """Tell whether a run has a staging worktree: one that is mirrored as Auto-Claude, at its own place."""
    return row.mirrors.get(System.AUTO_CLAUDE) == ""


def staging_path(repo: Repository, row: RunRow) -> Path:
    """Return where the staging worktree of a run belongs."""
    from holdfast.formats.auto_claude import layout

    return repo.checkout / layout.worktrees(layout.native_name(foreign_name(row, System.AUTO_CLAUDE)))[0]


def update_staging_worktree(repo: Repository, row: RunRow) -> str:
    """Have the staging worktree show the tip of the run branch; return what stands in the way, if it is new.

    Shown already, nothing happens. The caller holds the run's lease.
    """
    notice = repo.state.run(row.run).staging_notice
    try:
        _show(repo, row)
    except HoldfastError as error:
        trouble = error.message
    except Exception as error:  # noqa: BLE001 - an extra must not end a run
        trouble = f"{type(error).__name__}: {error}"
    else:
        remove(notice)
        return ""
    if staging_problem(repo, row) == trouble:
        return ""
    notice.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(notice, trouble.encode("utf-8", "surrogateescape"))
    return trouble


def staging_problem(repo: Repository, row: RunRow) -> str:
    """Return why the staging worktree does not show the build, or nothing if it does."""
    try:
        return repo.state.run(row.run).staging_notice.read_text("utf-8", "surrogateescape")
    except FileNotFoundError:
        return ""


def remove_staging_worktree(repo: Repository, row: RunRow) -> str:
    """Remove the staging worktree of a run that was landed or put away; return what keeps it, or nothing.

    One that is gone, or not ours, is no trouble; of a run that somebody carries on it stays.
    """
    try:
        lease = Lease.acquire(repo.state.run(row.run).lease)
    except LeaseHeldError:
        return ""
    try:
        StagingWorktree(repo, staging_path(repo, row)).remove()
    except HoldfastError as error:
        return f"{error.message}; {error.hint}"
    finally:
        lease.release()
    return ""


def _show(repo: Repository, row: RunRow) -> None:
    place = staging_path(repo, row)
    # It is a repository within the user's: `git add` must not take it for a part of theirs.
    repo.hide(place.parent.parent.relative_to(repo.checkout).as_posix())
    StagingWorktree(repo, place).show(repo.read_ref(row.branch) or row.base)
