"""What becomes of a run branch at the end: it lands on the user's branch, or it is archived."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Literal

from holdfast.core.ids import archived_branch_ref, run_branch, short_name
from holdfast.errors import ExitCode, RepositoryError
from holdfast.repo.checkout_update import CheckoutUpdate
from holdfast.repo.debris import remove_stale_locks
from holdfast.repo.landed_results import RunTip, holds_result, keep_landed, merge_onto
from holdfast.repo.landing import Conflicted, commit_merge, merge, move_branch
from holdfast.repo.landing_lock import landing_lock
from holdfast.repo.linear_history import rebase, squash
from holdfast.repo.repository import Repository
from holdfast.repo.worktrees import checked_out_at, linked_git_dirs


class LandingMethod(StrEnum):
    """How the commits of a run branch get into a branch of the user: merged, as one commit, or one per task."""

    MERGE = "merge"
    SQUASH = "squash"
    REBASE = "rebase"


@dataclass(frozen=True, slots=True)
class LandedRun:
    """How a commit got into a branch, and the commit that the branch is on now."""

    kind: Literal["fast-forward", "merge", "squash", "rebase", "already there"]
    commit: str


class LandingConflictError(RepositoryError):
    """A branch of the user and a run changed the same lines. `onto` is the branch's commit, `files` are in conflict."""

    exit_code = ExitCode.NEEDS_DECISION

    def __init__(self, branch: str, onto: str, commit: str, files: Sequence[str]) -> None:
        hint = f"Merge by hand: `git switch {branch}`, then `git merge {commit[:12]}`."
        super().__init__(f"{branch} and the run changed the same lines of {', '.join(files)}.", hint)
        self.onto = onto
        self.files = tuple(files)


def land_on_branch(
    repo: Repository,
    commit: str,
    target_branch: str,
    message: str,
    method: LandingMethod = LandingMethod.MERGE,
    results: Sequence[RunTip] = (),
) -> LandedRun:
    """Bring `commit` into a branch of the user. Merging is by fast-forward if possible, else by a merge commit.

    Where the branch is checked out, git itself updates the files, and refuses if that would overwrite local changes
    or files of the user, ignored ones too. `results` are the runs whose results `commit` holds, the one in question first:
    a squashed or rebased one is recorded before the branch moves. Idempotent: a second call completes what was cut
    short, or says "already there". Raises LandingConflictError, with nothing changed, and LeaseHeldError if another
    landing in this repository does not end.
    """
    with landing_lock(repo):
        return _land(repo, commit, target_branch, message, method, results)


def _land(
    repo: Repository,
    commit: str,
    target_branch: str,
    message: str,
    method: LandingMethod,
    results: Sequence[RunTip],
) -> LandedRun:
    tip = _prepare_branch(repo, target_branch)
    if repo.is_ancestor(commit, tip) or (results and holds_result(repo, results[0], tip)):
        repo.ref_updates.sync(f"refs/heads/{target_branch}")
        return LandedRun("already there", tip)
    if method is LandingMethod.MERGE and repo.is_ancestor(tip, commit):
        _move(repo, target_branch, commit, tip)
        return LandedRun("fast-forward", commit)
    new = _made(repo, commit, tip, message, method, results)
    if isinstance(new, Conflicted):
        raise LandingConflictError(target_branch, tip, commit, new.files)
    if method is not LandingMethod.MERGE:
        keep_landed(repo, results, new)
    if new == tip:
        return LandedRun("already there", tip)
    _move(repo, target_branch, new, tip)
    return LandedRun(method.value, new)


def _prepare_branch(repo: Repository, branch: str) -> str:
    """Complete what a killed landing left of a branch, and return its commit. Raises RepositoryError if there is none."""
    remove_stale_locks(repo)
    if update := _update_of(repo, branch):
        update.complete()
    return require_branch(repo, branch)


def require_removable_branch(repo: Repository, run: str) -> None:
    """Raise RepositoryError if a run's branch is checked out somewhere, so that git would not let it go."""
    name = short_name(run_branch(run))
    if place := checked_out_at(repo, name):
        raise RepositoryError(f"{name} is checked out in {place}.", "Switch to another branch there first.")


def require_branch(repo: Repository, branch: str) -> str:
    """Return the commit of a branch of the user. Raises RepositoryError if there is none."""
    ref = f"refs/heads/{branch}"
    if (
        repo.git.try_run("check-ref-format", ref).rc != 0
    ):  # git would look for a commit by it, such as `main~1`
        raise RepositoryError(
            f"{branch!r} is not the name of a branch.", "Name a branch; `git branch --list` names yours."
        )
    if tip := repo.read_ref(ref):
        return tip
    raise RepositoryError(f"There is no branch {branch!r}.", f"Create it: `git branch {branch} BASE`.")


def discard_run(repo: Repository, run: str) -> str:
    """Delete a run's branch after keeping its tip under an archive ref, which is returned.

    Returns an empty string if there is no such branch any more.
    """
    ref = run_branch(run)
    tip = repo.read_ref(ref)
    if not tip:
        return ""
    require_removable_branch(repo, run)
    kept = archived_branch_ref(run, tip)
    repo.keep(kept, tip)
    repo.ref_updates.delete({ref: tip})
    return kept


def _made(
    repo: Repository,
    commit: str,
    tip: str,
    message: str,
    method: LandingMethod,
    results: Sequence[RunTip],
) -> str | Conflicted:
    """Return the commit that the branch moves to; the objects are there, and no ref has moved."""
    onto = merge_onto(repo, tip, commit, results)
    if method is LandingMethod.SQUASH:
        return squash(repo, onto, tip, commit, message)
    if method is LandingMethod.REBASE:
        return rebase(repo, onto, tip, commit, results[0])
    merged = merge(repo, onto, commit)
    return merged if isinstance(merged, Conflicted) else commit_merge(repo, merged, tip, commit, message)


def _move(repo: Repository, branch: str, new: str, tip: str) -> None:
    if update := _update_of(repo, branch):
        update.fast_forward(branch, new, tip)
    elif not move_branch(repo, f"refs/heads/{branch}", new, tip):
        raise RepositoryError(f"refs/heads/{branch} moved in the meantime.", "Run the command again.")


def _update_of(repo: Repository, branch: str) -> CheckoutUpdate | None:
    """Return how a branch is moved where it is checked out; None if that is nowhere."""
    place = checked_out_at(repo, branch)
    return None if place is None else CheckoutUpdate(repo, place, _git_dir_of(repo, place))


def _git_dir_of(repo: Repository, place: Path) -> Path:
    git_dir = {**dict(linked_git_dirs(repo)), repo.checkout: repo.common_dir}.get(place)
    if git_dir is not None:
        return git_dir
    raise RepositoryError(f"The worktree {place} is not known to git.", "Run `git worktree repair` there.")
