"""Contents of many files at once, straight from git's objects: no checkout, a fixed number of processes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from textwrap import dedent

from holdfast.repo.repository import Repository

_REGULAR = ("100644", "100755")
_EXECUTABLE = "100755"


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """A regular file as it is now and as it was: the ids of both contents, `old` empty if there was none."""

    path: str
    old: str
    new: str
    executable: bool


def changed_contents(repo: Repository, old: str, new: str) -> list[ChangedFile]:
    """Return the regular files of `new` whose content differs from that in `old`."""
    output = repo.git.run("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", old, new)
    facts, paths = (output.decode("utf-8", "surrogateescape").split("\0")[at::2] for at in (0, 1))
    found = []
    for fact, path in zip(facts, paths, strict=False):
        was, now, before, after, _status = fact.removeprefix(":").split()
        if now in _REGULAR and before != after:
            found.append(ChangedFile(path, before if was in _REGULAR else "", after, now == _EXECUTABLE))
    return found


def paths_changed_by(repo: Repository, merges: Sequence[str]) -> frozenset[str]:
    """Return the paths that these merges changed, each compared with its first parent."""
    if not merges:
        return frozenset()
    options = ("-r", "-z", "--no-commit-id", "--name-only", "--no-renames", "--diff-merges=first-parent")
    output = repo.git.run("diff-tree", "--stdin", *options, stdin="\n".join(merges).encode() + b"\n")
    return frozenset(output.decode("utf-8", "surrogateescape").split("\0")) - {""}


def read_contents(repo: Repository, blobs: Iterable[str], max_bytes: int) -> dict[str, bytes]:
    """Return the contents of these blobs by id, without those that are larger than `max_bytes` or missing."""
    asked = list(dict.fromkeys(blob for blob in blobs if blob))
    if not asked:
        return {}
    question = "\n".join(asked).encode() + b"\n"
    sizes = repo.git.run("cat-file", "--batch-check=%(objecttype) %(objectsize)", stdin=question).decode()
    wanted = [
        blob for blob, fact in zip(asked, sizes.splitlines(), strict=True) if _is_small(fact, max_bytes)
    ]
    if not wanted:
        return {}
    output = repo.git.run("cat-file", "--batch", stdin="\n".join(wanted).encode() + b"\n")
    return _split(output)


def _is_small(fact: str, max_bytes: int) -> bool:
    kind, _, size = fact.partition(" ")
    return kind == "blob" and int(size) <= max_bytes


def _split(output: bytes) -> dict[str, bytes]:
    """Take apart what `cat-file --batch` prints: a header with id, type and size, the content, a line end."""
    found: dict[str, bytes] = {}
    at = 0
    while at < len(output):
        end = output.index(b"\n", at)
        blob, _kind, size = output[at:end].decode().split()
        found[blob] = output[end + 1 : end + 1 + int(size)]
        at = end + 2 + int(size)
    return found


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
    said = repo.private_git.run("diff", *_STAT_OPTIONS, old, new).decode("utf-8", "replace")
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
