"""The sandbox around a launch: what its processes see and may write, as arguments of bubblewrap; and whether this machine
can have one, by bubblewrap or by Landlock alone (see `landlock_rules.py`).

Everything keeps its path inside. The file system is read-only; what must not be seen is covered by an empty folder, and
what is needed of it is shown again. Processes have a process table of their own, in which nobody else exists. Nothing
here starts an agent, and nothing decides what a launch needs.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from holdfast.errors import HoldfastError, quoted
from holdfast.process.landlock import landlock_obstacle
from holdfast.process.network_proxy import PROXY_ADDRESS
from holdfast.process.seccomp import FILTER

BUBBLEWRAP, LANDLOCK = "bubblewrap", "landlock"
"""What a sandbox is made by: the values of core's SandboxMechanism."""
BY_VARIABLE = "HOLDFAST_SANDBOX_BY"
"""Names what the user wants sandboxes to be made by. Without it, it is bubblewrap where that works."""

_PROGRAM = "bwrap"
_PROBE_S = 20.0
_SAID_CHARS = 300
_NAMESPACES = ("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")
# Bubblewrap as root leaves the switches of the kernel writable: the kernel asks for their owner, not for a capability.
_KERNEL_SWITCHES = tuple(Path("/proc", name) for name in ("sys", "sysrq-trigger", "irq", "bus", "fs", "mtrr"))
_ROOT = Path("/")
TEMPORARY_VARIABLES = ("TMPDIR", "TEMP", "TMP")
"""Name the folder for temporary files, each to some programs."""
_PROXY_VARIABLES = {
    **dict.fromkeys(
        ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"), PROXY_ADDRESS
    ),
    **dict.fromkeys(("no_proxy", "NO_PROXY"), "localhost,127.0.0.1,::1"),
    "NODE_USE_ENV_PROXY": "1",
}
_FOR_ALL, _FOR_OWNER, _FOR_READING = "1777", "0700", "0755"


@dataclass(frozen=True, slots=True)
class SandboxPolicy:
    """What the processes of one launch may see and write. Paths are absolute; those that are not there are left out.

    `covered` folders are empty and cannot be written to. `scratch` folders are empty, too, and what is written there
    is gone with the launch. `readable` and `writable` are shown where they are, also below such a folder. Of `replaced`
    folders the second is shown, writable, in the place of the first. `withheld` files cannot be opened, and `sockets` not be
    connected to (Landlock cannot prevent that). All else of the system can be read. If `hosts` is given, the launch has a
    network of its own, from which only these can be reached, through a proxy: `name`, `*.name` or `name:port`. Without one,
    nothing is reached and nobody says why.
    """

    covered: tuple[Path, ...] = ()
    scratch: tuple[Path, ...] = ()
    readable: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    replaced: tuple[tuple[Path, Path], ...] = ()
    withheld: tuple[Path, ...] = ()
    sockets: tuple[Path, ...] = ()
    hosts: tuple[str, ...] | None = None
    has_proxy: bool = True

    @property
    def proxied(self) -> tuple[str, ...] | None:
        """What is reached through a proxy, which may be nothing; None if there is no proxy."""
        return self.hosts if self.has_proxy else None


def sandbox_argv(policy: SandboxPolicy, program: str, cwd: Path) -> list[str]:
    """Return the command that runs another one in the sandbox: it follows, after `--`. `program` is the path of bubblewrap."""
    mounts = list(_mounts(policy))
    proxy = {} if policy.proxied is None else _PROXY_VARIABLES
    return [
        program,
        *_NAMESPACES,
        *(("--unshare-net",) if policy.hosts is not None else ()),
        *("--cap-drop", "ALL"),
        *("--ro-bind", "/", "/"),
        *("--dev", "/dev"),
        *("--proc", "/proc"),
        *_words(("--ro-bind", path, path) for path in _KERNEL_SWITCHES if os.getuid() == 0 and path.exists()),
        *_words(mount.words for mount in mounts),
        *_words(_links(policy, mounts)),
        *_words(("--remount-ro", mount.path) for mount in mounts if mount.kind is _Kind.COVERED),
        *_words(("--unsetenv", name) for name in TEMPORARY_VARIABLES),
        *_words(("--setenv", name, value) for name, value in proxy.items()),
        *("--chdir", str(cwd)),
    ]


def is_below(path: Path, folders: Iterable[Path]) -> bool:
    """Tell whether a path is one of these folders or lies in one."""
    return any(path.parts[: len(folder.parts)] == folder.parts for folder in folders)


class _Kind(IntEnum):
    """What is put on a path. If a policy says two things about one, the later counts."""

    COVERED, SCRATCH, REPLACED, READABLE, WRITABLE, WITHHELD = range(6)


class _Mount(NamedTuple):
    path: Path
    kind: _Kind
    words: tuple[str | Path, ...]


def _mounts(policy: SandboxPolicy) -> Iterator[_Mount]:
    """Yield what is put where, a folder before what lies in it: what is put on a folder later would hide that again.

    Each costs time, so what is already so because of the folder around it is left out.
    """
    kept: list[_Mount] = []
    for mount in sorted(_wanted(policy), key=lambda mount: (mount.path.parts, mount.kind)):
        outer = (other.kind for other in reversed(kept) if is_below(mount.path, [other.path]))
        around = next(outer, _Kind.READABLE)  # the file system as a whole
        if _is_needed(mount.kind, around):
            kept.append(mount)
            yield mount


def _is_needed(kind: _Kind, around: _Kind) -> bool:
    if kind is _Kind.WITHHELD:
        return around in (_Kind.READABLE, _Kind.WRITABLE)  # elsewhere the file is not there
    return kind is not around or kind not in (_Kind.COVERED, _Kind.READABLE)


