"""Control groups: what bounds the processes, the memory and the processor time of a launch, whoever its processes become.

A launch gets groups below ours, in each hierarchy that has a bound to set and lets us make groups there. The supervisor
joins them, starts the agent, and goes back; everything that the agent starts stays in them. Their name holds the launch's
token, so that what a killed supervisor leaves can be found, ended and removed.

Supervisors load this module: it imports nothing.
"""

from __future__ import annotations

import os

_PREFIX = "holdfast-"
_MEMBERS = "cgroup.procs"
_PERIOD_US = 100_000
_MOUNT_FIELDS = 5
CONTROLLERS = ("pids", "memory", "cpu")
_FILES_V1 = {
    "pids": ("pids.max",),
    "memory": ("memory.limit_in_bytes",),
    "cpu": ("cpu.cfs_period_us", "cpu.cfs_quota_us"),
}
_FILES_V2 = {"pids": ("pids.max",), "memory": ("memory.max",), "cpu": ("cpu.max",)}
_REACHED = (
    ("pids", "pids.events", "max"),
    ("memory", "memory.events", "oom_kill"),
    ("memory", "memory.oom_control", "oom_kill"),
)
"""Where the kernel counts that a bound was reached: the controller, the file, and the word before the count."""
Settings = list[tuple[str, str]]
GroupOrder = tuple[str, str, Settings]
"""A group to make: its folder, the folder of the group that the supervisor is in, and the files to write with their contents."""


def orders_for(token: str, pids: int, memory: int, cpus: float, root: str = "") -> list[GroupOrder]:
    """Return the groups that give a launch these bounds, as far as this machine lets us. A bound of 0 is none.

    `root` is put before every path of the system.
    """
    bounds = {
        "pids": [str(pids)] if pids else [],
        "memory": [str(memory)] if memory else [],
        "cpu": [str(_PERIOD_US), str(int(cpus * _PERIOD_US))] if cpus else [],
    }
    made: dict[str, GroupOrder] = {}
    for controller, (parent, own, is_unified) in available_groups(root).items():
        if not (values := bounds[controller]):
            continue
        if is_unified and controller == "cpu":
            values = [" ".join(reversed(values))]
        files = (_FILES_V2 if is_unified else _FILES_V1)[controller]
        group = made.setdefault(parent, (f"{parent}/{_PREFIX}{token}", own, []))
        group[2].extend(zip(files, values, strict=True))
    return list(made.values())


def available_groups(root: str = "") -> dict[str, tuple[str, str, bool]]:
    """Return, for each controller, the folder below which we may make groups, that of our own group, and whether it is unified."""
    found: dict[str, tuple[str, str, bool]] = {}
    mounts = _mounts(root)
    for line in _lines(f"{root}/proc/self/cgroup"):
        _, names, path = line.split(":", 2)
        for controller in names.split(",") if names else CONTROLLERS:
            mount = mounts.get(controller if names else "")
            if controller in CONTROLLERS and mount and (names or controller not in found):
                own = f"{root}{mount}{path}".rstrip("/")
                parent = own if names else _delegated(own, controller, f"{root}{mount}")
                if parent and os.access(parent, os.W_OK) and os.access(f"{parent}/{_MEMBERS}", os.W_OK):
                    found[controller] = (parent, own, not names)
    return found


def _delegated(own: str, controller: str, top: str) -> str:
    """Return the folder, ours or around ours, whose groups have a controller; empty if there is none that we may use.

    Where processes are, no controller can be given to groups below; so it is usually the one around ours.
    """
    folder = own
    while folder.startswith(top):
        for line in _lines(f"{folder}/cgroup.subtree_control"):
            if controller in line.split():
                return folder if os.access(folder, os.W_OK) else ""
        folder = folder.rpartition("/")[0]
    return ""


def _mounts(root: str) -> dict[str, str]:
    """Return where the hierarchy of each controller is mounted; the unified one has an empty name."""
    found: dict[str, str] = {}
    for line in _lines(f"{root}/proc/self/mountinfo"):
        fields, _, after = line.partition(" - ")
        kind, _, options = after.partition(" ")
        place = fields.split(" ")
        if kind.startswith("cgroup") and len(place) > _MOUNT_FIELDS - 1 and place[3] == "/":
            names = [""] if kind == "cgroup2" else options.rpartition(" ")[2].split(",")
            found.update({name: place[4] for name in names if name not in ("rw", "ro")})
    return found


def join(orders: list[GroupOrder]) -> None:
    """Make the groups of a launch and move this process into them. What this machine refuses is left out."""
    for folder, _, settings in orders:
        try:
            os.mkdir(folder, 0o755)  # noqa: PTH102 - pathlib is too heavy for the supervisor
            for name, value in settings:
                _write(f"{folder}/{name}", value)
            _write(f"{folder}/{_MEMBERS}", "0")
        except OSError:
            continue


def reached(orders: list[GroupOrder]) -> list[str]:
    """Return the bounds that processes of a launch ran into: `memory` if one was killed for it, `pids` if one was refused."""
    folders = [folder for folder, _, _ in orders]
    return [
        name for name, file, word in _REACHED if any(_counted(f"{folder}/{file}", word) for folder in folders)
    ]


def _counted(path: str, word: str) -> bool:
    return any(line.startswith(f"{word} ") and line != f"{word} 0" for line in _lines(path))


def leave(orders: list[GroupOrder]) -> None:
    """Move this process back into the groups that it came from."""
    for _, own, _ in orders:
        try:
            _write(f"{own}/{_MEMBERS}", "0")
        except OSError:
            continue


def remove(orders: list[GroupOrder]) -> None:
    """Remove the groups of a launch whose processes are gone. Idempotent."""
    for folder, _, _ in orders:
        remove_group(folder)


def leftover_groups(tokens: frozenset[str], root: str = "") -> list[str]:
    """Return the folders of the groups that launches with these tokens left."""
    parents = {parent for parent, _, _ in available_groups(root).values()}
    named = [f"{parent}/{_PREFIX}{token}" for parent in parents for token in tokens if token.isalnum()]
    return [folder for folder in named if os.path.isdir(folder)]  # noqa: PTH112


def members(folder: str) -> list[int]:
    """Return the processes in a group; none if it is gone. Those of another process table are left out."""
    return [int(line) for line in _lines(f"{folder}/{_MEMBERS}") if line != "0"]


def remove_group(folder: str) -> None:
    """Remove a group that has no processes. Idempotent; one that still has some stays."""
    try:
        os.rmdir(folder)  # noqa: PTH106
    except OSError:
        return


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            return file.read().splitlines()
    except OSError:
        return []
