"""Reads the files of an agent that lives, in a thread that can open nothing of the user's.

An agent in a sandbox can replace a folder by a link between our look at it and git's. What git then read would be in the
repository, which the agent sees; what we removed would be the user's. So that thread, and the git that it starts, may open
the workspace, what git needs of the repository, and the system. Kernels before Linux 6.12 leave this open.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from holdfast.fleet.protocol import SandboxPolicy, confine_files, file_rules
from holdfast.repo.private_git_dir import private_dir
from holdfast.repo.repository import Repository
from holdfast.runner.sandbox import Sandbox

_Result = TypeVar("_Result")
_READ_OF_GIT = ("HEAD", "packed-refs", "refs", "info", "shallow", "git-crypt")
_WRITTEN_OF_GIT = ("objects", "lfs")
_SETTINGS_OF_GIT = (".gitconfig", ".config/git")
_FILES_NAMED_IN_SETTINGS = ("core.excludesfile", "core.attributesfile")


def read_confined(sandbox: Sandbox, workspace: Path, read: Callable[[], _Result]) -> _Result:
    """Return what `read` returns, or raise what it raises. Of the user's own files it may open those of the workspace."""
    rules = _rules(sandbox, workspace)

    def read_in_thread() -> _Result:
        confine_files(rules)
        return read()

    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(read_in_thread).result()


@lru_cache(maxsize=64)
def _rules(sandbox: Sandbox, workspace: Path) -> list[tuple[str, int]]:
    """Return what may be opened, and how. It is found once: it takes as long as to save a small workspace."""
    return file_rules(_policy(sandbox, workspace))


def _policy(sandbox: Sandbox, workspace: Path) -> SandboxPolicy:
    """Return what may be opened: the policy of a launch, and with it what git needs of the user and of the repository."""
    policy, git_dir = sandbox.policy(workspace, ("git",), dict(os.environ)), sandbox.repo.common_dir
    read = (*_settings_of_git(sandbox.repo), *(git_dir / name for name in _READ_OF_GIT))
    written = (private_dir(git_dir), *(git_dir / name for name in _WRITTEN_OF_GIT))
    return replace(policy, readable=(*policy.readable, *read), writable=(*policy.writable, *written))


def _settings_of_git(repo: Repository) -> Iterator[Path]:
    """Yield the files of the user's that git reads settings and rules from: it stops at one that it may not open."""
    home = Path(os.environ.get("HOME", "/"))
    yield from (home / name for name in _SETTINGS_OF_GIT)
    yield Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "git"
    yield from map(Path, repo.config.files)
    named = (repo.config.in_force.get(key, "") for key in _FILES_NAMED_IN_SETTINGS)
    yield from (Path(name).expanduser() for name in named if name)
