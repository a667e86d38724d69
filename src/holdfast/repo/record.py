"""What git itself remembers of every run, so that the journal can be rebuilt from it: plan, beginning, attempts, refs.

The contents are bytes here; what they mean is for the caller to say.
"""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.core import ids
from holdfast.repo.repository import Repository

PLAN_FILE = "plan.json"
RUN_FILE = "run.json"


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run as git has it: its plan and its first event, encoded."""

    run: str
    plan: bytes
    started: bytes


def keep_record(repo: Repository, run: str, plan: bytes, started: bytes) -> None:
    """Put a run's plan and first event under its plan ref. Neither ever changes: if the ref is there, that is it."""
    ref = ids.plan_ref(run)
    if repo.read_ref(ref):
        return
    entries = ((PLAN_FILE, _blob(repo, plan)), (RUN_FILE, _blob(repo, started)))
    listing = "".join(f"100644 blob {blob}\t{name}\n" for name, blob in entries)
    tree = repo.git.run("mktree", stdin=listing.encode()).decode().strip()
    message = f"Run {run}: its plan and how it began\n"
    commit = repo.git.run("commit-tree", tree, stdin=message.encode()).decode().strip()
    repo.keep(ref, commit)


def read_record(repo: Repository, run: str) -> RunRecord | None:
    """Return what git has of a run, or None if its plan ref does not hold a whole record."""
    ref = ids.plan_ref(run)
    plan, started = (repo.file_at(ref, name) for name in (PLAN_FILE, RUN_FILE))
    return None if plan is None or started is None else RunRecord(run, plan, started)


def recorded_runs(repo: Repository) -> list[str]:
    """Return every run that git has a plan of, in the order of their ids."""
    return sorted(ids.run_of_plan_ref(ref) for ref in list_refs(repo, ids.ALL_PLAN_REFS))


def known_runs(repo: Repository) -> set[str]:
    """Return every run whose name is taken in git: by its plan, or by its branch alone."""
    refs = list_refs(repo, ids.ALL_PLAN_REFS, ids.ALL_RUN_BRANCHES)
    return {ids.run_of_plan_ref(ref) or ref.removeprefix(ids.ALL_RUN_BRANCHES) for ref in refs}


def list_refs(repo: Repository, *patterns: str) -> dict[str, str]:
    """Return the refs that match a pattern or lie below it, with the object that each holds."""
    listing = repo.git.run("for-each-ref", "--format=%(objectname) %(refname)", *patterns)
    pairs = (line.partition(" ") for line in listing.decode("utf-8", "surrogateescape").splitlines())
    return {ref: commit for commit, _, ref in pairs}


def run_refs(repo: Repository, run: str) -> dict[str, str]:
    """Return the private refs of a run and what each holds."""
    return list_refs(repo, ids.run_refs_prefix(run))


def drop_refs(repo: Repository, refs: dict[str, str]) -> None:
    """Delete refs, all of them or none. One that moved since it was listed is an error."""
    lines = "".join(f"delete {ref} {commit}\n" for ref, commit in refs.items())
    if lines:
        repo.git.run("update-ref", "--stdin", stdin=lines.encode("utf-8", "surrogateescape"))


def commit_time(repo: Repository, commit: str) -> int:
    """Return when a commit was made, in seconds."""
    return int(repo.git.text("show", "-s", "--format=%ct", commit))


def _blob(repo: Repository, content: bytes) -> str:
    return repo.git.run("hash-object", "-w", "--stdin", stdin=content).decode().strip()
