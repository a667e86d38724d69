"""A run's result as commits without merges: one in all, or one per commit of the run branch's own line. No ref moves.

Like a cherry-pick, but without a checkout: a merge of two commits whose only common ancestor is what lies below the change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.repo.git import decode_text
from holdfast.repo.landed_results import RESULT_TRAILER, RunTip
from holdfast.repo.landing import LAND, RUN_TRAILER, Conflicted, first_parents, merge
from holdfast.repo.repository import Repository

_AUTHOR = ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_AUTHOR_DATE")


@dataclass(frozen=True, slots=True)
class _Picked:
    """One commit to make: its files, its message, and who wrote it."""

    tree: str
    message: str
    author: Mapping[str, str]


def squash(repo: Repository, onto: str, tip: str, commit: str, message: str) -> str | Conflicted:
    """Return one commit on top of `tip` with all that `commit` brings, or `tip` itself if that is nothing.

    `onto` has the files of `tip`, and says what was brought in before.
    """
    merged = merge(repo, onto, commit)
    if isinstance(merged, Conflicted):
        return merged
    if merged == repo.tree_of(tip):
        return tip
    return repo.private_git.commit_tree(merged, tip, message=message)


def rebase(repo: Repository, onto: str, tip: str, commit: str, result: RunTip) -> str | Conflicted:
    """Return the last of one commit per commit of the first-parent line of `commit`, on top of `tip`; `tip` if none is left.

    Each keeps its message and the author of the work; the last one also names the run and the tip of its branch.
    """
    picked: list[_Picked] = []
    tree = repo.tree_of(tip)
    for one in first_parents(repo, onto, commit):
        merged = _pick(repo, tree, one)
        if isinstance(merged, Conflicted):
            return merged
        if merged != tree:
            picked.append(_Picked(merged, _message(repo, one), _author(repo, one)))
        tree = merged
    parent = tip
    for number, one_picked in enumerate(picked, 1):
        message = one_picked.message
        if number == len(picked):
            message = _with_result(message, result)
        parent = repo.private_git.commit_tree(one_picked.tree, parent, message=message, env=one_picked.author)
    return parent


def _pick(repo: Repository, tree: str, commit: str) -> str | Conflicted:
    """Return a tree with what a commit changed against its first parent."""
    below = repo.private_git.commit_tree(tree, f"{commit}^1", message="Pick\n")
    return merge(repo, below, commit)


def _message(repo: Repository, commit: str) -> str:
    """Return a commit's message. It does not land any more: it is the work."""
    return decode_text(repo.git.run("log", "-1", "--format=%B", commit)).strip().removeprefix(LAND)


def _author(repo: Repository, commit: str) -> dict[str, str]:
    """Return who did the work: of a merge, the author of what it brought in."""
    work = repo.ids_of(f"{commit}^2")[0] or commit
    asked = ("log", "-1", "--date=raw", "--format=%an%x00%ae%x00@%ad", work)
    found = decode_text(repo.git.run(*asked)).rstrip("\n").split("\0")
    return {name: value for name, value in zip(_AUTHOR, found, strict=True) if value}


def _with_result(message: str, result: RunTip) -> str:
    last = message.rpartition("\n\n")[2]
    trailer = f"{RESULT_TRAILER}: {result.tip}\n"
    if any(line.startswith(f"{RUN_TRAILER}: ") for line in last.splitlines()):
        return f"{message}\n{trailer}"
    return f"{message}\n\n{RUN_TRAILER}: {result.run}\n{trailer}"
