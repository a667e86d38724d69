"""What travels between the runner and a host through Temporal: the order of a launch, its progress, its end, and who is there."""

from __future__ import annotations

import msgspec

from holdfast.fleet.protocol import LaunchKey

ORDER_BYTES_MAX = 1_900_000
"""Temporal refuses more than two megabytes. Files of the repository do not count: git carries them."""
WINDOW_BYTES_MAX = 64 * 1024


class HostOrder(msgspec.Struct, frozen=True, kw_only=True):
    """One launch, as a host needs it.

    `clone` is the runner's clone of the repository, `git` the server through which workspaces travel. The files of the
    workspace are the state `start`; empty, they are on the host already, as it left them. If they changed since, `before` is
    the tree that the host knows. In `argv`, `env` and `given`, which are files with their content, the runner's paths stand for
    the host's: `workspace` is the one that is replaced. `inherited` are variables that the host takes from its own environment:
    what the runner has in them, a key or a path, never travels.
    """

    version: str
    key: LaunchKey
    clone: str
    secret: str
    git: str
    ttl_s: float
    workspace: str
    start: str
    before: str
    argv: tuple[str, ...]
    env: dict[str, str]
    inherited: tuple[str, ...]
    given: dict[str, bytes]
    stdin: str
    timeout_s: float
    stall_s: float
    grace_s: float
    log_bytes_max: int
    stop_signal: str
    bounds: tuple[int, int, float]


class Window(msgspec.Struct, frozen=True):
    """The newest bytes of a file that only grows, and the offset where they begin."""

    start: int = 0
    data: bytes = b""


class LaunchProgress(msgspec.Struct, frozen=True, kw_only=True):
    """What a host tells with each renewal of a launch's lease. `state` is the last one that it saved at the git server."""

    host: str = ""
    state: str = ""
    output: Window = Window()
    report: Window = Window()


class LaunchEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How a launch ended on a host. `record` is its supervisor's exit record; without one it is lost, and `lost` says why."""

    host: str
    record: bytes = b""
    state: str = ""
    problems: tuple[str, ...] = ()
    lost: str = ""


class HostOffer(msgspec.Struct, frozen=True, kw_only=True):
    """What a host offers: its labels, how many launches it takes at once, and how many it has now."""

    host: str
    name: str
    version: str
    labels: tuple[str, ...] = ()
    room: int = 1
    busy: int = 0

    def lacks(self, labels: frozenset[str], version: str) -> str:
        """Return why a launch that needs these labels cannot be here at all; empty if it can."""
        if self.version != version:
            return f"{self.name} runs version {self.version}, and this is {version}"
        missing = sorted(labels - set(self.labels))
        return f"{self.name} lacks {', '.join(missing)}" if missing else ""
