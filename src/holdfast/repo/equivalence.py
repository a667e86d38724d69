"""Landings that are no longer on the run branch: is the same change provably there, squashed or rebased?

Two proofs count. The same patch: a commit of the branch changes exactly what the landing changed. The same content:
every file that the landing changed is, in some commit of the branch, what the landing made of it. Only commits on
the first-parent line are looked at: the others came from agents.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from holdfast.core.facts import Equivalent
from holdfast.repo.repository import Repository

_DIFF = ("-p", "-r", "--no-renames", "--full-index", "--no-ext-diff", "--no-textconv", "--no-color")
_COMMITS_MAX = 200

Contents = dict[str, str]
"""The files of a commit that matter here, each with its mode and its object."""


@dataclass(frozen=True, slots=True)
class Missing:
    """A landing that is gone: the merge that was recorded for a task."""

    task: str
    merge: str


def find_equivalents(
    repo: Repository, base: str, tip: str, missing: Sequence[Missing]
) -> dict[str, Equivalent]:
    """Return the proof for each missing landing that has one. The same branch gives the same answer."""
    lost = repo.missing([landing.merge for landing in missing if landing.merge])
    there = [landing for landing in missing if landing.merge and landing.merge not in lost]
    if not there:
        return {}
    patches = _patches_of_branch(repo, base, tip)
    found: dict[str, Equivalent] = {}
    for landing in there:
        patch = _patch_of(repo, landing.merge)
        if patch in patches:
            found[landing.task] = Equivalent(patches[patch], "patch")
    rest = [landing for landing in there if landing.task not in found]
    return found | _same_contents(repo, base, tip, rest)


def _same_contents(
    repo: Repository, base: str, tip: str, missing: Sequence[Missing]
) -> dict[str, Equivalent]:
    """Prove landings by their files, and by those of a later one: what holds all of that holds what was below it."""
    if not missing:
        return {}
    own = {one.merge: repo.changed_files(f"{one.merge}^1", one.merge) for one in missing}
    whole = {one.merge: repo.changed_files(base, one.merge) for one in missing}
    matter = {path for paths in (*own.values(), *whole.values()) for path in paths}
    branch = {commit: _contents(repo, commit, matter) for commit in _line(repo, base, tip)}
    found: dict[str, Equivalent] = {}
    for one in missing:
        made = _contents(repo, one.merge, matter)
        if commit := _holding(branch, made, own[one.merge]):
            found[one.task] = Equivalent(commit, "tree")
        if commit := _holding(branch, made, whole[one.merge]):
            below = [other for other in missing if repo.is_ancestor(other.merge, one.merge)]
            found |= {other.task: Equivalent(commit, "tree") for other in below if other.task not in found}
    return found


def _holding(branch: dict[str, Contents], made: Contents, paths: Sequence[str]) -> str:
    """Return the newest commit of the branch in which all these files are as they were made, or an empty string."""
    return next(
        (
            commit
            for commit, contents in branch.items()
            if all(contents.get(path) == made.get(path) for path in paths)
        ),
        "",
    )


def _contents(repo: Repository, commit: str, matter: Collection[str]) -> Contents:
    listing = repo.git.run("ls-tree", "-r", "-z", "--full-tree", commit).decode("utf-8", "surrogateescape")
    entries = (entry.partition("\t") for entry in listing.split("\0") if entry)
    return {path: what for what, _, path in entries if path in matter}


def _line(repo: Repository, base: str, tip: str) -> list[str]:
    count = f"--max-count={_COMMITS_MAX}"
    return repo.git.text("rev-list", "--first-parent", count, f"{base}..{tip}").split()


def _patch_of(repo: Repository, merge: str) -> str:
    """Return the id of what a merge changed. An empty one has none, and of binary files git compares no content."""
    patch = repo.git.run("diff-tree", *_DIFF, f"{merge}^1", merge)
    found = [] if b"\nBinary files " in patch else list(_patch_ids(repo, patch))
    return found[0] if found else ""


def _patches_of_branch(repo: Repository, base: str, tip: str) -> dict[str, str]:
    line = ("--first-parent", "--diff-merges=first-parent", f"--max-count={_COMMITS_MAX}")
    return _patch_ids(repo, repo.git.run("log", *_DIFF, "--format=commit %H", *line, f"{base}..{tip}"))


def _patch_ids(repo: Repository, patches: bytes) -> dict[str, str]:
    """Return the id of each patch that git printed, with its commit; of several commits the oldest."""
    fields = repo.git.run("patch-id", "--stable", stdin=patches).decode().split()
    return dict(zip(fields[::2], fields[1::2], strict=True))
