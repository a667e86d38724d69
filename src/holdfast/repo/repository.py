"""The repository a run works on: how it is found from the user's directory, and reads from it.

It changes nothing that the user sees: `keep` writes refs of Holdfast's own, `hide` git's private exclude file.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Collection, Iterable
from functools import lru_cache
from pathlib import Path

from holdfast.errors import RepositoryError
from holdfast.paths import STATE_DIR, StateDir, is_of_state_dir
from holdfast.repo.discovery import (
    RepositoryLocation,
    find_repository,
    first_commit_of_named,
    no_such_commit,
    repository_id,
)
from holdfast.repo.files import write_durably
from holdfast.repo.git import CommitIdentity, Git, GitResult, Setting, as_lines, decode_text, require_git
from holdfast.repo.private_git_dir import PrivateGitDir, configured_filters
from holdfast.repo.ref_updates import RefUpdates
from holdfast.repo.state_folder import require_own_state_dir
from holdfast.repo.torn_objects import remove_torn_objects_after_reboot
from holdfast.system_errors import doing

_OBJECT_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_TREES_KEPT = 256


class Repository:
    """One git repository.

    `git` is for refs and history. `private_git` is for everything that touches files or merges: it has an index and a HEAD
    of its own. No agent can have written the configuration of either. `current_git_dir` is that of the worktree in which
    the user stands. Of the content filters in the repository's configuration only those in `accepted` are run.
    """

    def __init__(self, found: RepositoryLocation, accepted: Collection[Setting] = ()) -> None:
        identity = found.config.identity()
        private = PrivateGitDir(found.common_dir, found.config, accepted)
        self._found = found
        self._accepted = frozenset(accepted)
        self.config = found.config
        self.common_dir = found.common_dir
        self.checkout = found.checkout
        self.current_git_dir = found.git_dir
        self._private_git = _private_git(found, identity, private)
        # To look must work on any disk, also where no private directory can be made.
        usable = None if isinstance(self._private_git, OSError) else private
        self.git = Git(found.common_dir, identity, private=usable)
        self.ref_updates = RefUpdates(self.git)
        self.state_dir = StateDir.of_checkout(found.checkout)
        # Tasks that start from the same commit ask for the same trees, and a commit's tree never changes.
        self._tree_of_commit = lru_cache(maxsize=_TREES_KEPT)(self._ask_tree)

    @property
    def private_git(self) -> Git:
        """Git on the private git directory. Raises OSError if that could not be made."""
        if isinstance(self._private_git, OSError):
            raise self._private_git
        return self._private_git

    @classmethod
    def open(cls, start: Path) -> Repository:
        """Open the repository around `start`. Raises RepositoryError, with a hint, if it cannot be used."""
        require_git()
        return cls(find_repository(start))

    def id(self) -> str:
        """Return the name that all clones of this repository share. Raises RepositoryError if it cannot be known."""
        return repository_id(self._found)

    def first_commit_of_named(self) -> str:
        """Return the first commit if the id is a name that the user chose, and the commit is here; else an empty string."""
        return first_commit_of_named(self._found)

    def with_filters(self, accepted: Collection[Setting]) -> Repository:
        """Return the same repository, with these content filters of its configuration in use."""
        return Repository(self._found, accepted) if frozenset(accepted) != self._accepted else self

    def unused_filters(self) -> list[Setting]:
        """Return the content filters of the repository's configuration that are not in use."""
        return [setting for setting in configured_filters(self.config) if setting not in self._accepted]

    def resolve(self, rev: str) -> str:
        """Return the full id of the commit that `rev` names, seen from where the user stands."""
        question = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{rev}^{{commit}}")
        if not (commit := _answer(self.git.try_run(*question, git_dir=self.current_git_dir))):
            raise no_such_commit(rev)
        return commit

    def head_branch(self) -> str:
        """Return the short name of the branch the user is on, or an empty string."""
        question = ("symbolic-ref", "--quiet", "--short", "HEAD")
        return _answer(self.git.try_run(*question, git_dir=self.current_git_dir))

    def read_ref(self, ref: str) -> str:
        """Return the commit id that a full ref holds, or an empty string if there is no such ref."""
        return _answer(self.git.try_run("rev-parse", "--verify", "--quiet", "--end-of-options", ref))

    def ids_of(self, *revs: str) -> list[str]:
        """Return the object id of each revision, in one process; an empty string for a missing one."""
        answers = self.git.text("cat-file", "--batch-check=%(objectname)", stdin=as_lines(revs))
        return [answer if _OBJECT_ID.fullmatch(answer) else "" for answer in answers.splitlines()]

    def tree_of(self, commit: str) -> str:
        """Return the tree id of a commit."""
        known = _OBJECT_ID.fullmatch(commit)
        return self._tree_of_commit(commit) if known else self._ask_tree(commit)

    def _ask_tree(self, commit: str) -> str:
        return self.git.text("rev-parse", "--verify", "--end-of-options", f"{commit}^{{tree}}")

    def is_ancestor(self, ancestor: str, descendant: str) -> bool:
        """Tell whether `descendant` contains `ancestor`. A commit contains itself; a missing one, nothing."""
        return self.git.try_run("merge-base", "--is-ancestor", ancestor, descendant).rc == 0

    def is_complete(self, commit: str, known: str) -> bool:
        """Tell whether every object of a commit's history is there, without looking below a `known` commit, if any.

        Git stores objects unsynced unless it is told otherwise: after a power cut those of an agent's commits may be gone.
        """
        below = ("--not", known) if known else ()
        return self.git.try_run("rev-list", "--objects", "--quiet", commit, *below).rc == 0

    def is_well_formed(self, commit: str, known: str) -> bool:
        """Tell whether a server would take a commit's history down to a `known` commit: git stores objects that git refuses.

        Commits and trees are packed, and git checks the pack as one from a stranger. Nothing is kept of it.
        """
        revs = as_lines([commit, *([f"^{known}"] if known else [])])
        pack = self.private_git.try_run(
            "pack-objects", "--revs", "--stdout", "-q", "--filter=blob:none", stdin=revs
        )
        if pack.rc != 0:
            return False
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "new.pack")
            file.write_bytes(pack.stdout)
            index = file.with_suffix(".idx")
            return (
                self.private_git.try_run("index-pack", "--fsck-objects", "-o", str(index), str(file)).rc == 0
            )

    def merge_base(self, one: str, other: str) -> str:
        """Return the best common ancestor of two commits, or an empty string if they share no history."""
        return _answer(self.git.try_run("merge-base", one, other))

    def keep(self, ref: str, commit: str, *, logged: bool = False) -> None:
        """Make a private ref hold `commit`, so that its history cannot be lost, not even to a power cut. Idempotent.

        What a `logged` ref held before can be reached, too.
        """
        self.ref_updates.move(ref, commit, "keep", logged=logged)

    def exists(self, commit: str) -> bool:
        """Tell whether the repository has this commit."""
        return not self.missing([commit])

    def missing(self, commits: Iterable[str]) -> frozenset[str]:
        """Return those of `commits` that the repository does not have."""
        asked = list(commits)
        if not asked:
            return frozenset()
        kinds = self.git.text("cat-file", "--batch-check=%(objecttype)", stdin=as_lines(asked)).splitlines()
        return frozenset(commit for commit, kind in zip(asked, kinds, strict=True) if kind != "commit")

    def changed_files(self, old: str, new: str) -> tuple[str, ...]:
        """Return the paths that differ between two commits or trees."""
        return self.git.paths("diff-tree", "-r", "-z", "--name-only", "--no-renames", old, new)

    def diff(self, old: str, new: str, max_bytes: int) -> str:
        """Return the difference of two commits as text, cut after `max_bytes` with a note that says so."""
        options = ("-p", "-r", "--find-renames", "--no-ext-diff", "--no-textconv", "--no-color")
        output, clipped = self.git.read_up_to(max_bytes, "diff-tree", *options, old, new)
        if not clipped:
            return output.decode("utf-8", "replace")
        # The last word may be half a secret, which nobody would know as one.
        whole = output[: max(output.rfind(b" "), output.rfind(b"\n")) + 1]
        return whole.decode("utf-8", "replace") + f"\n[cut after {max_bytes} bytes]\n"

    def file_at(self, commit: str, path: str) -> bytes | None:
        """Return the stored content of a file in a commit, or None if it has no such file."""
        result = self.git.try_run("cat-file", "blob", f"{commit}:{path}")
        return result.stdout if result.rc == 0 else None

    def commit_count(self, old: str, new: str) -> int:
        """Return how many commits `new` has beyond `old`."""
        return int(self.git.text("rev-list", "--count", f"{old}..{new}"))

    def require_own_state_dir(self) -> None:
        """Raise RepositoryError if `.holdfast` is not the user's own, or leads elsewhere."""
        require_own_state_dir(self.state_dir, self.common_dir)

    def require_no_state_dir(self, commit: str) -> None:
        """Raise RepositoryError if a commit brings a `.holdfast` along: it would be checked out into every workspace."""
        for name in self.git.paths("ls-tree", "-z", "--full-tree", "--name-only", commit):
            if is_of_state_dir(name):
                raise RepositoryError(
                    f"The commit {commit[:12]} tracks {name}: that name is for Holdfast's own folder, which no commit may bring along.",
                    f"Remove it from git, and commit that: `git rm -r --cached {name}`.",
                )

    def prepare_state_dir(self) -> None:
        """Keep `.holdfast/` out of `git status`, before anything is written there. Idempotent.

        Raises RepositoryError if it is not the user's own.
        """
        self.require_own_state_dir()
        self.hide(STATE_DIR)

    def hide(self, folder: str) -> None:
        """Keep a folder of the checkout out of `git status` through the private exclude file. Adds its line only once."""
        line = f"/{folder}/".encode()
        exclude = self.common_dir / "info" / "exclude"
        with doing(f"keep {folder} out of `git status`", exclude):
            content = exclude.read_bytes() if exclude.is_file() else b""
            if line not in content.splitlines():
                gap = b"" if not content or content.endswith(b"\n") else b"\n"
                write_durably(exclude, content + gap + line + b"\n")


def _private_git(
    found: RepositoryLocation, identity: CommitIdentity | None, private: PrivateGitDir
) -> Git | OSError:
    """Prepare the private git directory, and its objects after a reboot: all that we write is made by its git.

    An error is kept for who needs it: to look must work on any disk.
    """
    try:
        with doing("prepare Holdfast's own git directory"):
            private.make()
        with doing("remove objects that a power cut tore"):
            remove_torn_objects_after_reboot(found.common_dir)
        return Git(private.path, identity, private=private)
    except OSError as error:
        return error


def _answer(result: GitResult) -> str:
    """Return what git answered, or an empty string if it had no answer."""
    return decode_text(result.stdout).strip() if result.rc == 0 else ""
