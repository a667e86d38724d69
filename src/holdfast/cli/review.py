"""`review`: what a run produced, task by task and as a whole."""

from __future__ import annotations

from argparse import Namespace

from holdfast.cli.arguments import ANY_RUN, Arguments
from holdfast.cli.open_repo import choose_latest_run, open_read_only
from holdfast.core.facts import Landing
from holdfast.core.projection import RunRow
from holdfast.errors import ExitCode
from holdfast.redaction import redact
from holdfast.repo.commit_contents import diffstat, subject_of
from holdfast.repo.landing import branch_facts, commits_outside_line
from holdfast.repo.repository import Repository
from holdfast.runner.landing.result_landing import moved_branch, no_branch, short_name
from holdfast.views.text import block, count, one_line

ARGUMENTS: Arguments = (ANY_RUN,)


def execute(args: Namespace) -> int:
    """Show what a run produced."""
    opened = open_read_only()
    row = choose_latest_run(opened, args.run)
    print_review(opened.open_repository(), row)
    return ExitCode.DONE


def print_review(repo: Repository, row: RunRow) -> None:
    """Print each landed task with its commits and files, then the whole difference from the base."""
    facts = branch_facts(repo, row.branch, row.base, row.run)
    if not facts.tip:
        raise no_branch(repo, row)
    print(f"{row.run}  {row.status}  {one_line(row.goal)}")
    foreign = _foreign_commits(repo, row, facts.tip)
    if facts.tip != row.tip:
        print(f"\n{moved_branch(row, facts.tip)}. `holdfast land` refuses it and says how to continue.")
    for commit in foreign:
        print(f"  not made by Holdfast: {commit[:12]}  {one_line(redact(subject_of(repo, commit)))}")
    if adopted := [
        landing.task for landing in facts.landings if landing.adopted and landing.commit not in foreign
    ]:
        print(f"\ndone before it was adopted: {', '.join(adopted)}")
    for landing in facts.landings:
        if not landing.adopted and landing.commit not in foreign:
            _print_landing(repo, landing)
    print(f"\nin all, {row.base[:12]}..{facts.tip[:12]} on {short_name(row.branch)}")
    _print_diffstat(repo, row.base, facts.tip)


def _foreign_commits(repo: Repository, row: RunRow, tip: str) -> list[str]:
    """Return the commits of the branch that the run did not leave there, newest first."""
    known = {row.base, row.tip} - repo.missing([row.base, row.tip])
    return [] if tip == row.tip else commits_outside_line(repo, tip, known)


def _print_landing(repo: Repository, landing: Landing) -> None:
    before = f"{landing.commit}^1"
    commits = count(repo.commit_count(before, landing.head), "commit")
    subject = one_line(subject_of(repo, landing.commit))
    print(f"\n{landing.commit[:12]}  {subject}  ({commits}, attempt {landing.attempt})")
    _print_diffstat(repo, before, landing.commit)


def _print_diffstat(repo: Repository, before: str, after: str) -> None:
    print("\n".join(block(redact(diffstat(repo, before, after)) or "no change", "  ")))
