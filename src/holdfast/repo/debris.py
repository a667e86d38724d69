"""Removes what killed git commands leave behind, so that the next ones work, and says what is wrong with a repository.

What belongs to this run's workspaces is repaired outright, because the caller holds the run's lease. What the
user's git commands share is removed only while no git process is alive in the repository; those are found in
/proc and never signalled. The user's index lock is never touched.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TypeVar

from holdfast.core.ids import TAKEN_PREFIX, run_branch, run_refs_prefix
from holdfast.core.plan import PlanWorkspace
from holdfast.mounts import mounts_in
from holdfast.repo.files import abandoned_drafts, read_regular, remove_if_allowed
from holdfast.repo.private_git_dir import private_dir
from holdfast.repo.repository import Repository
from holdfast.repo.taken_workspaces import save_taken, taken_names
from holdfast.repo.torn_objects import remove_torn_objects
from holdfast.repo.workspaces import ADMIN_PREFIX, Workspaces
from holdfast.repo.worktrees import linked_git_dirs
from holdfast.system_errors import doing

_ORPHAN_WAIT_S = 5.0
_POLL_S = 0.02
_PROC = Path("/proc")
_T = TypeVar("_T")
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

    `in_use` names the workspaces in which an agent is alive; nothing in them is touched. Idempotent.
    """
    wait_for_orphans(repo)
    people = taken_names(workspaces)
    # The git of a person may be at work there, and hold a lock.
    theirs = people if people and git_in_repository(repo) else []
    return [
        *_repair_worktrees(repo),
        *_repair_workspaces(workspaces, {*in_use, *theirs}),
        *_remove_own_locks(repo, workspaces.directory.name),
        *remove_stale_locks(repo),
        *_remove_drafts(repo, workspaces.directory.name),
        *remove_torn_objects(repo.common_dir),
    ]


def remove_workspaces(
    repo: Repository,
    run: str,
    setting: PlanWorkspace,
    remove: Callable[[Workspaces], None] = Workspaces.remove_all,
) -> None:
    """Remove a run's debris, all its workspaces, and the homes of its agents. The caller holds the lease and has saved all work.

    `remove` deletes the workspaces.
    """
    workspaces = Workspaces(repo, repo.state_dir.run(run).workspaces, setting=setting)
    with doing(f"remove the workspaces of run {run}"):
        clear_debris(repo, workspaces)
        save_taken(repo, run, setting)
        remove(workspaces)
        remove_if_allowed(repo.state_dir.run(run).homes)


def undeletable_folders(repo: Repository, run: str) -> list[Path]:
    """Return the folders of a run whose workspaces were removed that had to stay: another user's files or a mount are in them."""
    directory = repo.state_dir.run(run)
    pool = Workspaces(repo, directory.workspaces)
    return [*pool.undeletable(), *pool.leftovers(), *filter(os.path.lexists, [directory.homes])]


def uncommitted_folders(repo: Repository, run: str) -> list[Path]:
    """Return the folders of a run's files that could not be committed. They stay until the run is cleaned, those of a person longer."""
    return Workspaces(repo, repo.state_dir.run(run).workspaces).uncommitted()


def uncommitted_folders_of_people(repo: Repository, run: str) -> list[Path]:
    """Return those of them that a person wrote. No command removes one: only that person knows what it is worth."""
    return Workspaces(repo, repo.state_dir.run(run).workspaces).uncommitted(TAKEN_PREFIX)


def stale_locks(repo: Repository) -> tuple[str, ...]:
    """Return the locks that no living git command holds. Nothing is removed."""
    locks = _shared_locks(repo)
    return () if locks and git_in_repository(repo) else tuple(map(str, locks))


def wait_for_orphans(repo: Repository) -> None:
    """Wait for the git commands that a killed runner started: they end soon by themselves."""
    mark = f"--git-dir={repo.common_dir}"
    ours = {
        pid: command
        for pid, command in _git_processes([repo.common_dir]).items()
        if any(text.startswith(mark) for text in command)
    }
    deadline = time.monotonic() + _ORPHAN_WAIT_S
    while any(_command(pid) == command for pid, command in ours.items()) and time.monotonic() < deadline:
        time.sleep(_POLL_S)


def remove_stale_locks(repo: Repository) -> list[str]:
    """Remove the locks that the user's git commands share, unless git is alive in the repository.

    Returns a sentence for each that was removed or had to be left.
    """
    stale = _shared_locks(repo)
    if stale and (alive := git_in_repository(repo)):
        return [f"Left {path}: git is running (process {next(iter(alive))})." for path in stale]
    return [_removed(path) for path in stale]


