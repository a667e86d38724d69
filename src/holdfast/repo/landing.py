"""Merging without a checkout, and moving a branch only from where we saw it."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.repo.git import GitError
from holdfast.repo.repository import Repository

RUN_TRAILER = "Holdfast-Run"
TASK_TRAILER = "Holdfast-Task"
ATTEMPT_TRAILER = "Holdfast-Attempt"
ADOPTED_TRAILER = "Holdfast-Adopted"


@dataclass(frozen=True, slots=True)
class Merged:
    """Two commits merge cleanly into this tree."""

    tree: str


@dataclass(frozen=True, slots=True)
class Conflicted:
    """Two commits conflict in `files`. `tree` holds the conflict markers; `detail` is what git said."""

    tree: str
    files: tuple[str, ...]
    detail: str


def trailers(run: str, task: str, attempt: int) -> str:
    """Return the last paragraph of a landed merge's message: the proof of which task it is."""
    return f"{RUN_TRAILER}: {run}\n{TASK_TRAILER}: {task}\n{ATTEMPT_TRAILER}: {attempt}\n"


def merge(repo: Repository, onto: str, head: str) -> Merged | Conflicted:
    """Merge two commits into a tree. Writes objects only; the same input gives the same tree."""
    args = ("merge-tree", "--write-tree", "-z", "--name-only", "--messages", onto, head)
    result = repo.sealed.try_run(*args)
    fields = result.stdout.decode("utf-8", "surrogateescape").split("\0")
    # Exit status 1 also means a bad argument; only with a tree it is a conflict.
    if result.rc not in (0, 1) or not fields[0]:
        raise GitError(args, result.rc, result.stderr)
    if result.rc == 0:
        return Merged(fields[0])
    end = fields.index("", 1)
    return Conflicted(fields[0], tuple(fields[1:end]), _messages(fields[end + 1 :]))


def commit_merge(repo: Repository, tree: str, onto: str, head: str, message: str) -> str:
    """Commit a merged tree with `onto` as first and `head` as second parent. No ref moves."""
    args = ("commit-tree", "-p", onto, "-p", head, tree)
    return repo.sealed.run(*args, stdin=message.encode("utf-8", "replace")).decode().strip()


def commit_conflict(repo: Repository, conflict: Conflicted, onto: str, head: str, message: str) -> str:
    """Commit a tree with conflict markers, as the start for an agent that resolves them."""
    return commit_merge(repo, conflict.tree, onto, head, message)


def move_branch(repo: Repository, ref: str, new: str, old: str) -> bool:
    """Move `ref` from `old` to `new`, or create it if `old` is all zeros or empty.

    True when the ref holds `new` afterwards, also when it did before. False when it holds something else, moved by
    somebody else. Raises GitError when git could not even try, for instance because of a stale lock.
    """
    before = old if old.strip("0") else ""
    expected = before or "0" * len(new)
    args = ("update-ref", "--create-reflog", "-m", "holdfast: land", ref, new, expected)
    result = repo.git.try_run(*args)
    if result.rc == 0:
        return True
    now = repo.read_ref(ref)
    if now == before:
        raise GitError(args, result.rc, result.stderr)
    return now == new


def _messages(fields: list[str]) -> str:
    """Return git's own sentences out of its records: a count, that many paths, a kind, a sentence."""
    sentences = []
    position = 0
    while position < len(fields) and fields[position].isdigit():
        after_paths = position + 1 + int(fields[position])
        sentences.append(fields[after_paths + 1].strip())
        position = after_paths + 2
    return "\n".join(sentences)
