"""What git itself keeps about every run, so that the journal can be rebuilt from it.

- The record: a run's plan and its first event, under its plan ref.
- The origin of an adopted run: the other system's own files, under its origin ref, and the first commit of the run
  branch, which says what was finished before.

Plan and first event are bytes here; the caller knows what they mean.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from holdfast.core import ids
from holdfast.core.event_codec import decode_events, encode_events
from holdfast.core.events import Event
from holdfast.repo.commit_contents import read_contents
from holdfast.repo.landing import ADOPTED_TRAILER, RUN_TRAILER
from holdfast.repo.repository import Repository
from holdfast.system_errors import doing

PLAN_FILE = "plan.json"
RUN_FILE = "run.json"
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
    """An adoption as git keeps it: the run's first events, encoded, and the other system's files by path.

    Both are empty if the run was not adopted, or not completely.
    """

    record: bytes = b"[]"
    documents: Mapping[str, bytes] = field(default_factory=dict)

    def events(self) -> list[Event]:
        """Return the events that the adopted run began with."""
        return decode_events(self.record)


def keep_record(repo: Repository, run: str, plan: bytes, started: bytes) -> None:
    """Put a run's plan and first event under its plan ref. Idempotent: a ref that holds the plan is kept.

    If the plan was amended, the record of the earlier one is the parent of this one.
    """
    ref = ids.plan_ref(run)
    earlier = repo.read_ref(ref)
    if earlier and repo.file_at(ref, PLAN_FILE) == plan:
        repo.ref_updates.sync(ref)
        return
    files = ((PLAN_FILE, plan), (RUN_FILE, started))
    blobs = [(name, repo.git.text("hash-object", "-w", "--stdin", stdin=content)) for name, content in files]
    listing = "".join(f"100644 blob {blob}\t{name}\n" for name, blob in blobs)
    tree = repo.git.text("mktree", stdin=listing.encode())
    parents = (earlier,) if earlier else ()
    repo.keep(ref, repo.git.commit_tree(tree, *parents, message=f"Run {run}: its plan and how it began\n"))


def read_record(repo: Repository, run: str) -> tuple[bytes, bytes] | None:
    """Return a run's plan and first event, encoded, or None if its plan ref does not hold both."""
    ref = ids.plan_ref(run)
    plan, started = (repo.file_at(ref, name) for name in (PLAN_FILE, RUN_FILE))
    return None if plan is None or started is None else (plan, started)


def commit_adoption(
    repo: Repository, base: str, run: str, subject: str, finished: Sequence[FinishedTask]
) -> str:
    """Return a commit on `base`, with its tree, that says which tasks are done. Same input, same commit."""
    lines = [f"{ADOPTED_TRAILER}: {one.task} {one.attempts} {one.evidence}" for one in finished]
    message = "\n".join((subject, "", f"{RUN_TRAILER}: {run}", *lines, ""))
    tree, when = repo.git.text("show", "-s", "--format=%T %ct +0000", base).split(" ", 1)
    dates = {"GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when}
    return repo.private_git.commit_tree(tree, base, message=message, env=dates)


def keep_origin(repo: Repository, run: str, events: Sequence[Event], documents: Mapping[str, bytes]) -> None:
    """Keep the other system's files, and the events the run began with, under its origin ref. Idempotent.

    So the run can be rebuilt, and written back in the other system's files.
    """
    ref, record = ids.origin_ref(run), msgspec.json.format(encode_events(list(events)), indent=1)
    tree = _write_tree(
        repo, {RECORD_FILE: record, **{f"{DOCUMENTS}/{path}": data for path, data in documents.items()}}
    )
    if repo.ids_of(f"{ref}^{{tree}}")[0] == tree:
        repo.ref_updates.sync(ref)
    else:
        repo.keep(ref, repo.git.commit_tree(tree, message=f"Run {run}: the files it was adopted from\n"))


def read_origin(repo: Repository, run: str) -> AdoptionOrigin:
    """Return a run's adoption as git keeps it."""
    if not repo.read_ref(ids.origin_ref(run)):
        return AdoptionOrigin()
    listing = repo.git.paths("ls-tree", "-r", "-z", "--full-tree", ids.origin_ref(run))
    blobs = {path: facts.split()[2] for facts, _, path in (line.partition("\t") for line in listing)}
    contents = read_contents(repo, blobs.values(), _DOCUMENT_BYTES_MAX)
    files = {path: contents[blob] for path, blob in blobs.items() if blob in contents}
    record = files.pop(RECORD_FILE, None)
    if record is None:
        return AdoptionOrigin()
    return AdoptionOrigin(record, {path.removeprefix(f"{DOCUMENTS}/"): data for path, data in files.items()})


def _write_tree(repo: Repository, files: Mapping[str, bytes]) -> str:
    """Write files as a tree, in three processes for any number of files."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with doing("write files for git", folder):
            for number, content in enumerate(files.values()):
                (folder / str(number)).write_bytes(content)
        paths = "".join(f"{folder / str(number)}\n" for number in range(len(files)))
        question = ("hash-object", "-w", "--no-filters", "--stdin-paths")
        blobs = repo.private_git.text(*question, stdin=paths.encode()).split()
        entries = b"".join(
            f"100644 {blob}\t".encode() + path.encode("utf-8", "surrogateescape") + b"\0"
            for path, blob in zip(files, blobs, strict=True)
        )
        index = folder / "index"
        repo.private_git.run("update-index", "--add", "-z", "--index-info", stdin=entries, index=index)
        return repo.private_git.text("write-tree", index=index)
