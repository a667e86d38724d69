"""What commits hold and what they changed, straight from git's objects: no checkout, a fixed number of processes.

Some of it is git's own text for people.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from textwrap import dedent

import msgspec

from holdfast.repo.git import as_lines
from holdfast.repo.repository import Repository

_REGULAR = ("100644", "100755")
_EXECUTABLE = "100755"
_STAT_OPTIONS = (
    "--stat=100",
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--find-renames",
    "--submodule=short",
)


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """A regular file as it is now and as it was: the ids of both contents, `old` empty if there was none."""

    path: str
    old: str
    new: str
    executable: bool


class FileStat(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file that two commits differ in; `old_path` is what it was called before. Lines of a binary file are not counted."""

    path: str
    insertions: int | None
    deletions: int | None
    old_path: str | None = None


class CommitLine(msgspec.Struct, frozen=True, kw_only=True):
    """A commit in one line."""

    commit: str
    author: str
    subject: str


def line_counts(repo: Repository, old: str, new: str) -> tuple[FileStat, ...]:
    """Return the files in which two commits differ, with the lines that came and went."""
    options = ("-r", "-z", "--numstat", "--find-renames", "--no-ext-diff", "--no-textconv")
    fields = iter(repo.git.fields("diff-tree", *options, old, new))
    found = []
    for field in fields:
        added, removed, path = [*field.split("\t", 2), "", ""][:3]
        if not removed:
            continue
        before = None if path else next(fields)
        found.append(
            FileStat(
                path=printable(path or next(fields)),
                old_path=None if before is None else printable(before),
                insertions=int(added) if added.isdecimal() else None,
                deletions=int(removed) if removed.isdecimal() else None,
            )
        )
    return tuple(found)


def commit_lines(repo: Repository, old: str, new: str) -> tuple[CommitLine, ...]:
    """Return the commits that `new` has and `old` has not, oldest first, without merges."""
    asked = (
        "log",
        "-z",
        "--reverse",
        "--no-merges",
        "--no-color",
        "--format=%H%x00%an%x00%s",
        f"{old}..{new}",
    )
    fields = repo.git.run(*asked).decode("utf-8", "replace").removesuffix("\0").split("\0")
    records = zip(fields[::3], fields[1::3], fields[2::3], strict=False)
    return tuple(CommitLine(commit=commit, author=who, subject=what) for commit, who, what in records)


def printable(path: str) -> str:
    """Return a path as text that can be stored and shown: bytes that are no UTF-8 are replaced."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def changed_contents(repo: Repository, old: str, new: str) -> list[ChangedFile]:
    """Return the regular files of `new` whose content differs from that in `old`."""
    fields = repo.git.fields("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", old, new)
    found = []
    for fact, path in zip(fields[::2], fields[1::2], strict=False):
        was, now, before, after, _status = fact.removeprefix(":").split()
        if now in _REGULAR and before != after:
            found.append(ChangedFile(path, before if was in _REGULAR else "", after, now == _EXECUTABLE))
    return found


def files_changed_by(repo: Repository, commits: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the paths that each commit changed, compared with its first parent."""
    return {commit: tuple(paths) for commit, paths in diffs_of(repo, commits, "--name-only").items()}


def diffs_of(repo: Repository, commits: Iterable[str], *shape: str) -> dict[str, list[str]]:
    """Return for each commit the fields that git prints about its changes against its first parent."""
    found: dict[str, list[str]] = {commit: [] for commit in commits}
    if not found:
        return {}
    options = ("--stdin", "-r", "-z", "--root", "--no-renames", "--diff-merges=first-parent", *shape)
    current = ""
    for field in repo.git.paths("diff-tree", *options, stdin=as_lines(found)):
        if field in found:
            current = field
        elif current:
            found[current].append(field)
    return found


def read_contents(repo: Repository, blobs: Iterable[str], max_bytes: int) -> dict[str, bytes]:
    """Return the contents of these blobs by id, without those that are larger than `max_bytes` or missing."""
    asked = list(dict.fromkeys(blob for blob in blobs if blob))
    if not asked:
        return {}
    sizes = repo.git.text("cat-file", "--batch-check=%(objecttype) %(objectsize)", stdin=as_lines(asked))
    facts = zip(asked, map(str.split, sizes.splitlines()), strict=True)
    wanted = [blob for blob, (kind, size) in facts if kind == "blob" and int(size) <= max_bytes]
    if not wanted:
        return {}
    return _split(repo.git.run("cat-file", "--batch", stdin=as_lines(wanted)))


def _split(output: bytes) -> dict[str, bytes]:
    """Parse what `cat-file --batch` prints: a header with id, type and size, the content, a line end."""
    found: dict[str, bytes] = {}
    at = 0
    while at < len(output):
        end = output.index(b"\n", at)
        blob, _kind, size = output[at:end].decode().split()
        found[blob] = output[end + 1 : end + 1 + int(size)]
        at = end + 2 + int(size)
    return found


def diffstat(repo: Repository, old: str, new: str) -> str:
    """Return which files differ between two commits and by how much; empty when none does."""
    said = repo.private_git.run("diff", *_STAT_OPTIONS, old, new).decode("utf-8", "replace")
    return dedent(said).rstrip()


def subject_of(repo: Repository, commit: str) -> str:
    """Return the first line of a commit's message."""
    return repo.git.text("log", "-1", "--no-show-signature", "--format=%s", commit)


def commit_time(repo: Repository, commit: str) -> int:
    """Return when a commit was made, in seconds."""
    return int(repo.git.text("show", "-s", "--format=%ct", commit))


def list_files(repo: Repository, commit: str, max_bytes: int) -> str:
    """Return the paths of a commit, one per line, cut after `max_bytes` with a note that says so."""
    output, clipped = repo.git.read_up_to(max_bytes, "ls-tree", "-r", "--name-only", commit)
    listed = output.decode("utf-8", "replace")
    return listed.rpartition("\n")[0] + "\n[… and more …]\n" if clipped else listed
