"""One workspace: a working tree, the files that git keeps about it, and Holdfast's own beside its index.

A linked worktree's files are here; those of a clone are in `workspace_clone.py`. Which workspaces a run has, and how they are
prepared, repaired and removed, is in `workspaces.py`.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from holdfast.core.ids import TAKEN_PREFIX
from holdfast.errors import RepositoryError
from holdfast.repo.agent_files import read_plain
from holdfast.repo.blocking_files import remove_blocking_files
from holdfast.repo.files import (
    GIT_FILE_BYTES_MAX,
    holds,
    is_closed,
    is_plain_directory,
    open_up,
    read_regular,
    remove,
    write_durably,
)
from holdfast.repo.index import changed_paths
from holdfast.repo.private_git_dir import private_dir
from holdfast.repo.repository import Repository
from holdfast.repo.workspace_files import ignore_patterns, read_record

_START, _SETUP, _PORTS = ".start", ".setup", ".ports"
OWN_SUFFIXES = (".index", _START, _SETUP, _PORTS)
"""How the names of Holdfast's own files about a workspace end. They lie beside each other."""
_COMMIT_ID = rb"(?!0+\s*$)(?:[0-9a-f]{40}|[0-9a-f]{64})"


class WorkspaceGoneError(RepositoryError):
    """A workspace's directory was deleted, or replaced by something that is no directory."""


@dataclass(frozen=True, slots=True)
class Workspace:
    """One working tree: its directory, git's files about it, and the index that is Holdfast's own.

    `brought` are the paths that the plan brings into it.
    """

    path: Path
    git_dir: Path
    index: Path
    brought: tuple[str, ...] = ()

    @property
    def is_clone(self) -> bool:
        """Whether git's files are in the directory itself."""
        return self.git_dir.parent == self.path

    @property
    def is_persons(self) -> bool:
        """Whether the files in it are those of a person who took a task. We read them, and change none."""
        return self.path.name.startswith(TAKEN_PREFIX)

    @property
    def start_file(self) -> Path:
        """The file that holds the commit which was last put into the workspace."""
        return self.index.with_suffix(_START)

    @property
    def setup_file(self) -> Path:
        """The file that holds the record of its set-up."""
        return self.index.with_suffix(_SETUP)

    @property
    def ports_file(self) -> Path:
        """The file that holds the first of its network ports."""
        return self.index.with_suffix(_PORTS)

    @property
    def left_out(self) -> tuple[str, ...]:
        """The paths in it that never land: what was brought in, what is kept, and what set-up made.

        The plan counts as well as the record: a power cut can tear that, and somebody can delete it.
        """
        return tuple(dict.fromkeys((*self.brought, *read_record(self.setup_file).left_out)))

    def changed_since_setup(self) -> list[str]:
        """Return what set-up made and somebody changed since. It does not land, which its author should know."""
        record = read_record(self.setup_file)
        made = (path for path in record.left_out if path not in self.brought) if record.settled_ns else ()
        return [path for path in made if _written_ns(self.path / path) > record.settled_ns]

    def start(self) -> str:
        """Return the commit that was last put into the workspace whole, or an empty string, also if a power cut tore it."""
        return _commit_id(read_regular(self.start_file))

    def head(self) -> str:
        """Return the commit that the workspace is on, as its HEAD says; an empty string if it is on a branch or torn."""
        return _commit_id(self.git_file("HEAD"))

    def git_file(self, name: str) -> bytes:
        """Return what one of git's files about it holds; nothing if that cannot be read, or is behind a link."""
        return read_plain(self.git_dir.parent, f"{self.git_dir.name}/{name}", GIT_FILE_BYTES_MAX)

    def pointer(self) -> bytes:
        """Return what `.git` in the directory says: where git's files about it are, seen from there.

        So git works in it also while an agent does and somebody moves the repository.
        """
        return b"gitdir: " + os.fsencode(os.path.relpath(self.git_dir, self.path)) + b"\n"

    def points_to_git_dir(self) -> bool:
        """Tell whether git, run in the directory, finds its files about it: by a path from there, or by a whole one."""
        said = read_plain(self.path, ".git", GIT_FILE_BYTES_MAX).removeprefix(b"gitdir: ").removesuffix(b"\n")
        return os.path.normpath(self.path / os.fsdecode(said)) == str(self.git_dir)

    def unlock(self) -> None:
        """Restore our access to the directory and git's files about it, which an agent may have closed. A person may close it."""
        for folder in (self.path, self.git_dir):
            if is_closed(folder) and not (self.is_persons and folder == self.path):
                open_up(folder)

    def require_present(self) -> None:
        """Raise WorkspaceGoneError unless the directory is there and is no link to another place."""
        if not is_plain_directory(self.path):
            hint = "Its last snapshot, if there is one, still has the work; the task starts again in a new workspace."
            raise WorkspaceGoneError(f"The workspace {self.path} was deleted or replaced.", hint)


