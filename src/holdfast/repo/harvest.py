"""Turning the files of a workspace into a tree. Nothing in the workspace changes but what would keep git waiting.

Only paths that changed are looked at. Nothing is run inside nested repositories: their files are stored as plain
files, because a commit that points into a repository nobody else has would be useless.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.errors import RepositoryError
from holdfast.paths import STATE_DIR
from holdfast.repo.changes import changed_paths
from holdfast.repo.files import copy_atomically, is_plain_directory, is_there, open_up, remove
from holdfast.repo.git import GitError
from holdfast.repo.repository import Repository
from holdfast.repo.traps import remove_traps, traps
from holdfast.repo.workspaces import Workspace

FILE_BYTES_MAX = 50 * 1024 * 1024
_TRIES = 3
_NESTING_MAX = 4


@dataclass(frozen=True, slots=True)
class Harvest:
    """A tree of all the files, a sentence for each that could not be taken, and what else is worth knowing."""

    tree: str
    problems: tuple[str, ...]
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Sorted:
    """What is to be done with each changed path: drop it, add it, go into it, or say why not."""

    gone: list[str] = field(default_factory=list)
    present: list[str] = field(default_factory=list)
    nested: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def harvest(repo: Repository, workspace: Workspace, base: str) -> Harvest:
    """Return the workspace's files as a tree. What `base` tracks stays tracked even where it is ignored.

    A file can vanish while it is read, if the agent is alive; then it is tried again.
    """
    for _ in range(_TRIES - 1):
        try:
            return _harvest_once(repo, workspace, base)
        except (GitError, FileNotFoundError):
            workspace.require_present()
    return _harvest_once(repo, workspace, base)


def harvest_untouched(repo: Repository, root: Path, base: str, left_out: Sequence[str]) -> Harvest:
    """Return the files of somebody else's working tree as a tree. Nothing in it changes, nor any index but our own.

    Files that `base` lacks are left out where a pattern of `left_out` names them. Raises RepositoryError if git would
    wait for a file in there for ever.
    """
    with _fresh_index(repo, root, base) as index:
        found = _sort_out(root, list(changed_paths(repo.sealed, root, index, left_out=left_out)))
        nested = [f"{path} is a repository of its own and was left out." for path in found.nested]
        found.nested.clear()
        made = _add(repo, root, index, found, 0)
        return Harvest(made.tree, (*nested, *made.problems), made.remarks)


def untouched_changes(repo: Repository, root: Path, base: str, left_out: Sequence[str]) -> tuple[str, ...]:
    """Return the paths of somebody else's working tree that `harvest_untouched` would take."""
    with _fresh_index(repo, root, base) as index:
        paths = changed_paths(repo.sealed, root, index, left_out=left_out)
        return tuple(path for path in paths if not path.endswith("/"))


@contextmanager
def _fresh_index(repo: Repository, root: Path, base: str) -> Iterator[Path]:
    """Lend an index of our own that holds `base`, outside of everything that is looked at."""
    if trap := next(traps(root), None):
        raise RepositoryError(
            f"{trap} is no regular file; git would wait for it.", "Remove it, then try again."
        )
    with tempfile.TemporaryDirectory() as folder:
        index = Path(folder, "index")
        repo.sealed.run("read-tree", "--reset", base, env={"GIT_INDEX_FILE": str(index)})
        yield index


def _harvest_once(repo: Repository, workspace: Workspace, base: str) -> Harvest:
    workspace.unlock()
    disarmed = remove_traps(workspace.path)
    workspace.index.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=workspace.index.parent, prefix=f"{workspace.index.name}.capture-"))
    try:
        index = folder / "index"
        # Our own index knows the files as they were checked out, so unchanged ones need not be read again.
        if workspace.index.is_file():
            copy_atomically(workspace.index, index)
        if base != workspace.start():
            env = {"GIT_INDEX_FILE": str(index)}
            repo.sealed.run("read-tree", "--reset", base, work_tree=workspace.path, env=env)
            # An agent that commits by itself may have forced its reports in, or settings for the user's next agents.
            ours = ("rm", "-r", "-q", "--cached", "--ignore-unmatch", "--", STATE_DIR)
            repo.sealed.run(*ours, work_tree=workspace.path, env=env)
        forced = _staged_though_ignored(repo, workspace, folder)
        found = _add_all(repo, workspace.path, index, forced, 0)
        return Harvest(found.tree, found.problems, (*disarmed, *found.remarks))
    finally:
        remove(folder)


