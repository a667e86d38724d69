"""Refs and branches: which exist, which runs they belong to, and which branches hold a run's result.

`status` loads this module, so it loads little: no open repository is needed to ask where a result has landed.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.core import ids
from holdfast.core.projection import RunRow
from holdfast.errors import RepositoryError
from holdfast.repo.git import Git, decode_text, rev_parse_from

if TYPE_CHECKING:
    from holdfast.repo.repository import Repository

_BRANCHES = "refs/heads/"
_PATIENCE_S = 20.0


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


def branches_with_result(checkout: Path, row: RunRow) -> tuple[str, ...]:
    """Return the branches that contain all of a run's branch, the one it was meant for first.

    Runs' own branches do not count. If git cannot tell, none is named: the run branch may be archived by now.
    Asks git once and writes nothing.
    """
    question = ("for-each-ref", "--format=%(refname)", f"--contains={row.branch}", _BRANCHES)
    try:
        git = Git(_git_dir(checkout), timeout_s=_PATIENCE_S)
        refs = decode_text(git.try_run(*question).stdout).splitlines()
    except RepositoryError:
        return ()
    found = [ref.removeprefix(_BRANCHES) for ref in refs if not ref.startswith(ids.ALL_RUN_BRANCHES)]
    return tuple(sorted(found, key=lambda name: name != row.target))


def _git_dir(checkout: Path) -> Path:
    """Return the repository's git directory; if `.git` is a file, git says where that is."""
    usual = checkout / ".git"
    if usual.is_dir():
        return usual
    return Path(decode_text(rev_parse_from(checkout, "--git-common-dir").stdout).rstrip("\n"))
