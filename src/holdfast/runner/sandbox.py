"""The sandbox of a run: what a launch in a workspace sees of the machine, and what it reaches of the network.

A launch sees its workspace, writable; what it was given, such as its brief; the system and the programs on its PATH, read
only; and nothing else of the home, the project, other workspaces or the run. How that is done is the fleet's business.
"""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from holdfast.agents.invocation import Invocation
from holdfast.agents.presets import place_of
from holdfast.core.status import NetworkAccess, SandboxLevel, SandboxMechanism
from holdfast.errors import HoldfastError, quoted
from holdfast.fleet.protocol import SHOW_VARIABLE, LaunchKey, SandboxPolicy, live_sockets, tools_to_show
from holdfast.paths import RunDir
from holdfast.repo.files import is_plain_directory, write_atomically
from holdfast.repo.object_sync import object_stores
from holdfast.repo.private_git_dir import render_config
from holdfast.repo.repository import Repository
from holdfast.runner.agent_home import furnish_home
from holdfast.runner.allowed_hosts import hosts_in_environment, hosts_of_repository, hosts_of_user
from holdfast.runner.sandbox_setting import SandboxSetting
from holdfast.system_errors import doing

_HOMES = (Path("/home"), Path("/root"))
_TEMPORARY = (Path("/tmp"), Path("/var/tmp"))  # noqa: S108 - they are covered, not used
_SOCKETS = tuple(
    map(Path, ("/run", "/var/run", "/var/lib/incus", "/var/lib/lxd", "/var/snap/lxd", "/var/lib/libvirt"))
)
"""Where the sockets of other programs are: containers, machines, buses, agents that hold keys. Read-only is no help."""
_MADE_ANEW = (Path("/dev"), Path("/proc"))
"""What every launch has its own of."""
_NAME_SERVERS = tuple(
    _SOCKETS[0] / name
    for name in ("systemd/resolve", "resolvconf", "NetworkManager", "current-system", "nscd")
)
"""What programs need of these folders: how names are looked up, and on NixOS the programs themselves."""
_SEEN_IF_STRICT = frozenset((
    "bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr", "opt", "nix", "gnu", "snap", "proc", "sys", "dev",
))  # fmt: skip
"""The folders of the root that have the system's programs in them, by name."""
_SHOWN_IF_STRICT = (_SOCKETS[0] / "current-system", Path("/var/lib"), Path("/var/cache"))
"""What programs need of these: on NixOS the programs themselves, and what packages keep beside them."""
_SETTINGS_OF_PROGRAMS = (
    "alternatives", "crypto-policies", "fonts", "group", "hosts", "java*", "ld.so.cache", "localtime", "maven", "mime.types",
    "nsswitch.conf", "os-release", "passwd", "pki", "protocols", "resolv.conf", "services", "ssl", "timezone",
)  # fmt: skip
"""What strict launches see of the system's settings: how to find libraries, names, users and certificates."""
_SETTINGS_OF_TOOLS = (
    ".editorconfig", ".eslintrc.json", ".mypy.ini", ".prettierrc", ".pytest.ini", ".ruff.toml", "Cargo.toml", "build.gradle",
    "go.mod", "go.work", "mypy.ini", "package.json", "pom.xml", "pyproject.toml", "pytest.ini", "ruff.toml",
    "rust-toolchain.toml", "setup.cfg", "setup.py", "tox.ini", "tsconfig.json",
)  # fmt: skip
"""What tools look for in every folder above the one that they work in."""
_SYSTEM_GIT_CONFIG = "/etc/gitconfig"
_HOME_IN_SHELL = re.compile(r"^(~|\$HOME|\$\{HOME\})(?=/)")
_SYSTEM = tuple(map(Path, ("/usr", "/bin", "/sbin", "/lib", "/etc", "/dev", "/proc", "/sys", "/run")))


