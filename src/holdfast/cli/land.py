"""`review`, `land`, `discard`: what becomes of a run branch."""

from __future__ import annotations

import argparse
import sys

from holdfast.cli.open_repo import choose_latest_run, open_read_only, open_repo
from holdfast.cli.output import print_result
from holdfast.cli.prompts import confirm
from holdfast.core.facts import Landing
from holdfast.core.projection import RunRow
from holdfast.core.status import RunStatus
from holdfast.errors import HoldfastError, LeaseHeldError, NeedsDecisionError
from holdfast.repo.commit_contents import diffstat, subject_of
from holdfast.repo.land_run import land_on_branch
from holdfast.repo.landing import RUN_TRAILER, branch_facts
from holdfast.repo.repository import Repository
from holdfast.runner.decisions.user_decisions import discard as discard_run
from holdfast.runner.mirror.staging_worktree import remove_staging_worktree
from holdfast.views.event_text import plain_lines
from holdfast.views.text import block, count, one_line


def review(args: argparse.Namespace) -> int:
    """Show what a run produced: each landed task with its commits and files, and the whole against its base."""
    place = open_read_only()
    row = choose_latest_run(place.require_journal().runs(), args.run).row
    repo = Repository.open(place.checkout)
    facts = branch_facts(repo, row.branch, row.base, row.run)
    if not facts.tip:
        raise _no_branch(row)
    print(f"{row.run}  {row.status}  {one_line(row.goal)}")
    if adopted := [landing.task for landing in facts.landings if landing.adopted]:
        print(f"\ndone before it was adopted: {', '.join(adopted)}")
    for landing in facts.landings:
        if not landing.adopted:
            _print_landing(repo, landing)
    print(f"\nall of it, {row.base[:12]}..{facts.tip[:12]} on {_short(row.branch)}")
    print("\n".join(block(diffstat(repo, row.base, facts.tip) or "no change", "  ")))
    return 0


def land(args: argparse.Namespace) -> int:
    """Bring a run's result into a branch of the user. Landed before, nothing happens."""
    with open_repo() as place:
        row = choose_latest_run(place.journal.runs(), args.run).row
        target = _target(row, args.into)
        if row.status is not RunStatus.COMPLETED and not args.yes:
            raise NeedsDecisionError(
                f"run {row.run} is {row.status}, not completed",
                f"`holdfast resume {row.run}` finishes it; --yes lands what there is",
            )
        if not confirm(f"Bring {_short(row.branch)} into {target}?", yes=args.yes):
            raise NeedsDecisionError("nothing was landed", "say --yes to land without being asked")
        return print_result(place, row.run, land_result(place.repo, row, args.into), args)


def discard(args: argparse.Namespace) -> int:
    """Put a run's branch away under an archive ref, and give the run up if it is unfinished."""
    with open_repo() as place:
        row = choose_latest_run(place.journal.runs(), args.run).row
        if (held := place.holder(row.run)) is not None:
            raise LeaseHeldError(
                f"run {row.run} is held by {held}", f"`holdfast stop {row.run}` ends it first"
            )
        if not confirm(f"Put run {row.run} away? Its branch is archived, not deleted.", yes=args.yes):
            raise NeedsDecisionError("nothing was discarded", "say --yes to discard without being asked")
        kept = discard_run(place.repo, place.journal, row.run, plain_lines(sys.stderr))
        said = (
            f"Discarded {row.run}; its branch is archived, `git log` shows it."
            if kept
            else f"{row.run} has no branch any more."
        )
        return print_result(
            place, row.run, said + remove_build_worktree(place.repo, row), args, kept={"branch": kept}
        )


def land_result(repo: Repository, row: RunRow, into: str | None) -> str:
    """Bring a run branch into its target and return what happened as a sentence. Done again, it says so."""
    tip, target = repo.read_ref(row.branch), _target(row, into)
    if not tip:
        raise _no_branch(row)
    message = f"Land {row.run}: {one_line(row.goal)}\n\n{RUN_TRAILER}: {row.run}\n"
    done = land_on_branch(repo, tip, target, message)
    return f"{row.run} is in {target} ({done.kind}, {done.commit[:12]}).{remove_build_worktree(repo, row)}"


def remove_build_worktree(repo: Repository, row: RunRow) -> str:
    """Remove the worktree that showed a run's build, and return a sentence if it stays; gone, there is nothing to say."""
    kept = remove_staging_worktree(repo, row)
    return f" {kept}." if kept else ""


def _target(row: RunRow, into: str | None) -> str:
    if target := into or row.target:
        return target
    raise HoldfastError(f"run {row.run} began on no branch", "say where to: `holdfast land --into BRANCH`")


def _no_branch(row: RunRow) -> HoldfastError:
    return HoldfastError(
        f"run {row.run} has no branch {_short(row.branch)}",
        f"`git for-each-ref refs/holdfast/{row.run}` shows what is kept",
    )


def _print_landing(repo: Repository, landing: Landing) -> None:
    before = f"{landing.commit}^1"
    made = repo.commit_count(before, landing.head)
    print(
        f"\n{landing.commit[:12]}  {one_line(subject_of(repo, landing.commit))}  ({count(made, 'commit')}, attempt {landing.attempt})"
    )
    print("\n".join(block(diffstat(repo, before, landing.commit) or "no change", "  ")))


def _short(ref: str) -> str:
    return ref.removeprefix("refs/heads/")
