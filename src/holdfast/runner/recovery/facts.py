"""What git shows about the landings that a run has recorded: looked at by recovery and by whoever foretells it."""

from __future__ import annotations

from holdfast.core.facts import BranchFacts, Equivalent
from holdfast.core.invariants import replacements
from holdfast.core.reconcile import vanished
from holdfast.core.state import RunState
from holdfast.repo.ancestry import MissingLanding, find_equivalents
from holdfast.repo.repository import Repository


def equivalents(repo: Repository, state: RunState, branch: BranchFacts) -> dict[str, Equivalent]:
    """Return the landings that are gone from the branch and provably live on in another commit of it.

    Costs nothing as long as every recorded landing is where it was.
    """
    gone = vanished(state, branch)
    if not gone or not branch.tip:
        return {}
    missing = [MissingLanding(task.id, task.merge_commit) for task in gone]
    return find_equivalents(repo, state.row.base, branch.tip, missing)


def off_branch(repo: Repository, state: RunState, branch: BranchFacts) -> frozenset[str]:
    """Return the commits that landings are said to live on in and that the run branch does not contain."""
    return frozenset(
        commit for commit in replacements(state) if branch.tip and not repo.is_ancestor(commit, branch.tip)
    )