def require_good_variables() -> None:
    """Raise HoldfastError if what the user's environment says about the sandbox makes no sense: before anything starts."""
    shown_by_user()
    hosts_of_user()


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
    """The sandbox of all launches of a run, whose folder is `directory`. It began on the commit `base`.

    `hosts` are those that its plan adds to the allow-list.
    """

    repo: Repository
    directory: RunDir
    setting: SandboxSetting
    base: str
    hosts: tuple[str, ...] = ()

    def git_variables(self) -> dict[str, str]:
        """Return the variables by which git knows the user in every repository that a launch makes, if they have a name.

        The workspace's own settings have it. The user's file is hidden; a copy in its place could not be changed, and
        variables for the author would count for more than the settings of such a repository. So it is the system's file.
        """
        who, file = self.repo.config.identity(), self.directory.git_identity
        if who is None:
            return {}
        settings = [("include.path", _SYSTEM_GIT_CONFIG), ("user.name", who.name), ("user.email", who.email)]
        with doing("tell git who commits", file):
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomically(file, render_config(settings))
        return {"GIT_CONFIG_SYSTEM": str(file)}

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
        users_home = _home_in(env)
        policy = self.policy(workspace, programs_named_in(how.argv, str(users_home)), env, given)
        if self.setting.network is NetworkAccess.ALLOW:
            policy = replace(policy, hosts=tuple(dict.fromkeys((*how.hosts, *(policy.hosts or ())))))
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
        """Return what a launch in `folder` sees, which it may write to. What it is `given` it cannot change.

        Its environment may be the plan's. So which tools are shown follows from the user's own PATH and home.
        """
        ours = (self.repo.checkout, self.repo.common_dir, self.repo.state_dir.root)
        outside = tuple(name for name in programs if not Path(name).is_relative_to(folder))
        same = _same_for_all(ours, self.setting.level, _home_in(env), outside)
        own = (self.directory.git_identity,)
        objects = map(Path, object_stores(str(self.repo.common_dir / "objects")))
        return replace(
            same,
            readable=(*same.readable, *objects, *shown_by_user(), *self._settings_above(), *own, *given),
            writable=(folder,),
            sockets=_sockets_outside((folder, *_NAME_SERVERS, *shown_by_user())),
            hosts=self._hosts(env),
            has_proxy=self.setting.network is NetworkAccess.ALLOW,
        )

    def _settings_above(self) -> Iterator[Path]:
        """Yield the settings of the project's tools in the checkout, if those are not hidden but locked.

        Tools look for their settings upwards, and stop at a file that is there and cannot be opened.
        """
        if self.setting.by is SandboxMechanism.LANDLOCK:
            found = (self.repo.checkout / name for name in _SETTINGS_OF_TOOLS)
            yield from (path for path in found if path.is_file() and not path.is_symlink())

    def _hosts(self, env: Mapping[str, str]) -> tuple[str, ...] | None:
        """Return what a launch reaches; None if that is everything."""
        match self.setting.network:
            case NetworkAccess.ON:
                return None
            case NetworkAccess.OFF:
                return ()
        known = _hosts_of_commit(self.repo, self.base)
        return tuple(dict.fromkeys((*hosts_of_user(), *self.hosts, *known, *hosts_in_environment(env))))


@lru_cache(maxsize=64)
def _same_for_all(
    ours: tuple[Path, ...], level: SandboxLevel, home: Path, programs: tuple[str, ...]
) -> SandboxPolicy:
    """Return what every launch of these programs sees. It is found once: it takes as long as a launch does."""
    is_strict = level is SandboxLevel.STRICT
    scratch = (*_TEMPORARY, *_homes(home))
    more = (path for path in _covered_if_strict() if path not in scratch) if is_strict else ()
    covered = (*ours, *_SOCKETS, *more)
    unseen = tuple(path.resolve() for path in covered + scratch)
    search_path = os.environ.get("PATH", os.defpath)
    tools = tools_to_show(search_path, programs, _home_in(os.environ), ours[0].resolve(), unseen)
    system = (*_SHOWN_IF_STRICT, *_settings_of_programs()) if is_strict else _NAME_SERVERS
    withheld = (*tools.logins, *(_withheld_if_strict() if is_strict else ()))
    return SandboxPolicy(covered, scratch, readable=(*tools.folders, *system), withheld=withheld)


def _sockets_outside(places: tuple[Path, ...]) -> tuple[Path, ...]:
    """Return the sockets that programs have now in none of these places, nor where no launch sees any."""
    left = tuple(f"{os.path.realpath(place)}/" for place in (*_SOCKETS, *_MADE_ANEW, *places))
    found = (f"{os.path.realpath(folder)}/{name}" for folder, name in map(os.path.split, live_sockets()))
    return tuple(Path(path) for path in found if not f"{path}/".startswith(left))


@lru_cache(maxsize=1)
def _covered_if_strict() -> tuple[Path, ...]:
    """Return all folders of the root but those of the system's programs: projects may lie in any of them."""
    return tuple(path for path in _strange_in_root() if is_plain_directory(path))


@lru_cache(maxsize=1)
def _withheld_if_strict() -> tuple[Path, ...]:
    return tuple(path for path in _strange_in_root() if path.is_file() and not path.is_symlink())


def _strange_in_root() -> Iterator[Path]:
    return (path for path in Path("/").iterdir() if path.name not in _SEEN_IF_STRICT)


@lru_cache(maxsize=1)
def _settings_of_programs() -> tuple[Path, ...]:
    return tuple(path for pattern in _SETTINGS_OF_PROGRAMS for path in Path("/etc").glob(pattern))


@lru_cache(maxsize=8)
def _hosts_of_commit(repo: Repository, commit: str) -> tuple[str, ...]:
    return hosts_of_repository(repo, commit)


def programs_named_in(argv: tuple[str, ...], home: str) -> tuple[str, ...]:
    """Return the program of a command, and those that a shell command names by their whole path, as in `~/.venv/bin/pytest`."""
    words = _shell_words(argv[2]) if argv[1:2] == ("-c",) and len(argv) > 2 else []
    paths = (_HOME_IN_SHELL.sub(lambda _: home, word) for word in words)
    return (argv[0], *dict.fromkeys(path for path in paths if path.startswith("/")))


def _shell_words(line: str) -> list[str]:
    """Return the words of a shell command, also those in a quoted command inside of it."""
    import shlex

    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        words = list(lexer)
    except ValueError:  # a quotation that has no end
        words = []
    return [*words, *(word.strip("\"'();&|") for word in line.split())]


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
