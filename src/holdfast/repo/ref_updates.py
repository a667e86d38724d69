"""Moves and deletes refs so that a power cut cannot undo it: the only place where Holdfast runs `git update-ref`.

Before a ref moves, all objects are on disk. Git itself syncs the new content of a ref (`core.fsync`), but neither its
name nor its log. The name is on disk when a call returns, and so is the log of a private ref, if it has one: the earlier
snapshots of a task can be reached through it alone. Nothing relies on the log of a branch, which git keeps for the user.
A sync that fails raises OSError: the caller must not acknowledge anything.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from holdfast.core.ids import ALL_RUN_REFS
from holdfast.disk_sync import DurableNames, sync, sync_all, sync_if_there
from holdfast.repo.git import Git, as_lines
from holdfast.repo.object_sync import ObjectSync
from holdfast.system_errors import doing

_REPOSITORY_FILES = ("HEAD", "config", "index", "packed-refs", "shallow")


class RefUpdates:
    """Changes the refs of one repository. Several threads may use it."""

    def __init__(self, git: Git) -> None:
        self._git = git
        self._objects = ObjectSync(git.git_dir / "objects")
        self._names = DurableNames()
        self._is_repository_synced = False

    def move(self, ref: str, commit: str, reason: str, expected: str = "", *, logged: bool = False) -> None:
        """Make `ref` hold `commit`, provided that it holds what is `expected`, if anything is. Idempotent.

        All zeros are expected of a ref that does not exist yet. What a `logged` ref held before stays reachable.
        Raises GitError if git refuses.
        """
        self.sync_objects()
        log = ["--create-reflog"] if logged else []
        comparison = [expected] if expected else []
        self._git.run("update-ref", *log, "-m", f"holdfast: {reason}", ref, commit, *comparison)
        self._sync_ref(ref)

    def delete(self, refs: Mapping[str, str]) -> None:
        """Delete refs, all of them or none. One that does not hold the commit given for it is an error."""
        if not refs:
            return
        lines = as_lines(f"delete {ref} {commit}" for ref, commit in refs.items())
        self._git.run("update-ref", "--stdin", stdin=lines)
        root = self._git.git_dir
        sync_if_there(root)  # in which `packed-refs` is
        for folder in {Path(ref).parent for ref in refs}:
            for place in (root / folder, root / "logs" / folder):
                self._sync_folder(str(place))

    def sync(self, ref: str) -> None:
        """Make a ref durable as it is, which somebody else moved, or a process that was killed before it could sync."""
        self.sync_objects()
        for name in (ref, "packed-refs"):
            sync_if_there(f"{self._git.git_dir}/{name}")
        self._sync_ref(ref)

    def sync_objects(self) -> None:
        """Make all objects durable, before another git command than `update-ref` moves a ref to some of them."""
        with doing("sync the objects of the repository to disk"):
            self._objects.sync_new()
            if not self._is_repository_synced:
                self._sync_repository()
                self._is_repository_synced = True

    def _sync_repository(self) -> None:
        """Sync what makes it a repository, and its name. The user may have made it a moment ago."""
        root = self._git.git_dir
        files = [path for path in map(root.joinpath, _REPOSITORY_FILES) if path.is_file()]
        folders = [path for path in (root, root.parent, root.parent.parent) if os.access(path, os.R_OK)]
        sync_all([*map(str, files), *map(str, folders)], str(root))

    def _sync_ref(self, ref: str) -> None:
        log = f"{self._git.git_dir}/logs/{ref}"
        with doing(f"sync {ref} to disk"):
            if ref.startswith(ALL_RUN_REFS) and os.path.lexists(log):
                sync(log)
                self._names.sync_name(log, str(self._git.git_dir))
            self._sync_folder(str((self._git.git_dir / ref).parent))

    def _sync_folder(self, folder: str) -> None:
        """Sync what changed in a folder of refs or logs, and its own name."""
        sync_if_there(folder)
        self._names.sync_name(folder, str(self._git.git_dir))
