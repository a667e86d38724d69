"""What a range of commits changed, in git's own words for people."""

from __future__ import annotations

from textwrap import dedent

from holdfast.repo.repository import Repository

_STAT_OPTIONS = (
    "--stat=100",
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--find-renames",
    "--submodule=short",
)


def diffstat(repo: Repository, old: str, new: str) -> str:
    """Return which files differ between two commits and by how much; empty when none does."""
    said = repo.sealed.run("diff", *_STAT_OPTIONS, old, new).decode("utf-8", "replace")
    return dedent(said).rstrip()


def subject_of(repo: Repository, commit: str) -> str:
    """Return the first line of a commit's message."""
    return repo.git.text("log", "-1", "--no-show-signature", "--format=%s", commit)


def list_files(repo: Repository, commit: str, max_bytes: int) -> str:
    """Return the paths of a commit, one per line, cut after `max_bytes` with a note that says so."""
    output, clipped = repo.git.read_up_to(max_bytes, "ls-tree", "-r", "--name-only", commit)
    listed = output.decode("utf-8", "replace")
    return listed.rpartition("\n")[0] + "\n[… and more …]\n" if clipped else listed


def fsck_errors(repo: Repository) -> tuple[str, ...]:
    """Return what `git fsck --strict` finds wrong with the repository, a line each."""
    result = repo.git.try_run("fsck", "--strict", "--no-dangling", "--no-progress")
    if result.rc == 0:
        return ()
    said = result.stdout.decode("utf-8", "replace") + result.stderr
    return tuple(line for line in said.splitlines() if line.strip()) or (f"exit status {result.rc}",)