def workspace_changes(repo: Repository, workspace: Workspace) -> tuple[str, ...]:
    """Return what differs in an idle workspace from the commit that was put into it, which its index knows.

    Files that would block git are removed from it first.
    """
    remove_blocking_files(workspace.path)
    left_out = ignore_patterns(workspace.left_out)
    return tuple(sorted(changed_paths(repo.private_git, workspace.path, workspace.index, left_out=left_out)))


def repair_git_files(workspace: Workspace) -> list[Path]:
    """Write what git needs to know about the workspace. An invalid HEAD goes back to the start."""
    files = {workspace.path / ".git": workspace.pointer(), **admin_files(workspace)}
    if not has_head(workspace) and (start := workspace.start()):
        files[workspace.git_dir / "HEAD"] = start.encode() + b"\n"
    return write_files(files)


def reset_git_files(workspace: Workspace, commit: str) -> None:
    """Write git's files about the workspace, remove all others: no agent's setting or merge stays."""
    write_files({workspace.path / ".git": workspace.pointer()})
    files = {**admin_files(workspace), workspace.git_dir / "HEAD": commit.encode() + b"\n"}
    if not is_plain_directory(workspace.git_dir):
        remove(workspace.git_dir)
        _install(workspace.git_dir, {path.name: content for path, content in files.items()})
        return
    for path in list(workspace.git_dir.iterdir()):
        if path not in files:
            remove(path)
    write_files(files)


def write_files(files: dict[Path, bytes]) -> list[Path]:
    """Write the files that do not have their content yet, also in the place of directories; return them."""
    wrong = [path for path, content in files.items() if not holds(path, content)]
    for path in wrong:
        if is_plain_directory(path):
            remove(path)
        write_durably(path, files[path])
    return wrong


def _install(git_dir: Path, files: dict[str, bytes]) -> None:
    """Make the administrative directory complete or not at all. Durably: torn files in it break the user's own git."""
    git_dir.parent.mkdir(exist_ok=True)
    fresh = staging_folder(git_dir.parent.parent) / f"{git_dir.name}.{os.urandom(4).hex()}"
    fresh.mkdir()
    for name, content in files.items():
        write_durably(fresh / name, content)
    fresh.rename(git_dir)


def staging_folder(common_dir: Path) -> Path:
    """Return the folder beside git's own in which administrative directories are made, and put away."""
    staging = private_dir(common_dir) / "staging"
    staging.mkdir(parents=True, exist_ok=True)
    return staging


def admin_files(workspace: Workspace) -> dict[Path, bytes]:
    """Return the files by which git knows a linked worktree, and what they hold."""
    return {
        workspace.git_dir / "commondir": b"../..\n",
        workspace.git_dir / "gitdir": os.fsencode(workspace.path / ".git") + b"\n",
    }


def _written_ns(path: Path) -> int:
    try:
        return path.lstat().st_mtime_ns
    except OSError:  # it is gone: nothing of it is left out
        return 0


def _commit_id(content: bytes) -> str:
    """Return the commit id that a file's content is, or an empty string if it is anything else."""
    found = content.strip()
    return found.decode() if re.fullmatch(_COMMIT_ID, found) else ""


def has_head(workspace: Workspace) -> bool:
    """Tell whether HEAD of a workspace names a branch or a commit."""
    return re.fullmatch(rb"(ref: .+|%s)\n?" % _COMMIT_ID, workspace.git_file("HEAD")) is not None
