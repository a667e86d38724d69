"""What becomes of a run branch at the end: it lands on the user's branch, or it is archived."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from holdfast.core.ids import archive_ref, run_branch
from holdfast.errors import RepositoryError
from holdfast.repo.checkout_update import CheckoutUpdate
from holdfast.repo.debris import remove_stale_locks
from holdfast.repo.landing import Conflicted, commit_merge, merge, move_branch
from holdfast.repo.repository import Repository
from holdfast.repo.worktrees import checked_out_at, linked_git_dirs


@dataclass(frozen=True, slots=True)
class LandedRun:
    """How a commit got into a branch, and the commit that the branch is on now."""

    kind: Literal["fast-forward", "merge", "already there"]
    commit: str


def land_on_branch(repo: Repository, commit: str, target_branch: str, message: str) -> LandedRun:
    """Bring `commit` into a branch of the user, by fast-forward if possible, else by a merge commit.

    Where the branch is checked out, git itself updates the files, and refuses if that would overwrite local changes
    or files of the user, ignored ones too. Idempotent: a second call completes what was cut short, or says
    "already there".
    """
    remove_stale_locks(repo)
    if update := _update_of(repo, target_branch):
        update.complete()
    tip = repo.read_ref(f"refs/heads/{target_branch}")
    if not tip:
        raise RepositoryError(
            f"There is no branch {target_branch!r}.", f"Create it: `git branch {target_branch} BASE`."
        )
    if repo.is_ancestor(commit, tip):
        repo.ref_updates.sync(f"refs/heads/{target_branch}")
        return LandedRun("already there", tip)
    forward = repo.is_ancestor(tip, commit)
    new = commit if forward else _merge_commit(repo, tip, commit, target_branch, message)
    _move(repo, target_branch, new, tip)
    return LandedRun("fast-forward" if forward else "merge", new)


def discard_run(repo: Repository, run: str) -> str:
    """Delete a run's branch after keeping its tip under an archive ref, which is returned.

    Returns an empty string if there is no such branch any more.
    """
    ref = run_branch(run)
    tip = repo.read_ref(ref)
    if not tip:
        return ""
    name = ref.removeprefix("refs/heads/")
    if place := checked_out_at(repo, name):
        raise RepositoryError(f"{name} is checked out in {place}.", "Switch to another branch there first.")
    kept = archive_ref(run, f"branch-{tip[:12]}")
    repo.keep(kept, tip)
    repo.ref_updates.delete({ref: tip})
    return kept


def _merge_commit(repo: Repository, tip: str, commit: str, target_branch: str, message: str) -> str:
    merged = merge(repo, tip, commit)
    if isinstance(merged, Conflicted):
        files = ", ".join(merged.files)
        hint = f"Merge by hand: `git switch {target_branch}`, then `git merge {commit[:12]}`."
        raise RepositoryError(f"{target_branch} and the run changed the same lines of {files}.", hint)
    return commit_merge(repo, merged, tip, commit, message)


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
