"""The repository a run works on: found from where the user stands, and what can be read from it.

It changes nothing the user sees: `keep` writes refs of Holdfast's own, `hide` git's private exclude file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

from holdfast.errors import RepositoryError
from holdfast.paths import STATE_DIR, StateDir
from holdfast.repo.discovery import RepositoryLocation, find_repository, no_such_commit
from holdfast.repo.files import write_atomically
from holdfast.repo.git import Git, require_git
from holdfast.repo.index import changed_paths
from holdfast.repo.private_git_dir import PRIVATE_DIR, make_private_git_dir, unaccepted_filters

_OBJECT_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_TREES_KEPT = 256


class Repository:
    """One git repository.

    `git` is for refs, history and configuration. `private_git` is for everything that touches files or merges: it has the
    same objects, but its configuration cannot have been written by an agent.
    """

    def __init__(self, found: RepositoryLocation) -> None:
        identity = found.settings.identity()
        self.settings = found.settings
        self.common_dir = found.common_dir
        self.checkout = found.checkout
        self.here = found.git_dir
        self.git = Git(found.common_dir, identity)
        self.private_git = Git(make_private_git_dir(found.common_dir, found.settings), identity)
        self.state = StateDir.of_checkout(found.checkout)
        # Tasks that start from the same commit ask for the same trees, and a commit never gets another one.
        self._tree_of_commit = lru_cache(maxsize=_TREES_KEPT)(self._ask_tree)

    @classmethod
    def open(cls, start: Path) -> Repository:
        """Open the repository around `start`. Raises RepositoryError, with the way out, if it cannot be used."""
        require_git()
        return cls(find_repository(start))

    def resolve(self, rev: str) -> str:
        """Return the full id of the commit that `rev` names, seen from where the user stands."""
        question = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{rev}^{{commit}}")
        result = self.git.try_run(*question, git_dir=self.here)
        if result.rc != 0:
            raise no_such_commit(rev)
        return result.stdout.decode().strip()

    def head_branch(self) -> str:
        """Return the short name of the branch the user is on, or an empty string."""
        result = self.git.try_run("symbolic-ref", "--quiet", "--short", "HEAD", git_dir=self.here)
        return result.stdout.decode("utf-8", "surrogateescape").strip() if result.rc == 0 else ""

    def read_ref(self, ref: str) -> str:
        """Return the commit id that a full ref holds, or an empty string if there is no such ref."""
        result = self.git.try_run("rev-parse", "--verify", "--quiet", "--end-of-options", ref)
        return result.stdout.decode().strip() if result.rc == 0 else ""

    def ids_of(self, *revs: str) -> list[str]:
        """Return the object id of each revision, in one process; an empty string for one that leads nowhere."""
        questions = "\n".join(revs).encode("utf-8", "surrogateescape") + b"\n"
        answers = self.git.run("cat-file", "--batch-check=%(objectname)", stdin=questions).decode(
            "utf-8", "replace"
        )
        return [answer if _OBJECT_ID.fullmatch(answer) else "" for answer in answers.splitlines()]

    def tree_of(self, commit: str) -> str:
        """Return the tree id of a commit."""
        known = _OBJECT_ID.fullmatch(commit)
        return self._tree_of_commit(commit) if known else self._ask_tree(commit)

    def _ask_tree(self, commit: str) -> str:
        return self.git.text("rev-parse", "--verify", "--end-of-options", f"{commit}^{{tree}}")

    def is_ancestor(self, ancestor: str, descendant: str) -> bool:
        """Tell whether `descendant` contains `ancestor`. A commit contains itself; a missing one nothing."""
        return self.git.try_run("merge-base", "--is-ancestor", ancestor, descendant).rc == 0

    def merge_base(self, one: str, other: str) -> str:
        """Return the best common ancestor of two commits, or an empty string if they share no history."""
        result = self.git.try_run("merge-base", one, other)
        return result.stdout.decode().strip() if result.rc == 0 else ""

    def keep(self, ref: str, commit: str) -> None:
        """Make a private ref hold `commit`, so that nothing below it can be lost. Repeating it changes nothing."""
        self.git.run("update-ref", "--create-reflog", "-m", "holdfast: keep", ref, commit)

    def exists(self, commit: str) -> bool:
        """Tell whether the repository has this commit."""
        return not self.missing([commit])

    def missing(self, commits: Iterable[str]) -> frozenset[str]:
        """Return those of `commits` that the repository does not have."""
        asked = list(commits)
        if not asked:
            return frozenset()
        answer = self.git.run(
            "cat-file", "--batch-check=%(objecttype)", stdin="\n".join(asked).encode() + b"\n"
        )
        kinds = answer.decode().splitlines()
        return frozenset(commit for commit, kind in zip(asked, kinds, strict=True) if kind != "commit")

    def changed_files(self, old: str, new: str) -> tuple[str, ...]:
        """Return the paths that differ between two commits or trees."""
        output = self.git.run("diff-tree", "-r", "-z", "--name-only", "--no-renames", old, new)
        return tuple(path for path in output.decode("utf-8", "surrogateescape").split("\0") if path)

    def diff(self, old: str, new: str, max_bytes: int) -> str:
        """Return the difference of two commits as text, cut after `max_bytes` with a note that says so."""
        options = ("-p", "-r", "--find-renames", "--no-ext-diff", "--no-textconv", "--no-color")
        output, clipped = self.git.read_up_to(max_bytes, "diff-tree", *options, old, new)
        note = f"\n[cut after {max_bytes} bytes]\n" if clipped else ""
        return output.decode("utf-8", "replace") + note

    def file_at(self, commit: str, path: str) -> bytes | None:
        """Return the stored content of a file in a commit, or None if it has no such file."""
        result = self.git.try_run("cat-file", "blob", f"{commit}:{path}")
        return result.stdout if result.rc == 0 else None

    def commit_count(self, old: str, new: str) -> int:
        """Return how many commits `new` has beyond `old`."""
        return int(self.git.text("rev-list", "--count", f"{old}..{new}"))

    def notices(self) -> list[str]:
        """Return what the user should know before a run, one sentence each."""
        return list(_notices(self))

    def require_own_state_dir(self) -> None:
        """Raise RepositoryError if `.holdfast` leads elsewhere, where things would be deleted, or came with the repository.

        Whoever wrote the repository must not say how the user's agents are started, nor what the user agreed to.
        """
        if self.state.root.is_symlink():
            hint = f"Put the real folder in its place: `rm {STATE_DIR}`, then move what it pointed to here."
            raise RepositoryError(f"{self.state.root} is a symbolic link; Holdfast does not follow it.", hint)
        tracked = self.git.run("ls-files", "-z", "--", STATE_DIR).split(b"\0")[0]
        if tracked:
            raise RepositoryError(
                f"{tracked.decode('utf-8', 'replace')} is tracked by git: it came with the repository, not from you.",
                f"Read what is in {STATE_DIR}, then delete it, or keep it for yourself alone: `git rm -r --cached {STATE_DIR}`.",
            )

    def hide_state_dir(self) -> None:
        """Keep `.holdfast/` out of `git status`. Hidden before, nothing changes."""
        self.hide(STATE_DIR)

    def hide(self, folder: str) -> None:
        """Keep a folder of the checkout out of `git status` through the private exclude file. Adds its line only once."""
        line = f"/{folder}/".encode()
        exclude = self.common_dir / "info" / "exclude"
        exclude.parent.mkdir(exist_ok=True)
        content = exclude.read_bytes() if exclude.exists() else b""
        if line not in content.splitlines():
            gap = b"" if not content or content.endswith(b"\n") else b"\n"
            write_atomically(exclude, content + gap + line + b"\n")


def _notices(repo: Repository) -> Iterator[str]:
    if not repo.head_branch():
        yield "HEAD is detached: the run starts from the commit it is on."
    if (repo.common_dir / "shallow").exists():
        yield "The clone is shallow: merges may lack the history they need; `git fetch --unshallow` completes it."
    if (repo.checkout / ".gitmodules").exists():
        yield "Submodules are not checked out in the agents' workspaces."
    if repo.settings.is_true("core.sparsecheckout"):
        yield "The checkout is sparse; the agents' workspaces hold every file."
    if count := len(_uncommitted(repo)):
        noun = "change" if count == 1 else "changes"
        yield f"The checkout has {count} uncommitted {noun}, not part of the run."
    for key in unaccepted_filters(repo.common_dir, repo.settings):
        folder = repo.common_dir / PRIVATE_DIR
        yield f"{key} is newer than Holdfast's use of this repository and is not run; delete {folder} to accept it."


def _uncommitted(repo: Repository) -> set[str]:
    index = repo.common_dir / "index"
    unstaged = changed_paths(repo.private_git, repo.checkout, index)
    head = repo.git.text("rev-parse", "--verify", "HEAD")
    env = {"GIT_INDEX_FILE": str(index)}
    staged = repo.private_git.run("diff-index", "--cached", "--name-only", "-z", head, env=env)
    return {*unstaged, *staged.decode("utf-8", "surrogateescape").split("\0")} - {""}
