"""What git itself remembers of every run, so that the journal can be rebuilt from it: plan, beginning, attempts, refs.

The contents are bytes here; what they mean is for the caller to say.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.core import ids
from holdfast.repo.commit_contents import read_contents
from holdfast.repo.landing import ADOPTED_TRAILER, RUN_TRAILER
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


RECORD_FILE = "adoption.json"
DOCUMENTS = "documents"
_DOCUMENT_BYTES_MAX = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class FinishedTask:
    """A task that was done before the run existed: after how many attempts, and the commit that proves it."""

    task: str
    attempts: int
    evidence: str


@dataclass(frozen=True, slots=True)
class AdoptionOrigin:
    """What git has of an adoption: what the run began with, encoded, and the other system's files by their paths."""

    record: bytes
    documents: dict[str, bytes]


def commit_adoption(
    repo: Repository, base: str, run: str, subject: str, finished: Sequence[FinishedTask]
) -> str:
    """Return a commit upon `base`, with its tree, that says which tasks are done. The same input gives the same commit."""
    lines = [f"{ADOPTED_TRAILER}: {one.task} {one.attempts} {one.evidence}" for one in finished]
    message = "\n".join((subject, "", f"{RUN_TRAILER}: {run}", *lines, ""))
    tree, when = repo.git.text("show", "-s", "--format=%T %ct +0000", base).split(" ", 1)
    env = {"GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when}
    made = repo.private_git.run(
        "commit-tree", "-p", base, tree, stdin=message.encode("utf-8", "replace"), env=env
    )
    return made.decode().strip()


def keep_origin(repo: Repository, run: str, record: bytes, documents: Mapping[str, bytes]) -> None:
    """Keep the other system's files, and what the run began with, under the run's origin ref. Repeated, it is the same."""
    ref = ids.origin_ref(run)
    files = {RECORD_FILE: record, **{f"{DOCUMENTS}/{path}": data for path, data in documents.items()}}
    tree = _tree_of(repo, files)
    if repo.ids_of(f"{ref}^{{tree}}")[0] == tree:
        return
    message = f"Run {run}: the files it was adopted from\n"
    repo.keep(ref, repo.git.run("commit-tree", tree, stdin=message.encode()).decode().strip())


def read_origin(repo: Repository, run: str) -> AdoptionOrigin | None:
    """Return what git has of a run's adoption, or None if it was never adopted, or not to the end."""
    if not repo.read_ref(ids.origin_ref(run)):
        return None
    listing = repo.git.run("ls-tree", "-r", "-z", "--full-tree", ids.origin_ref(run))
    entries = (
        line.partition("\t") for line in listing.decode("utf-8", "surrogateescape").split("\0") if line
    )
    blobs = {path: facts.split()[2] for facts, _, path in entries}
    contents = read_contents(repo, blobs.values(), _DOCUMENT_BYTES_MAX)
    files = {path: contents[blob] for path, blob in blobs.items() if blob in contents}
    record = files.pop(RECORD_FILE, None)
    if record is None:
        return None
    return AdoptionOrigin(record, {path.removeprefix(f"{DOCUMENTS}/"): data for path, data in files.items()})


def _tree_of(repo: Repository, files: Mapping[str, bytes]) -> str:
    """Write files as a tree, in three processes however many there are."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number, content in enumerate(files.values()):
            (folder / str(number)).write_bytes(content)
        paths = "".join(f"{folder / str(number)}\n" for number in range(len(files)))
        said = repo.private_git.run(
            "hash-object", "-w", "--no-filters", "--stdin-paths", stdin=paths.encode()
        )
        blobs = said.decode().split()
        entries = b"".join(
            f"100644 {blob}\t".encode() + path.encode("utf-8", "surrogateescape") + b"\0"
            for path, blob in zip(files, blobs, strict=True)
        )
        env = {"GIT_INDEX_FILE": str(folder / "index")}
        repo.private_git.run("update-index", "--add", "-z", "--index-info", stdin=entries, env=env)
        return repo.private_git.run("write-tree", env=env).decode().strip()
