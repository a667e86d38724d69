"""The sandbox of a run: which level is in force, and what a launch in a workspace sees of the machine.

A launch sees its workspace, writable; what it was given, such as its brief; the system and the programs on its PATH, read
only; and nothing else of the home, the project, other workspaces or the run. How that is done is the fleet's business.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from holdfast.agents.invocation import Invocation
from holdfast.agents.presets import place_of
from holdfast.core.status import SandboxLevel
from holdfast.errors import HoldfastError, did_you_mean, quoted
from holdfast.fleet.protocol import SHOW_VARIABLE, Fleet, LaunchKey, SandboxPolicy, tools_to_show
from holdfast.paths import RunDir
from holdfast.repo.object_sync import object_stores
from holdfast.repo.repository import Repository
from holdfast.runner.agent_home import furnish_home
from holdfast.system_errors import doing

SANDBOX_VARIABLE = "HOLDFAST_SANDBOX"
"""Names the level that the user wants if no option does."""
DEFAULT_LEVEL = SandboxLevel.WORKSPACE
"""What runs get if nobody names a level, where the machine can."""
_HOMES = (Path("/home"), Path("/root"))
_TEMPORARY = (Path("/tmp"), Path("/var/tmp"))  # noqa: S108 - they are covered, not used
_SOCKETS = (Path("/run"), Path("/var/run"))
"""Where the sockets of other programs are: containers, buses, agents that hold keys."""
_NAME_SERVERS = tuple(
    _SOCKETS[0] / name
    for name in ("systemd/resolve", "resolvconf", "NetworkManager", "current-system", "nscd")
)
"""What programs need of these folders: how names are looked up, and on NixOS the programs themselves."""
_SYSTEM = tuple(map(Path, ("/usr", "/bin", "/sbin", "/lib", "/etc", "/dev", "/proc", "/sys", "/run")))


def level_in_force(
    asked: SandboxLevel | None, fleet: Fleet, before: SandboxLevel, plan: SandboxLevel
) -> SandboxLevel:
    """Return the level of a run: the strictest of the user's, the one it had `before`, and that of its plan.

    What the user `asked` for by an option replaces all but the plan's. If nobody named a level and this machine has no
    sandbox, there is none. Raises HoldfastError if somebody did.
    """
    users = named_level() if asked is None else asked
    least = plan if asked is not None else _strictest(plan, before)
    wanted = _strictest(least, DEFAULT_LEVEL if users is None else users)
    shown_by_user()  # what is wrong with it must be told before anything starts
    if wanted is SandboxLevel.OFF or not (obstacle := fleet.sandbox_obstacle()):
        return wanted
    if users is None and least is SandboxLevel.OFF:
        return SandboxLevel.OFF
    raise HoldfastError(
        f"this machine has no sandbox: {obstacle}",
        "remove the obstacle, or give up the sandbox with --no-sandbox: agents then see all that you see"
        + (" (first take `sandbox:` out of the plan)" if plan is not SandboxLevel.OFF else ""),
    )


def _strictest(*levels: SandboxLevel) -> SandboxLevel:
    return max(levels, key=list(SandboxLevel).index)


def named_level() -> SandboxLevel | None:
    """Return the level that the user's environment names, if any. Raises HoldfastError if there is no such level."""
    named, known = os.environ.get(SANDBOX_VARIABLE, ""), [str(level) for level in SandboxLevel]
    if named and named not in known:
        raise HoldfastError(
            f"{SANDBOX_VARIABLE} is {quoted(named)}, which is no level{did_you_mean(named, known)}",
            f"use one of {', '.join(known)}",
        )
    return SandboxLevel(named) if named else None


def shown_by_user() -> tuple[Path, ...]:
    """Return what the user's environment lets every launch read. Raises HoldfastError for a path that is not absolute."""
    named = [Path(name).expanduser() for name in os.environ.get(SHOW_VARIABLE, "").split(os.pathsep) if name]
    for path in named:
        if not path.is_absolute():
            raise HoldfastError(
                f"{SHOW_VARIABLE} names {quoted(str(path))}, which is not an absolute path",
                "write whole paths with colons between them; ~ is your home",
            )
    return tuple(named)


@dataclass(frozen=True, slots=True)
class Sandbox:
    """The sandbox of all launches of a run, whose folder is `directory`."""

    repo: Repository
    directory: RunDir

    def policy_of_agent(
        self,
        key: LaunchKey,
        how: Invocation,
        workspace: Path,
        env: Mapping[str, str],
        given: tuple[Path, ...],
    ) -> SandboxPolicy:
        """Return the policy of a launch in a workspace. If its preset names files of the home, it gets a home with these.

        That home is kept for the next attempt at the same task.
        """
        policy, users_home = self.policy(workspace, programs_named_in(how.argv), env, given), _home_in(env)
        needed = (*how.credentials, *how.home)
        if not needed or _belongs_to_system(users_home.resolve()):
            return policy
        home = self.directory.homes / key.owner / key.step
        with doing("make the home of an agent", home):
            furnish_home(home, users_home, filter(None, (place_of(name, env) for name in needed)))
        return replace(policy, replaced=((users_home, home),))

    def policy(
        self, folder: Path, programs: tuple[str, ...], env: Mapping[str, str], given: tuple[Path, ...] = ()
    ) -> SandboxPolicy:
        """Return what a launch in `folder` sees, which it may write to. What it is `given` it cannot change."""
        covered = (self.repo.checkout, self.repo.common_dir, self.repo.state_dir.root, *_SOCKETS)
        scratch = (*_TEMPORARY, *_homes(_home_in(env)))
        unseen = tuple(path.resolve() for path in covered + scratch)
        tools = tools_to_show(env.get("PATH", os.defpath), programs, _home_in(env), unseen)
        objects = map(Path, object_stores(str(self.repo.common_dir / "objects")))
        return SandboxPolicy(
            covered=covered,
            scratch=scratch,
            readable=(*tools.folders, *objects, *_NAME_SERVERS, *shown_by_user(), *given),
            writable=(folder,),
            withheld=tools.logins,
        )


def programs_named_in(argv: tuple[str, ...]) -> tuple[str, ...]:
    """Return the program of a command, and those that a shell command names by their whole path, as in `/x/.venv/bin/pytest`."""
    words = argv[2].split() if argv[1:2] == ("-c",) and len(argv) > 2 else []
    return (argv[0], *(word for word in (word.strip("\"'();&|") for word in words) if word.startswith("/")))


def _home_in(env: Mapping[str, str]) -> Path:
    return Path(env.get("HOME") or "/")


@lru_cache(maxsize=8)
def _homes(home: Path) -> tuple[Path, ...]:
    """Return the folders of users that are covered: those of others, too. A home that is a part of the system is not.

    A plan may give its agents another home; the user's own is covered all the same.
    """
    named = (home, _home_in(os.environ), Path(pwd.getpwuid(os.getuid()).pw_dir))
    return tuple(path for path in (*_HOMES, *named) if not _belongs_to_system(path.resolve()))


def _belongs_to_system(path: Path) -> bool:
    return any(path.is_relative_to(part) or part.is_relative_to(path) for part in _SYSTEM)
