"""Where the unfinished work of another system's tasks lies: on branches of their own, and in their working trees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.core.adoption import (
    FINISHED,
    Claim,
    ClaimedStatus,
    Finding,
    InheritedWork,
    JudgedClaim,
    Verdict,
)
from holdfast.core.ids import snapshot_ref
from holdfast.errors import HoldfastError
from holdfast.formats.model import all_formats
from holdfast.repo.ancestry import commits_outside
from holdfast.repo.landing import trailers
from holdfast.repo.repository import Repository
from holdfast.repo.worktrees import Worktree, WorktreeChanges, changes_in, list_worktrees, save_worktree

_LEFT_OUT_SHOWN = 20

_URGENCY = (
    ClaimedStatus.RUNNING,
    ClaimedStatus.FAILED,
    ClaimedStatus.DONE,
    ClaimedStatus.BLOCKED,
    ClaimedStatus.PENDING,
)


@dataclass(frozen=True, slots=True)
class UnfinishedWork:
    """Where a task's unfinished work lies: a commit, and a working tree on it if that holds more, and how much."""

    place: str
    commit: str
    tree: Worktree | None = None
    files: int = 0


def find_unfinished_work(
    repo: Repository,
    claims: Sequence[Claim],
    judged: Mapping[str, JudgedClaim],
    base: str,
    heads: Mapping[str, str],
    *,
    with_checkout: bool,
) -> tuple[dict[str, UnfinishedWork], list[Finding]]:
    """Return where each unfinished task's work lies, and what the user should know about the rest.

    A working tree that several tasks shared is taken for the one that was under way.
    """
    unmerged = [one.evidence for one in judged.values() if one.verdict is Verdict.UNMERGED]
    places = _WorkLocations(repo, base, heads, unmerged)
    found: dict[str, UnfinishedWork] = {}
    unfinished = [claim for claim in claims if judged[claim.task].verdict not in FINISHED]
    for claim in sorted(unfinished, key=lambda claim: _urgency(claim.standing)):
        work = places.of(claim, judged[claim.task])
        if work is not None:
            found[claim.task] = work
    without_work = [c.task for c in unfinished if c.standing is ClaimedStatus.RUNNING and c.task not in found]
    found |= places.in_checkout(without_work, taken=with_checkout)
    return found, places.noticed


def save_unfinished_work(
    repo: Repository, run: str, base: str, unfinished: Mapping[str, UnfinishedWork]
) -> dict[str, InheritedWork]:
    """Keep unfinished work at the tasks' snapshot refs. Safe to repeat after a crash: saves what is there."""
    saved: dict[str, InheritedWork] = {}
    for task, work in unfinished.items():
        commit = work.commit
        if work.tree is not None:
            message = f"WIP of {task}, found in {work.place}\n\n{trailers(run, task, 1)}"
            commit = save_worktree(repo, work.tree, message, _traces()).commit or commit
        below = repo.merge_base(base, commit)
        if below and commit != below:
            repo.keep(snapshot_ref(run, task), commit, logged=True)
            saved[task] = InheritedWork(commit, below, work.place)
    return saved


def _traces() -> tuple[str, ...]:
    """Return what any of the known systems writes beside the work."""
    return tuple(trace for one in all_formats().values() for trace in one.traces)


def _prefix(branch: str) -> str:
    return branch.partition("/")[0] if "/" in branch else ""


def _urgency(standing: ClaimedStatus) -> int:
    return _URGENCY.index(standing) if standing in _URGENCY else len(_URGENCY)


