"""`land`: merge a run's result into a branch of the user."""

from __future__ import annotations

from argparse import Namespace

from holdfast.cli.arguments import ACCEPT_BRANCH, ANY_RUN, JSON, YES, Arguments, option
from holdfast.cli.open_repo import choose_latest_run, open_repo
from holdfast.cli.output import print_result
from holdfast.cli.prompts import require_yes
from holdfast.core.projection import RunRow
from holdfast.core.status import RunStatus
from holdfast.errors import ForeignCommitsError, HoldfastError, NeedsDecisionError
from holdfast.repo.land_run import land_on_branch
from holdfast.repo.landing import RUN_TRAILER
from holdfast.repo.repository import Repository
from holdfast.runner.mirror.staging_worktree import remove_staging_worktree
from holdfast.views.text import one_line

ARGUMENTS: Arguments = (
    ANY_RUN,
    option("--into", "BRANCH", "the branch to merge into (where the run began)"),
    ACCEPT_BRANCH,
    YES,
    JSON,
)


def execute(args: Namespace) -> int:
    """Merge a run's result into a branch. Idempotent."""
    with open_repo() as opened:
        row = choose_latest_run(opened, args.run)
        target = _target(row, args.into)
        if row.status is not RunStatus.COMPLETED and not args.yes:
            raise NeedsDecisionError(
                f"run {row.run} is {row.status}, not completed",
                f"`holdfast resume {row.run}` finishes it; --yes lands what there is",
            )
        require_recorded_tip(opened.repo, row, args.accept_branch or "")
        require_yes(f"Merge {short_name(row.branch)} into {target}?", args, "nothing was landed")
        return print_result(
            opened, row.run, land_result(opened.repo, row, args.into, args.accept_branch or ""), args
        )


def land_result(repo: Repository, row: RunRow, into: str | None, accepted_tip: str = "") -> str:
    """Merge a run branch into its target and return what happened as a sentence.

    Idempotent: a repetition says so. Raises ForeignCommitsError as `require_recorded_tip` does.
    """
    tip, target = require_recorded_tip(repo, row, accepted_tip), _target(row, into)
    message = f"Land {row.run}: {one_line(row.goal)}\n\n{RUN_TRAILER}: {row.run}\n"
    landed = land_on_branch(repo, tip, target, message)
    return f"{row.run} is in {target} ({landed.kind}, {landed.commit[:12]}).{remove_staging(repo, row)}"


def require_recorded_tip(repo: Repository, row: RunRow, accepted_tip: str = "") -> str:
    """Return the commit that a run branch is at, which is the one that the run's last landing left it at.

    Else somebody moved it, and nobody checked what it holds: raises ForeignCommitsError, unless the user accepts this tip.
    """
    tip = repo.read_ref(row.branch)
    if not tip:
        raise no_branch(row)
    if tip == row.tip or (accepted_tip and tip.startswith(accepted_tip)):
        return tip
    cut_short = (
        ""
        if row.status is RunStatus.COMPLETED
        else f" If a runner was killed, `holdfast resume {row.run}` sets it right."
    )
    raise ForeignCommitsError(
        moved_branch(row, tip),
        f"`git diff {row.tip[:12]} {tip[:12]}` shows the difference. `git update-ref {row.branch} {row.tip}` puts it back; "
        f"`holdfast land {row.run} --accept-branch {tip[:12]}` lands it as it is.{cut_short}",
    )


def moved_branch(row: RunRow, tip: str) -> str:
    """Return the sentence about a run branch that is not where its run left it."""
    return f"branch {short_name(row.branch)} is at {tip[:12]}, not at {row.tip[:12]}, where the run left it: somebody moved it"


def remove_staging(repo: Repository, row: RunRow) -> str:
    """Remove a run's staging worktree. Return a sentence if it must stay, else an empty string."""
    problem = remove_staging_worktree(repo, row)
    return f" {problem}." if problem else ""


def no_branch(row: RunRow) -> HoldfastError:
    """Return the error for a run whose branch is gone."""
    return HoldfastError(
        f"run {row.run} has no branch {short_name(row.branch)}",
        f"`git for-each-ref refs/holdfast/{row.run}` shows what is kept",
    )


def short_name(ref: str) -> str:
    """Return a branch's name as git shows it."""
    return ref.removeprefix("refs/heads/")


def _target(row: RunRow, into: str | None) -> str:
    if target := into or row.target:
        return target
    raise HoldfastError(f"run {row.run} began on no branch", "name the branch: `holdfast land --into BRANCH`")
