"""Which branches of the user hold a run's result. Asked by `status`, so one git process must do, and nothing is written."""

from __future__ import annotations

from pathlib import Path

from holdfast.core.ids import ALL_RUN_BRANCHES
from holdfast.core.projection import RunRow
from holdfast.errors import RepositoryError
from holdfast.repo.git import Git, rev_parse_from


def branches_with_result(checkout: Path, row: RunRow) -> tuple[str, ...]:
    """Return the branches that contain all of a run's branch, the one it was meant for first.

    Runs' own branches do not count. Where git cannot tell, none is named: the run branch may be archived by now.
    """
    question = ("for-each-ref", "--format=%(refname)", f"--contains={row.branch}", "refs/heads/")
    try:
        said = Git(_git_dir(checkout)).try_run(*question).stdout.decode("utf-8", "surrogateescape")
    except RepositoryError:
        return ()
    found = [
        ref.removeprefix("refs/heads/") for ref in said.splitlines() if not ref.startswith(ALL_RUN_BRANCHES)
    ]
    return tuple(sorted(found, key=lambda name: name != row.target))


def _git_dir(checkout: Path) -> Path:
    """Return the repository's directory; where `.git` is a file, git is asked what it leads to."""
    usual = checkout / ".git"
    if usual.is_dir():
        return usual
    said = rev_parse_from(checkout, "--git-common-dir").stdout.decode("utf-8", "surrogateescape")
    return Path(said.rstrip("\n"))
