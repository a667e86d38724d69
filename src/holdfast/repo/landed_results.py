"""What proves that a run's result is in a branch of the user, also if that has other commits than the run branch.

Merged, it is there: the branch contains the run branch. Squashed or rebased it is not, so the commit that holds it is
kept at a ref of the run before the branch moves to it: whichever branch contains that commit has the result. Its message
names the tip of the run branch, for a branch that was rewritten later.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from holdfast.core import ids
from holdfast.repo.git import decode_text
from holdfast.repo.refs import list_refs
from holdfast.repo.repository import Repository

RESULT_TRAILER = "Holdfast-Result"


@dataclass(frozen=True, slots=True)
class RunTip:
    """A run, and the commit that its branch is at: what `land` brings into a branch of the user."""

    run: str
    tip: str


def keep_landed(repo: Repository, results: Collection[RunTip], commit: str) -> None:
    """Note that the branch with this commit has these results. Written before the branch moves. Idempotent."""
    for result in results:
        repo.keep(ids.landed_ref(result.run, result.tip, commit), commit)


def holds_result(repo: Repository, result: RunTip, branch_tip: str) -> bool:
    """Tell whether a branch holds a result, by ancestry, by a landed ref, or by a commit's message."""
    return is_recorded(repo, result, branch_tip) or _is_named_in_history(repo, result.tip, branch_tip)


def is_recorded(repo: Repository, result: RunTip, branch_tip: str) -> bool:
    """Tell whether git proves that a branch holds a result: by ancestry or by a landed ref, not by a message alone."""
    return repo.is_ancestor(result.tip, branch_tip) or result.tip in _landed_before(
        repo, result.run, branch_tip
    )


def merge_onto(repo: Repository, branch_tip: str, commit: str, results: Collection[RunTip]) -> str:
    """Return the commit to merge `commit` with, so that what the branch has of it already is not merged again.

    That is the branch's own, unless earlier parts of the result were squashed or rebased into it: then one with the same
    files that descends from those parts, too. Nothing refers to it.
    """
    earlier = {tip for result in results for tip in _landed_before(repo, result.run, branch_tip)}
    parts = sorted(tip for tip in earlier if repo.is_ancestor(tip, commit))
    if not parts:
        return branch_tip
    return repo.private_git.commit_tree(
        repo.tree_of(branch_tip), branch_tip, *parts, message="Landed before\n"
    )


def _landed_before(repo: Repository, run: str, branch_tip: str) -> Iterator[str]:
    """Yield the tips that the run branch had when it landed in this branch otherwise than merged."""
    for ref, commit in list_refs(repo, ids.landed_refs_prefix(run)).items():
        if repo.is_ancestor(commit, branch_tip):
            yield ids.tip_of_landed_ref(run, ref)


def _is_named_in_history(repo: Repository, tip: str, branch_tip: str) -> bool:
    """Look for our trailer in the branch's own line: what came in by merges, others wrote."""
    lines = (f"--grep=^{RESULT_TRAILER}: {tip}$", "--first-parent", "--max-count=1", "--format=%H")
    return bool(decode_text(repo.git.try_run("log", *lines, branch_tip, f"^{tip}").stdout).strip())