def fsck_errors(repo: Repository) -> tuple[str, ...]:
    """Return what `git fsck --strict` finds wrong with the repository, a line each."""
    result = repo.git.try_run("fsck", "--strict", "--no-dangling", "--no-progress")
    if result.rc == 0:
        return ()
    said = result.stdout.decode("utf-8", "replace") + result.stderr
    return tuple(line for line in said.splitlines() if line.strip()) or (f"exit status {result.rc}",)


def _repair_worktrees(repo: Repository) -> list[str]:
    """Deal with worktrees whose `commondir` is empty: a single one stops git in the whole repository."""
    said = []
    for record in sorted((repo.common_dir / "worktrees").glob("*/commondir")):
        if read_regular(record).strip() or not record.is_file():
            continue
        folder = record.parent
        if folder.name.startswith(ADMIN_PREFIX):
            with doing("repair a half-made worktree", record):
                record.write_bytes(b"../..\n")
            said.append(f"Repaired the empty {record}.")
        else:
            said.append(
                f"Left {record}: it is empty, which stops git here; delete {folder} if nothing uses it."
            )
    return said


def _repair_workspaces(workspaces: Workspaces, in_use: Collection[str]) -> list[str]:
    for name in in_use:
        workspaces.reconnect(name)
    idle = [name for name in workspaces.names() if name not in in_use]
    repaired = [(name, done) for name in idle if (done := workspaces.repair(name))]
    said = [f"Repaired workspace {name}: {', '.join(done)}." for name, done in repaired]
    return said + [_removed(path) for path in workspaces.leftovers()]


def _remove_own_locks(repo: Repository, run: str) -> list[str]:
    """Remove the locks on this run's refs: only the holder of its lease writes them."""
    locks = [
        *_locks(repo.common_dir / run_refs_prefix(run)),
        repo.common_dir / f"{run_branch(run)}.lock",
    ]
    return [_removed(path) for path in locks if path.exists()]


def _shared_locks(repo: Repository) -> list[Path]:
    listed = (repo.common_dir / name for name in _SHARED)
    return [path for path in [*listed, *_locks(repo.common_dir / "refs")] if path.exists()]


def _remove_drafts(repo: Repository, run: str) -> list[str]:
    private, directory = private_dir(repo.common_dir), repo.state_dir.run(run)
    folders = (
        repo.private_git.git_dir,
        private,
        private / "indexes",
        repo.common_dir / "info",
        directory.root,
        directory.requests,
    )
    return [_removed(path) for folder in folders for path in abandoned_drafts(folder)]


def _locks(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.lock"))


def _removed(path: Path) -> str:
    if not remove_if_allowed(path):
        what = "something is mounted in it" if mounts_in(path) else "it holds files of another user"
        return f"Left {path}: {what}."
    return f"Removed {path}, left by a process that was killed."


# -- live git processes, as /proc shows them ------------------------------------------------------------------


def git_in_repository(repo: Repository) -> dict[int, tuple[str, ...]]:
    """Return the git processes that work on this repository, in any of its worktrees."""
    return _git_processes([repo.common_dir, repo.checkout, *(path for path, _ in linked_git_dirs(repo))])


def _git_processes(places: Collection[Path]) -> dict[int, tuple[str, ...]]:
    """Return the git processes that work in one of these places, each with its command.

    One that this user may not inspect is counted, because it could be working there.
    """
    pids = [int(entry.name) for entry in _PROC.iterdir() if entry.name.isdecimal()]
    running = {pid: _command(pid) for pid in pids if _read(pid, "comm").startswith("git")}
    roots = list(map(str, places))
    return {pid: command for pid, command in running.items() if _concerns(pid, command, roots)}


def _concerns(pid: int, command: tuple[str, ...], roots: list[str]) -> bool:
    if not command:
        return False  # it has ended, and only its parent has not noticed yet
    folder = _PROC / str(pid)
    try:
        files = _unless_gone(lambda: sorted((folder / "fd").iterdir()), list[Path]())
        held = [str(_unless_gone(link.readlink, Path())) for link in (folder / "cwd", *files)]
        environment = _read(pid, "environ").split("\0")
    except PermissionError:
        return True
    named = [text.partition("=")[2] for text in [*environment, *command] if text.startswith(("GIT_", "--"))]
    return any(path == root or path.startswith(f"{root}/") for path in [*held, *named] for root in roots)


def _command(pid: int) -> tuple[str, ...]:
    return tuple(_read(pid, "cmdline").split("\0")[:-1])


def _read(pid: int, name: str) -> str:
    return _unless_gone((_PROC / str(pid) / name).read_bytes, b"").decode("utf-8", "replace")


def _unless_gone(look: Callable[[], _T], otherwise: _T) -> _T:
    """Read from /proc. A process can end, or close a file, between two reads: that is no error."""
    try:
        return look()
    except (FileNotFoundError, ProcessLookupError):
        return otherwise