def _add_all(repo: Repository, root: Path, index: Path, forced: list[str], depth: int) -> Harvest:
    found = _sort_out(root, [*changed_paths(repo.sealed, root, index, _open_up_safely), *forced])
    return _add(repo, root, index, found, depth)


def _add(repo: Repository, root: Path, index: Path, found: _Sorted, depth: int) -> Harvest:
    env = {"GIT_INDEX_FILE": str(index)}
    for paths, options in (
        (found.gone, ["--force-remove"]),
        (found.present, ["--add", "--remove", "--replace"]),
    ):
        if paths:
            listing = b"".join(os.fsencode(path) + b"\0" for path in paths)
            repo.sealed.run("update-index", *options, "-z", "--stdin", stdin=listing, work_tree=root, env=env)
    absorbed = [_absorb(repo, root, path, index, depth) for path in found.nested]
    tree = repo.sealed.run("write-tree", env=env).decode().strip()
    problems = (problem for inner in absorbed for problem in inner.problems)
    remarks = (remark for inner in absorbed for remark in inner.remarks)
    return Harvest(tree, (*found.problems, *problems), tuple(remarks))


def _open_up_safely(root: Path) -> None:
    """Open closed directories, and leave nothing in them for git to wait for."""
    open_up(root)
    remove_traps(root)


def _absorb(repo: Repository, root: Path, path: str, index: Path, depth: int) -> Harvest:
    """Add the files of a nested repository to the index as plain files."""
    if depth == _NESTING_MAX:
        return Harvest("", (f"{path} is a repository nested too deeply; its files were left out.",))
    inner = index.with_name(f"{index.name}-{depth}")
    remove(inner)
    found = _add_all(repo, root / path, inner, [], depth + 1)
    env = {"GIT_INDEX_FILE": str(index)}
    repo.sealed.run("rm", "-r", "-q", "--cached", "--ignore-unmatch", "--", path, work_tree=root, env=env)
    repo.sealed.run("read-tree", f"--prefix={path}/", found.tree, work_tree=root, env=env)
    remark = f"{path} is a nested repository; its files were taken, its history was not."
    return Harvest(found.tree, found.problems, (remark, *found.remarks))


def _sort_out(root: Path, paths: list[str]) -> _Sorted:
    found = _Sorted()
    for path in paths:
        full = root / path
        if path.endswith("/"):
            found.nested.append(path.rstrip("/"))
        elif is_plain_directory(full) and os.path.lexists(full / ".git"):
            found.problems.append(f"{path} is a submodule on another commit; that change was left out.")
        elif is_plain_directory(full) or not is_there(root, full):
            found.gone.append(path)
        elif problem := _unfit(full):
            found.problems.append(f"{path} {problem}")
        else:
            found.present.append(path)
    return found


def _unfit(path: Path) -> str:
    """Say why a file cannot be stored; an empty string if it can."""
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode):
        return ""
    if not stat.S_ISREG(found.st_mode):
        return "is a pipe, a socket or a device now and was left out."
    if found.st_size > FILE_BYTES_MAX:
        return f"has {found.st_size >> 20} MB and was left out: over {FILE_BYTES_MAX >> 20} MB."
    return "" if os.access(path, os.R_OK) else "cannot be read and was left out."


def _staged_though_ignored(repo: Repository, workspace: Workspace, folder: Path) -> list[str]:
    """Return the files which the agent added by force although they are ignored: it wanted them kept."""
    source = workspace.git_dir / "index"
    if source.is_symlink() or not source.is_file() or not os.access(source, os.R_OK):
        return []
    content = source.read_bytes()
    if workspace.index.is_file() and content == workspace.index.read_bytes():
        return []
    copy = folder / "agent"
    copy.write_bytes(content)
    question = ("ls-files", "-z", "--cached", "--ignored", "--exclude-standard")
    result = repo.sealed.try_run(*question, work_tree=workspace.path, env={"GIT_INDEX_FILE": str(copy)})
    # An index the agent broke, or is just writing, has nothing to tell.
    paths = os.fsdecode(result.stdout).split("\0") if result.rc == 0 else []
    return [path for path in paths if path and not path.startswith(f"{STATE_DIR}/")]
