"""Which git processes are alive in a repository, as /proc shows them. Looks only; nothing is ever signalled."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

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