def _wanted(policy: SandboxPolicy) -> Iterator[_Mount]:
    for path in _real(policy.covered):
        yield _Mount(path, _Kind.COVERED, ("--perms", _FOR_READING, "--tmpfs", path))
    for path in _real(policy.scratch):
        yield _Mount(path, _Kind.SCRATCH, ("--perms", _mode(path), "--tmpfs", path))
    for path, other in policy.replaced:
        yield _Mount(real_place(path), _Kind.REPLACED, ("--bind", other, real_place(path)))
    for path in _real(policy.readable):
        yield _Mount(path, _Kind.READABLE, ("--ro-bind", path, path))
    for path in _real(policy.writable):
        yield _Mount(path, _Kind.WRITABLE, ("--bind", path, path))
    for path in _real((*policy.withheld, *policy.sockets)):
        yield _Mount(path, _Kind.WITHHELD, ("--ro-bind", os.devnull, path))


def _links(policy: SandboxPolicy, mounts: list[_Mount]) -> Iterator[tuple[str | Path, ...]]:
    """Yield the names of what is readable that are links in an empty folder: the target is there, the name is not."""
    empty = [mount.path for mount in mounts if mount.kind in (_Kind.COVERED, _Kind.SCRATCH)]
    shown = [mount.path for mount in mounts if mount.kind is _Kind.READABLE]
    for path in policy.readable:
        link = real_place(path.parent) / path.name
        if real_place(path) != link and is_below(link, empty) and not is_below(link, shown):
            yield "--symlink", real_place(path), link


def _real(paths: tuple[Path, ...]) -> list[Path]:
    """Return the places themselves, not the links that lead there: bubblewrap would follow those outside the sandbox."""
    found = dict.fromkeys(map(real_place, paths))
    return [path for path in found if path != _ROOT and path.exists()]


@lru_cache(maxsize=1024)
def real_place(path: Path) -> Path:
    """Return where a path leads. It is looked up once: it takes longer than all else, and most paths are in every launch."""
    return path.resolve()


def _mode(folder: Path) -> str:
    """Return the mode of a scratch folder: everybody's folder for temporary files stays everybody's."""
    return _FOR_ALL if folder.name == "tmp" else _FOR_OWNER


def _words(groups: Iterable[tuple[str | Path, ...]]) -> list[str]:
    return [str(word) for group in groups for word in group]


@dataclass(frozen=True, slots=True)
class SandboxProbe:
    """What sandboxes are made by on this machine, with the path of bubblewrap; or else why there is none, and what to do."""

    by: str = ""
    program: str = ""
    obstacle: str = ""
    hint: str = ""


def probe_sandbox(*, closed_network: bool = False) -> SandboxProbe:
    """Return what a sandbox is made by here: bubblewrap if it works, else Landlock alone, which cannot close a network.

    Raises HoldfastError if the user names something else.
    """
    named = os.environ.get(BY_VARIABLE, "")
    if named not in ("", BUBBLEWRAP, LANDLOCK):
        raise HoldfastError(
            f"{BY_VARIABLE} is {quoted(named)}, by which no sandbox is made",
            f"use {BUBBLEWRAP} or {LANDLOCK}, or unset it",
        )
    if named == LANDLOCK:
        found = SandboxProbe(obstacle=f"{BY_VARIABLE} names Landlock", hint=f"unset {BY_VARIABLE}")
    else:
        found = probe_bubblewrap(closed_network=closed_network)
    if found.by or named == BUBBLEWRAP:
        return found
    lacking = "Landlock alone closes no network" if closed_network else landlock_obstacle()
    return replace(found, obstacle=f"{found.obstacle}, and {lacking}") if lacking else SandboxProbe(LANDLOCK)


@lru_cache(maxsize=2)
def probe_bubblewrap(*, closed_network: bool = False) -> SandboxProbe:
    """Try bubblewrap once, with a command that does nothing. Ask only before something is started: it takes some 20 ms.

    Some machines can have a sandbox, but none with a network of its own.
    """
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    program = shutil.which(_PROGRAM, path=os.pathsep.join(name for name in folders if name.startswith("/")))
    if program is None:
        return SandboxProbe(obstacle="bubblewrap is not installed", hint="install the package bubblewrap")
    if Path(program).stat().st_mode & stat.S_ISUID:
        return SandboxProbe(
            obstacle=f"{program} is a setuid program",
            hint="allow user namespaces and remove the bit: `chmod u-s` as root",
        )
    policy = SandboxPolicy(scratch=(Path("/srv"),), hosts=() if closed_network else None)
    filtered = ("--seccomp", "0") if FILTER else ()
    argv = [*sandbox_argv(policy, program, Path("/")), *filtered, "--", "/bin/sh", "-c", ":"]
    try:
        tried = subprocess.run(
            argv,
            input=FILTER,
            capture_output=True,
            timeout=_PROBE_S,
            check=False,
            cwd="/",
            env={},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return SandboxProbe(obstacle=f"{program} cannot be run: {error}", hint="try it by hand")
    if tried.returncode == 0:
        return SandboxProbe(BUBBLEWRAP, program)
    said = tried.stderr.decode(errors="replace").strip()[-_SAID_CHARS:]
    return SandboxProbe(
        obstacle=f"bubblewrap cannot make namespaces here ({said})",
        hint="allow user namespaces: sysctl kernel.unprivileged_userns_clone, a rule of AppArmor, or the container",
    )


def sandbox_obstacle(*, closed_network: bool = False) -> str:
    """Return why this machine has no such sandbox, and what to do about it; an empty string if it has one."""
    found = probe_sandbox(closed_network=closed_network)
    return "" if found.by else f"{found.obstacle}; {found.hint}"
