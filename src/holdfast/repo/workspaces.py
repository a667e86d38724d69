"""The pool of working trees in which agents and checks work.

Each is a linked worktree, so git works in it as usual; if its processes are in a sandbox, it is a clone (see
`workspace_clone.py`), because they do not see the repository. Holdfast writes the few files behind it by itself, aside, and
moves them into place in one step: `git worktree add`, killed half-way or run twice at once, can break the
whole repository. For the same reason nothing here runs git on administrative files that an agent could have
edited: they are rewritten before each use, and an index that only Holdfast writes brings the work tree to the
wanted commit.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Collection
from pathlib import Path

from holdfast.core.plan import PlanWorkspace
from holdfast.errors import RepositoryError
from holdfast.mounts import require_no_mounts
from holdfast.repo.blocking_files import remove_blocking_files
from holdfast.repo.files import (
    copy_atomically,
    holds,
    is_closed,
    is_plain_directory,
    is_there,
    remove,
    remove_if_allowed,
    write_atomically,
)
from holdfast.repo.git import GitError
from holdfast.repo.index import gitlinks, without_filters
from holdfast.repo.prepared_files import PreparedFiles, remove_touched
from holdfast.repo.private_git_dir import private_dir
from holdfast.repo.repository import Repository
from holdfast.repo.workspace import (
    OWN_SUFFIXES,
    Workspace,
    admin_files,
    has_head,
    repair_git_files,
    reset_git_files,
    staging_folder,
    write_files,
)
from holdfast.repo.workspace_clone import make_clone, restore_borrowing, still_borrows
from holdfast.repo.workspace_files import (
    SetupRecord,
    bring_files,
    ignore_patterns,
    read_record,
    write_record,
)

ADMIN_PREFIX = "holdfast-"
_TRASH_PREFIX = ".removed-"
_UNCOMMITTED_PREFIX = ".uncommitted-"
MODULES = "modules"
"""Where git keeps the repositories of submodules, below the git directory of a working tree."""
_KEPT_MODULES = ".git-modules-"
"""How the folder begins in which they are in a workspace that was moved away."""


class Workspaces:
    """The workspaces of one run, `directory/<name>`. Different names may be used by different threads at once.

    `clones` says what is prepared from now on; each that was prepared before is what it was.
    """

    def __init__(
        self,
        repo: Repository,
        directory: Path,
        *,
        clones: bool = False,
        setting: PlanWorkspace = PlanWorkspace(),  # noqa: B008 - frozen
    ) -> None:
        self._repo = repo
        self.directory = directory
        self._clones = clones
        self._setting = setting
        self._prepared: dict[str, PreparedFiles] = {}
        self._indexes = private_dir(repo.common_dir) / "indexes"
        # Another run has workspaces of the same names, so git's name for one includes the directory, as seen from the
        # checkout: whoever moves the repository moves both.
        is_inside = directory.is_relative_to(repo.checkout)
        place = directory.relative_to(repo.checkout) if is_inside else directory
        self._prefix = _admin_prefix(directory.name, _digest(place))
        self._earlier = self._earlier_names()

    def _earlier_names(self) -> dict[str, str]:
        """Return the workspaces that an earlier version made and named after the whole path, each with git's name for it.

        The repository may have been moved since. A run's name is unique in it, so any digest will do.
        """
        ours = self.directory.is_relative_to(self._repo.state_dir.root)
        digest = "[0-9a-f]{8}" if ours else _digest(self.directory)
        shape = re.compile(rf"({_admin_prefix(self.directory.name, digest)}(.+))\.(?:index|start)")
        found = (shape.fullmatch(path.name) for path in _listing(self._indexes))
        named = {match[2]: match[1] for match in found if match and not match[1].startswith(self._prefix)}
        return {name: admin for name, admin in named.items() if not self._is_known(name)}

    def _is_known(self, name: str) -> bool:
        """Tell whether a workspace has its present name."""
        files = (self._indexes / f"{self._prefix}{name}{suffix}" for suffix in (".index", ".start"))
        return any(map(os.path.lexists, files))

    def get(self, name: str) -> Workspace:
        """Return where a workspace is, whether or not it exists yet."""
        path, admin = self.directory / name, self._earlier.get(name, self._prefix + name)
        linked = self._repo.common_dir / "worktrees" / admin
        git_dir = path / ".git" if self._is_clone(path, linked) else linked
        return Workspace(path, git_dir, self._indexes / f"{admin}.index", self._setting.brought)

    def _is_clone(self, path: Path, linked: Path) -> bool:
        """Tell whether a workspace is a clone, or will be one. Elsewhere than in our folder, `.git` may be the user's."""
        if not self.directory.is_relative_to(self._repo.state_dir.root) or os.path.lexists(linked):
            return False
        return self._clones or is_plain_directory(path / ".git")

    def path(self, name: str) -> Path:
        """Return the directory of a workspace."""
        return self.get(name).path

    def names(self) -> list[str]:
        """Return the workspaces of which anything exists: directory, administrative files or index."""
        found = {path.name for path in _listing(self.directory) if not path.name.startswith(".")}
        for folder, suffix in ((self._repo.common_dir / "worktrees", ""), (self._indexes, ".index")):
            ours = (path.name for path in _listing(folder) if path.name.startswith(self._prefix))
            found |= {
                name.removeprefix(self._prefix).removesuffix(suffix) for name in ours if name.endswith(suffix)
            }
        return sorted(found.union(self._earlier))

    def is_intact(self, name: str) -> bool:
        """Tell whether an agent's git would work in this workspace as it was prepared."""
        workspace = self.get(name)
        closed = is_closed(workspace.path) or is_closed(workspace.git_dir)
        if closed or not is_plain_directory(workspace.path) or not workspace.index.is_file():
            return False
        if workspace.is_clone:
            return still_borrows(self._repo, workspace.git_dir) and has_head(workspace)
        files = admin_files(workspace)
        if not all(holds(path, content) for path, content in files.items()):
            return False
        return workspace.points_to_git_dir() and has_head(workspace)

    def prepare(self, name: str, commit: str, *, or_raw: bool = False) -> Path:
        """Make the workspace hold exactly `commit`, on no branch, and return its directory.

        With `or_raw`, files are as they are stored if a content filter fails: an agent wrote that commit. The earlier
        content is gone afterwards: the caller has committed it first, and no process works in it. Safe to repeat.
        What a plan keeps stays if set-up had made it whole. Copies and links of the checkout are put in last.
        """
        self._require_real_parent()
        workspace = self._of_wanted_kind(name)
        workspace.unlock()
        self._indexes.mkdir(parents=True, exist_ok=True)
        remove(workspace.index.with_name(workspace.index.name + ".lock"))
        remove(workspace.start_file)
        prepared = self._prepared.pop(name, None)
        kept = self._kept(workspace)
        try:
            require_no_mounts(workspace.path)
            self._reset(workspace, commit)
            remove_touched(workspace.path, workspace.index, prepared, kept)
            self._fill(workspace, commit, kept=kept)
        except (GitError, PermissionError):
            # The index may be damaged, directories too deep for git, or another user's, as a container leaves them. Or
            # something is mounted in there, which git would empty. Start from nothing, once.
            remove(workspace.index)
            remove(workspace.setup_file)
            remove_if_allowed(self._move_aside(workspace))
            self._reset(workspace, commit)
            self._fill_afresh(workspace, commit, or_raw)
        write_atomically(workspace.start_file, commit.encode())
        copy_atomically(workspace.index, workspace.git_dir / "index")
        self._prepared[name] = PreparedFiles.of(workspace.path, workspace.index)
        self._bring(workspace)
        return workspace.path

    def _kept(self, workspace: Workspace) -> tuple[str, ...]:
        """Return the paths that stay. What an unfinished set-up left is not trusted; it goes, and so does its record.

        So it is if a link stands in the place of what is kept: an agent can make one that leads anywhere.
        """
        is_complete = read_record(workspace.setup_file).complete
        if is_complete and not any(_is_behind_link(workspace.path, path) for path in self._setting.keep):
            return self._setting.keep
        remove(workspace.setup_file)
        return ()

    def _bring(self, workspace: Workspace) -> None:
        """Put in what the plan brings. Before that, write down that it never lands."""
        record, brought = read_record(workspace.setup_file), self._setting.brought
        if not record.complete or not set(brought) <= set(record.left_out):
            write_record(workspace.setup_file, SetupRecord(left_out=brought))
        bring_files(self._repo.checkout, workspace.path, self._setting)

    def restore_tracked(self, name: str) -> None:
        """Bring the tracked files of a workspace that nobody uses back to the commit that was put into it."""
        workspace = self.get(name)
        command = ("read-tree", "--reset", "-u", workspace.start())
        self._repo.private_git.run(*command, work_tree=workspace.path, index=workspace.index)

    def _reset(self, workspace: Workspace, commit: str) -> None:
        """Make the directory if it is missing, and git's files about it, on `commit`."""
        if not is_plain_directory(workspace.path):
            remove(workspace.path)
            workspace.path.mkdir()
        if workspace.is_clone:
            make_clone(self._repo, workspace.git_dir, commit, ignore_patterns(self._setting.brought))
        else:
            reset_git_files(workspace, commit)

    def _of_wanted_kind(self, name: str) -> Workspace:
        """Return a workspace that is to be prepared. If it was one of the other kind, git's files about it are removed."""
        before = self.get(name)
        if before.is_clone != self._clones or name in self._earlier:
            remove(before.git_dir)
        if name in self._earlier:
            self._forget(before)
        return self.get(name)

    def _forget(self, workspace: Workspace) -> None:
        """Remove what we know about a workspace whose directory is moved away, or about to be prepared anew."""
        for file in (workspace.start_file, workspace.setup_file, workspace.ports_file):
            remove(file)
        remove(workspace.index)  # late: after an earlier kill, `names` still finds the rest by this name
        self._earlier.pop(workspace.path.name, None)

    def repair(self, name: str) -> list[str]:
        """Make git work again in and around a workspace nobody uses, keeping its files, its HEAD and the agent's index.

        Returns the names of what was replaced or removed; nothing if all was well.
        """
        workspace = self.get(name)
        if not is_plain_directory(workspace.path):
            self.remove(name)
            return [name]
        if workspace.is_persons and is_closed(workspace.path):
            return []
        workspace.unlock()
        done = [
            path for path in _listing(workspace.git_dir) if path.suffix == ".lock" or path.name == "locked"
        ]
        for path in done:
            remove(path)
        if not self.is_intact(name) and is_plain_directory(workspace.git_dir):
            done += self._repair_clone(workspace) if workspace.is_clone else repair_git_files(workspace)
        return [path.name for path in done]

    def restore_start(self, name: str, commit: str) -> None:
        """Write down which commit was put into a workspace, if nothing says so any more: somebody deleted our files about it.

        What differs from it is work. Nothing happens if the start is known.
        """
        workspace = self.get(name)
        if not workspace.start():
            self._indexes.mkdir(parents=True, exist_ok=True)
            write_atomically(workspace.start_file, commit.encode())

    def reconnect(self, name: str) -> None:
        """Tell git where a workspace is now if that, in turn, points to git's files about it: the repository was moved.

        A live agent is not disturbed.
        """
        workspace = self.get(name)
        if not workspace.is_clone and workspace.points_to_git_dir() and is_plain_directory(workspace.git_dir):
            write_files(admin_files(workspace))

    def _repair_clone(self, workspace: Workspace) -> list[Path]:
        done = restore_borrowing(self._repo, workspace.git_dir)
        if not has_head(workspace) and (start := workspace.start()):
            done += write_files({workspace.git_dir / "HEAD": start.encode() + b"\n"})
        return done

    def forget_files(self) -> None:
        """Forget what the workspaces' indexes know about files, so that git reads each of them again.

        After a power cut a file may be torn although it has the size and time that the index knows. What set-up made is
        not used again, for the same reason; that it never lands stays known.
        """
        for workspace in map(self.get, self.names()):
            known = read_record(workspace.setup_file)
            write_record(workspace.setup_file, SetupRecord(left_out=known.left_out))
            remove(workspace.index)

    def leftovers(self) -> list[Path]:
        """Return the files that a killed commit or preparation of a workspace of this pool left behind."""
        folders = (self._indexes, private_dir(self._repo.common_dir) / "staging")
        names = (self._prefix, *(f"{admin}." for admin in self._earlier.values()))
        ours = [path for folder in folders for path in _listing(folder) if path.name.startswith(names)]
        return [path for path in ours if path.suffix not in OWN_SUFFIXES]

    def remove_all(self) -> None:
        """Delete every workspace of the pool. Idempotent.

        The caller has committed the work of each workspace, or taken a snapshot, and no process works in one.
        """
        for path in self.put_aside_all():
            remove_if_allowed(path)
        self.remove_if_empty()

    def put_aside_all(self, keep: Collection[str] = ()) -> list[Path]:
        """Move every workspace of the pool aside but those to `keep`, which takes no time; return the folders that are to be deleted.

        Nothing finds a workspace in them any more. A kill leaves folders that this returns again.
        """
        self._drop_link()
        for name in self.names():
            if name not in keep:
                self._put_aside(name)
        return self.undeletable()

    def remove_if_empty(self) -> None:
        """Delete the pool's directory if nothing is in it."""
        if is_plain_directory(self.directory) and not any(self.directory.iterdir()):
            self.directory.rmdir()

    def undeletable(self) -> list[Path]:
        """Return the folders that were moved aside and are still there.

        They are being deleted now, another user's files are in them, or who deleted them was killed.
        """
        return [path for path in _listing(self.directory) if path.name.startswith(_TRASH_PREFIX)]

    def move_uncommitted(self, name: str) -> Path:
        """Move away a workspace whose files cannot be committed; return its new place, where it stays. The next is fresh.

        The history of its submodules goes along: git keeps it among its own files about the workspace, which are removed.
        """
        workspace = self.get(name)
        self._require_real_parent()
        workspace.unlock()
        modules = workspace.git_dir / MODULES
        if is_plain_directory(modules) and is_plain_directory(workspace.path):
            # Under a new name each time: a kill may leave half of them there, and all of them here.
            shutil.move(modules, workspace.path / f"{_KEPT_MODULES}{os.urandom(4).hex()}")
        kept = self._move_aside(workspace, _UNCOMMITTED_PREFIX)
        self._forget(workspace)
        return kept

    def uncommitted(self, names: str = "") -> list[Path]:
        """Return the folders of files that could not be committed, of workspaces whose names begin like this."""
        return [
            path for path in _listing(self.directory) if path.name.startswith(_UNCOMMITTED_PREFIX + names)
        ]

    def remove(self, name: str) -> None:
        """Delete one workspace. What belongs to another user stays, moved aside."""
        remove_if_allowed(self._put_aside(name))

    def _put_aside(self, name: str) -> Path:
        workspace = self.get(name)
        self._require_real_parent()
        aside = self._move_aside(workspace)
        self._forget(workspace)
        return aside

    def _move_aside(self, workspace: Workspace, prefix: str = _TRASH_PREFIX) -> Path:
        """Move a workspace's directory away and return its new place: a kill leaves no partial workspace behind.

        Git's files about it are deleted. They, too, can hold what another user's git made: that is moved aside as well.
        """
        aside = self.directory / f"{prefix}{workspace.path.name}-{os.urandom(4).hex()}"
        if os.path.lexists(workspace.path):
            workspace.path.rename(aside)
        try:
            remove(workspace.git_dir)
        except PermissionError:
            workspace.git_dir.rename(
                staging_folder(self._repo.common_dir) / f"{workspace.git_dir.name}.{os.urandom(4).hex()}"
            )
        return aside

    def _require_real_parent(self) -> None:
        """Make the pool's directory. Raises RepositoryError if deleting in it would delete somewhere else.

        Also if the repository is gone: somebody moved it, and its old place must stay empty.
        """
        if not is_plain_directory(self._repo.common_dir):
            hint = "Was the repository moved? `holdfast resume`, where it is now, continues."
            raise RepositoryError(f"The git directory {self._repo.common_dir} is gone.", hint)
        self._drop_link()
        self.directory.mkdir(parents=True, exist_ok=True)
        if self.directory.resolve() != self.directory:
            hint = "Remove the symbolic link; Holdfast deletes files in there and must not do so elsewhere."
            raise RepositoryError(f"{self.directory} is reached through a symbolic link.", hint)

    def _drop_link(self) -> None:
        """Remove a link that is where our folder should be. What it points to stays."""
        if self.directory.is_symlink() and self.directory.is_relative_to(self._repo.state_dir.root):
            self.directory.unlink()

    def _fill_afresh(self, workspace: Workspace, commit: str, or_raw: bool) -> None:
        try:
            self._fill(workspace, commit)
        except GitError as error:
            if not (or_raw and error.is_about_filter):
                raise
            self._fill(workspace, commit, *without_filters(self._repo.private_git))

    def _fill(self, workspace: Workspace, commit: str, *options: str, kept: tuple[str, ...] = ()) -> None:
        workspace.require_present()
        remove_blocking_files(workspace.path)
        git = self._repo.private_git
        # Git leaves alone what is inside a submodule, but an agent may have checked one out there.
        for path in gitlinks(git, workspace.index):
            if is_there(workspace.path, workspace.path / path):
                remove(workspace.path / path)
        excepted = [f"--exclude={pattern}" for pattern in ignore_patterns(kept)]
        for command in (("clean", "-ffdxq", *excepted), ("read-tree", "--reset", "-u", commit)):
            git.run(*options, *command, work_tree=workspace.path, index=workspace.index)


def _admin_prefix(folder: str, digest: str) -> str:
    """Return how git's names for the workspaces in a folder begin. The folder's own name is for people."""
    return f"{ADMIN_PREFIX}{re.sub(r'[^A-Za-z0-9-]', '-', folder)}-{digest}-"


def _is_behind_link(root: Path, path: str) -> bool:
    """Tell whether a path below `root` is a link, or a folder on the way to it is."""
    return any((root / part).is_symlink() for part in (Path(path), *Path(path).parents))


def _digest(folder: Path) -> str:
    return hashlib.sha256(os.fsencode(folder)).hexdigest()[:8]


def _listing(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if is_plain_directory(folder) else []
