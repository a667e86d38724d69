"""What git keeps of an adopted run: the commit that says what was finished before, and the other system's own files."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.core import ids
from holdfast.repo.blobs import read_contents
from holdfast.repo.landing import ADOPTED_TRAILER, RUN_TRAILER
from holdfast.repo.repository import Repository

RECORD_FILE = "adoption.json"
DOCUMENTS = "documents"
_DOCUMENT_BYTES_MAX = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Finished:
    """A task that was done before the run existed: after how many attempts, and the commit that proves it."""

    task: str
    attempts: int
    evidence: str


@dataclass(frozen=True, slots=True)
class Kept:
    """What git has of an adoption: what the run began with, encoded, and the other system's files by their paths."""

    record: bytes
    documents: dict[str, bytes]


def commit_adoption(repo: Repository, base: str, run: str, subject: str, finished: Sequence[Finished]) -> str:
    """Return a commit upon `base`, with its tree, that says which tasks are done. The same input gives the same commit."""
    lines = [f"{ADOPTED_TRAILER}: {one.task} {one.attempts} {one.evidence}" for one in finished]
    message = "\n".join((subject, "", f"{RUN_TRAILER}: {run}", *lines, ""))
    tree, when = repo.git.text("show", "-s", "--format=%T %ct +0000", base).split(" ", 1)
    env = {"GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when}
    made = repo.sealed.run("commit-tree", "-p", base, tree, stdin=message.encode("utf-8", "replace"), env=env)
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


def read_origin(repo: Repository, run: str) -> Kept | None:
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
    return Kept(record, {path.removeprefix(f"{DOCUMENTS}/"): data for path, data in files.items()})


def _tree_of(repo: Repository, files: Mapping[str, bytes]) -> str:
    """Write files as a tree, in three processes however many there are."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number, content in enumerate(files.values()):
            (folder / str(number)).write_bytes(content)
        paths = "".join(f"{folder / str(number)}\n" for number in range(len(files)))
        said = repo.sealed.run("hash-object", "-w", "--no-filters", "--stdin-paths", stdin=paths.encode())
        blobs = said.decode().split()
        entries = b"".join(
            f"100644 {blob}\t".encode() + path.encode("utf-8", "surrogateescape") + b"\0"
            for path, blob in zip(files, blobs, strict=True)
        )
        env = {"GIT_INDEX_FILE": str(folder / "index")}
        repo.sealed.run("update-index", "--add", "-z", "--index-info", stdin=entries, env=env)
        return repo.sealed.run("write-tree", env=env).decode().strip()
