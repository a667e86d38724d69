"""Refs and branches: which exist, which runs they belong to, and which branches hold a run's result.

`status` loads this module, so it loads little: no open repository is needed to ask where a result has landed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.core import ids
from holdfast.core.facts import NOWHERE, ResultPlaces
from holdfast.core.projection import RunRow
from holdfast.errors import RepositoryError
from holdfast.repo.git import Git, decode_text, rev_parse_from

if TYPE_CHECKING:
    from holdfast.repo.repository import Repository

_BRANCHES = "refs/heads/"
_PATIENCE_S = 20.0
_ALL_RESULT_REFS = (f"{ids.ALL_RUN_REFS}*/landed/*/*", f"{ids.ALL_RUN_REFS}*/archive/branch-*")


def list_refs(repo: Repository, *patterns: str) -> dict[str, str]:
    """Return the refs that match a pattern or lie below it, with the object that each holds."""
    listing = repo.git.text("for-each-ref", "--format=%(objectname) %(refname)", *patterns)
    pairs = (line.partition(" ") for line in listing.splitlines())
    return {ref: commit for commit, _, ref in pairs}


def run_refs(repo: Repository, run: str) -> dict[str, str]:
    """Return the private refs of a run and what each holds."""
    return list_refs(repo, ids.run_refs_prefix(run))


def refs_by_commit(repo: Repository, run: str) -> dict[str, str]:
    """Return which private ref of a run holds which commit."""
    return {commit: ref for ref, commit in run_refs(repo, run).items()}


def local_branches(repo: Repository) -> dict[str, str]:
    """Return every local branch by its short name, with its commit."""
    return {ref.removeprefix(_BRANCHES): commit for ref, commit in list_refs(repo, _BRANCHES).items()}


def recorded_runs(repo: Repository) -> list[str]:
    """Return every run whose plan is in git, in the order of their ids."""
    return sorted(ids.run_of_plan_ref(ref) for ref in list_refs(repo, ids.ALL_PLAN_REFS))


def known_runs(repo: Repository) -> set[str]:
    """Return every run whose name is taken in git: by its plan, or by its branch alone."""
    refs = list_refs(repo, ids.ALL_PLAN_REFS, ids.ALL_RUN_BRANCHES)
    return {ids.run_of_plan_ref(ref) or ref.removeprefix(ids.ALL_RUN_BRANCHES) for ref in refs}


def result_places(checkout: Path, row: RunRow) -> ResultPlaces:
    """Return where a run's result is. Nothing, if it is on the run branch alone, or if git cannot tell.

    Runs' own branches do not count. Asks git once if the result was merged, and writes nothing.
    """
    try:
        git = Git(_git_dir(checkout), timeout_s=_PATIENCE_S)
        branches = _containing(git, row.tip)
        if found := _of_the_user(branches, row.target):
            return ResultPlaces(found, has_branch=row.branch in branches)
        refs = _refs_of(git, row)
        landed = [commit for ref, commit in refs.items() if ref.startswith(ids.landed_refs_prefix(row.run))]
        found = _of_the_user(_containing(git, *landed), row.target) if landed else ()
    except RepositoryError:
        return NOWHERE
    archive = ids.archived_branch_ref(row.run, row.tip)
    has_branch = row.branch in refs
    return ResultPlaces(found, archive if archive in refs and not has_branch else "", has_branch)


def runs_in_their_targets(checkout: Path, rows: Sequence[RunRow]) -> frozenset[str]:
    """Return which of these runs have their result in the branch that it was meant for. Asks git once per branch."""
    found: set[str] = set()
    for target in {row.target for row in rows if row.target}:
        merged = (f"--merged={_BRANCHES}{target}", ids.ALL_RUN_BRANCHES, *_ALL_RESULT_REFS)
        try:
            git = Git(_git_dir(checkout), timeout_s=_PATIENCE_S)
            refs = decode_text(git.try_run("for-each-ref", "--format=%(refname)", *merged).stdout).split()
        except RepositoryError:
            continue
        known = set(refs)
        for row in rows:
            prefix = ids.landed_refs_prefix(row.run, row.tip)
            own = {row.branch, ids.archived_branch_ref(row.run, row.tip)}
            if row.target == target and (own & known or any(ref.startswith(prefix) for ref in refs)):
                found.add(row.run)
    return frozenset(found)


def archived_runs(checkout: Path, rows: Sequence[RunRow]) -> list[RunRow]:
    """Return which of these runs have no branch any more, only its archive. Asks git once."""
    try:
        git = Git(_git_dir(checkout), timeout_s=_PATIENCE_S)
        places = (ids.ALL_RUN_BRANCHES, f"{ids.ALL_RUN_REFS}*/archive/branch-*")
        refs = set(decode_text(git.try_run("for-each-ref", "--format=%(refname)", *places).stdout).split())
    except RepositoryError:
        return []
    return [
        row for row in rows if row.branch not in refs and ids.archived_branch_ref(row.run, row.tip) in refs
    ]


def _containing(git: Git, *commits: str) -> list[str]:
    """Return the branches that contain any of these commits."""
    contains = [f"--contains={commit}" for commit in commits]
    asked = ("for-each-ref", "--format=%(refname)", *contains, _BRANCHES)
    return decode_text(git.try_run(*asked).stdout).splitlines()


def _of_the_user(refs: Sequence[str], target: str) -> tuple[str, ...]:
    found = [ref.removeprefix(_BRANCHES) for ref in refs if not ref.startswith(ids.ALL_RUN_BRANCHES)]
    return tuple(sorted(found, key=lambda name: name != target))


def _refs_of(git: Git, row: RunRow) -> dict[str, str]:
    """Return the refs that say where a run's result is."""
    places = (row.branch, ids.landed_refs_prefix(row.run, row.tip), ids.archived_branch_ref(row.run, row.tip))
    listing = git.try_run("for-each-ref", "--format=%(objectname) %(refname)", *places)
    pairs = (line.partition(" ") for line in decode_text(listing.stdout).splitlines())
    return {ref: commit for commit, _, ref in pairs}


def _git_dir(checkout: Path) -> Path:
    """Return the repository's git directory; if `.git` is a file, git says where that is."""
    usual = checkout / ".git"
    if usual.is_dir():
        return usual
    return Path(decode_text(rev_parse_from(checkout, "--git-common-dir").stdout).rstrip("\n"))