class _WorkLocations:
    """The branches and working trees of a repository; each is assigned once."""

    def __init__(
        self, repo: Repository, base: str, heads: Mapping[str, str], unmerged: Sequence[str]
    ) -> None:
        self._repo = repo
        self._heads = heads
        self._main, *linked = list_worktrees(repo)
        self._trees = {tree.path.resolve(): tree for tree in linked}
        self._by_branch = {tree.branch: tree for tree in linked if tree.branch}
        tips = {*heads.values(), *unmerged, *(tree.head for tree in linked)}
        self._new = commits_outside(repo, tips, base)
        self._used: set[str] = set()
        self.noticed: list[Finding] = []

    def of(self, claim: Claim, judged: JudgedClaim) -> UnfinishedWork | None:
        """Return where the work of a task lies beyond the base, if anywhere."""
        tree = self._tree_of(claim)
        tips = [commit for commit in self._tips(claim, judged, tree) if commit in self._new]
        dirty = self._dirty(claim, tree) if tree is not None else 0
        if tree is not None and dirty:
            return UnfinishedWork(str(tree.path), tree.head, tree, dirty)
        return UnfinishedWork(claim.branch or tips[0][:12], tips[0]) if tips else None

    def in_checkout(self, without_work: Sequence[str], *, taken: bool) -> dict[str, UnfinishedWork]:
        """Return what the user's own checkout holds for the one task that was under way, if the user says that it does."""
        if not without_work:
            return {}
        changed = changes_in(self._repo, self._main, _traces())
        if changed.files and len(without_work) > 1:
            sentence = (
                f"The checkout has {_counted(changed.files)}, and nobody can tell whether of {' or '.join(without_work)}: "
                "not taken. Commit what you want to keep on the base first."
            )
            self.noticed.append(Finding(kind="uncommitted", sentence=sentence))
        elif changed.files and taken:
            self._tell_left_out(without_work[0], changed)
            return {
                without_work[0]: UnfinishedWork("the checkout", self._main.head, self._main, changed.files)
            }
        elif changed.files:
            sentence = (
                f"The checkout has {_counted(changed.files)}; --with-checkout takes {'it' if changed.files == 1 else 'them'} as the "
                f"unfinished work of {without_work[0]}."
            )
            self.noticed.append(Finding(kind="uncommitted", sentence=sentence, task=without_work[0]))
        return {}

    def _tree_of(self, claim: Claim) -> Worktree | None:
        # A project that was moved leaves old paths in its files; the branch still names the working tree.
        tree = self._tree_at(claim) or self._by_branch.get(claim.branch)
        return tree if tree is not None and self._claimed_first(str(tree.path)) else None

    def _tree_at(self, claim: Claim) -> Worktree | None:
        path = Path(self._repo.checkout, claim.worktree)
        tree = self._trees.get(path.resolve()) or self._shared_tree_of(claim)
        if tree is None and claim.worktree and path.is_dir() and path.resolve() != self._repo.checkout:
            sentence = (
                f"{claim.task}: git knows no working tree at {claim.worktree}; what is in it is not taken."
            )
            self.noticed.append(Finding(kind="unknown-worktree", sentence=sentence, task=claim.task))
        return tree

    def _shared_tree_of(self, claim: Claim) -> Worktree | None:
        """Return the first of the other places where its working tree may be, unless another run's branch is in it."""
        own = claim.worktree_branch
        for place in claim.other_worktrees:
            tree = self._trees.get(Path(self._repo.checkout, place).resolve())
            is_others = tree is not None and tree.branch != own and _prefix(tree.branch) == _prefix(own)
            if tree is not None and not is_others:
                return tree
        return None

    def _tips(self, claim: Claim, judged: JudgedClaim, tree: Worktree | None) -> Iterator[str]:
        if claim.branch in self._heads and self._claimed_first(claim.branch):
            yield self._heads[claim.branch]
        if tree is not None:
            yield tree.head
        if judged.verdict is Verdict.UNMERGED:
            yield judged.evidence

    def _tell_left_out(self, task: str, changed: WorktreeChanges) -> None:
        """Note each file that is not saved with the others: it stays where it is, and the next agent lacks it."""
        shown, more = changed.problems[:_LEFT_OUT_SHOWN], len(changed.problems) - _LEFT_OUT_SHOWN
        for problem in (*shown, *([f"{more} more files are left out, too."] if more > 0 else [])):
            self.noticed.append(Finding(kind="left-out", sentence=f"{task}: {problem}", task=task))

    def _claimed_first(self, name: str) -> bool:
        first = name not in self._used
        self._used.add(name)
        return first

    def _dirty(self, claim: Claim, tree: Worktree) -> int:
        try:
            changed = changes_in(self._repo, tree, _traces())
        except HoldfastError as error:
            sentence = f"{claim.task}: {tree.path} cannot be looked at: {error.message}"
            self.noticed.append(Finding(kind="unreadable", sentence=sentence, task=claim.task))
            return 0
        self._tell_left_out(claim.task, changed)
        return changed.files


def _counted(files: int) -> str:
    return "1 uncommitted file" if files == 1 else f"{files} uncommitted files"
