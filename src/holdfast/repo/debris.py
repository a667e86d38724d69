"""Removing what killed git commands leave behind, so that the next ones work.

What belongs to this run's pool is repaired outright, because the caller holds the run's lease. What git commands of
the user share is removed only while no git process is alive in the repository. The user's index lock is never touched.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from holdfast.core.ids import run_branch, run_refs_prefix
from holdfast.repo.files import abandoned_drafts, remove
from holdfast.repo.private_git_dir import private_dir
from holdfast.repo.repository import Repository
from holdfast.repo.workspaces import ADMIN_PREFIX, Workspaces

_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class GitProcess:
    """A running git command."""

    pid: int
    command: tuple[str, ...]


def git_processes(common_dir: Path, places: Collection[Path]) -> list[GitProcess]:
    """Return the git processes that work in `places` or on `common_dir`.

    One that this user may not inspect is counted, because it could be working there.
    """
    roots = [str(common_dir), *map(str, places)]
    return [process for process in _all_git() if _concerns(process, roots)]


def is_alive(process: GitProcess) -> bool:
    """Tell whether a process seen earlier still runs the same command."""
    return _command(process.pid) == process.command


def _all_git() -> list[GitProcess]:
    pids = [int(entry.name) for entry in _PROC.iterdir() if entry.name.isdecimal()]
    return [GitProcess(pid, _command(pid)) for pid in pids if _name(pid).startswith("git")]


def _concerns(process: GitProcess, roots: list[str]) -> bool:
    if not process.command:
        # It has ended, and only its parent has not noticed yet.
        return False
    folder = _PROC / str(process.pid)
    try:
        held = [_target(link) for link in [folder / "cwd", *_entries(folder / "fd")]]
        environment = _read(folder / "environ").split("\0")
    except PermissionError:
        return True
    named = [
        text.partition("=")[2] for text in [*environment, *process.command] if text.startswith(("GIT_", "--"))
    ]
    return any(_inside(path, root) for path in [*held, *named] for root in roots)


def _inside(path: str, root: str) -> bool:
    return path == root or path.startswith(f"{root}/")


def _name(pid: int) -> str:
    return _read(_PROC / str(pid) / "comm").strip()


def _command(pid: int) -> tuple[str, ...]:
    return tuple(_read(_PROC / str(pid) / "cmdline").split("\0")[:-1])


# A process can end, or close a file, between any two looks: what is gone says nothing.


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8", "replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except (FileNotFoundError, ProcessLookupError):
        return []


_ORPHAN_WAIT_S = 5.0
_POLL_S = 0.02
_SHARED = (
    "packed-refs.lock",
    "packed-refs.new",
    "config.lock",
    "HEAD.lock",
    "ORIG_HEAD.lock",
    "shallow.lock",
    "gc.pid",
    "gc.pid.lock",
    "objects/maintenance.lock",
    "objects/info/commit-graph.lock",
    "objects/info/commit-graphs/commit-graph-chain.lock",
)


def clear_debris(repo: Repository, workspaces: Workspaces, in_use: Collection[str] = ()) -> list[str]:
    """Remove debris and return a sentence for each thing that was removed, or had to be left.

    `in_use` names the workspaces in which an agent is alive; they are not touched. Done again, it finds nothing.
    """
    _wait_for_orphans(repo)
    return [
        *_heal_worktrees(repo),
        *_repair_pool(workspaces, in_use),
        *_remove_own_locks(repo, workspaces.directory.name),
        *_remove_shared(repo),
        *_remove_drafts(repo),
    ]


def _wait_for_orphans(repo: Repository) -> None:
    """Let git commands finish that a killed runner started: they end by themselves, and soon."""
    mark = f"--git-dir={repo.common_dir}"
    ours = [
        process
        for process in git_processes(repo.common_dir, ())
        if any(text.startswith(mark) for text in process.command)
    ]
    deadline = time.monotonic() + _ORPHAN_WAIT_S
    while any(map(is_alive, ours)) and time.monotonic() < deadline:
        time.sleep(_POLL_S)


def _heal_worktrees(repo: Repository) -> list[str]:
    """Deal with worktrees whose `commondir` is empty: a single one stops git in the whole repository."""
    said = []
    for record in sorted((repo.common_dir / "worktrees").glob("*/commondir")):
        if record.read_bytes().strip():
            continue
        folder = record.parent
        if folder.name.startswith(ADMIN_PREFIX):
            record.write_bytes(b"../..\n")
            said.append(f"Repaired the empty {record}.")
        else:
            said.append(
                f"Left {record}: it is empty, which stops git here; delete {folder} if nothing uses it."
            )
    return said


def _repair_pool(workspaces: Workspaces, in_use: Collection[str]) -> list[str]:
    idle = [name for name in workspaces.names() if name not in in_use]
    repaired = [(name, done) for name in idle if (done := workspaces.repair(name))]
    said = [f"Repaired workspace {name}: {', '.join(done)}." for name, done in repaired]
    return said + [_removed(path) for path in workspaces.leftovers()]


def _remove_own_locks(repo: Repository, run: str) -> list[str]:
    """Remove the locks on this run's refs: only the holder of its lease writes them."""
    private = repo.common_dir / run_refs_prefix(run)
    return [_removed(path) for path in [*_locks(private), _branch_lock(repo, run)] if path.exists()]


def stale_locks(repo: Repository) -> tuple[str, ...]:
    """Return the locks that no living git command holds. Nothing is removed."""
    locks = _shared_locks(repo)
    alive = bool(locks) and git_processes(repo.common_dir, _places(repo))
    return () if alive else tuple(map(str, locks))


def _remove_shared(repo: Repository) -> list[str]:
    stale = _shared_locks(repo)
    if not stale:
        return []
    alive = git_processes(repo.common_dir, _places(repo))
    return [_left(path, alive[0]) if alive else _removed(path) for path in stale]


def _shared_locks(repo: Repository) -> list[Path]:
    listed = (repo.common_dir / name for name in _SHARED)
    return [path for path in [*listed, *_locks(repo.common_dir / "refs")] if path.exists()]


def _remove_drafts(repo: Repository) -> list[str]:
    indexes = private_dir(repo.common_dir) / "indexes"
    folders = (repo.private_git.git_dir, indexes, repo.common_dir / "info")
    return [_removed(path) for folder in folders for path in abandoned_drafts(folder)]


def _places(repo: Repository) -> list[Path]:
    """Return every directory in which a git process would work on this repository."""
    records = (repo.common_dir / "worktrees").glob("*/gitdir")
    # Newer versions of git may write the path relative to the record.
    links = ((record.parent / record.read_text().strip()).resolve() for record in records)
    return [repo.checkout, *(link.parent for link in links)]


def _locks(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.lock"))


def _branch_lock(repo: Repository, run: str) -> Path:
    return repo.common_dir / f"{run_branch(run)}.lock"


def _removed(path: Path) -> str:
    remove(path)
    return f"Removed {path}, left by a killed git command."


def _left(path: Path, process: GitProcess) -> str:
    return f"Left {path}: git is running (process {process.pid})."
