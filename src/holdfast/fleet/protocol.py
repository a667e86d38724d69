"""What the runner may ask of a fleet. The code that decides, retries and merges never sees a process."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol, Self

import msgspec

from holdfast.core.facts import Exit, Sighting
from holdfast.core.projection import TaskRow
from holdfast.core.status import SandboxMechanism
from holdfast.process.background_removal import remove_in_background as remove_in_background
from holdfast.process.landlock import confine_files as confine_files
from holdfast.process.landlock_rules import file_rules as file_rules
from holdfast.process.launch_order import SHOW_VARIABLE as SHOW_VARIABLE
from holdfast.process.procfs import live_sockets as live_sockets
from holdfast.process.sandbox import SandboxPolicy as SandboxPolicy
from holdfast.process.tool_folders import tools_to_show as tools_to_show

AGENT_STEP = "agent"
"""The step of a launch that is an attempt's agent."""


class LaunchKey(msgspec.Struct, frozen=True, order=True):
    """The permanent name of one supervised process. The same key never means two processes.

    `owner` is a task id, or `@` and a stage id for a stage's gate (`@` is in no id). `step` is AGENT_STEP for the
    attempt's agent, else the name of a check.
    """

    run: str
    owner: str
    attempt: int
    step: str

    @classmethod
    def of_agent(cls, run: str, task: TaskRow) -> Self:
        """Return the key under which the agent of a task's present attempt runs."""
        return cls(run, task.id, task.attempt, AGENT_STEP)


def new_secret() -> str:
    """Return what proves, at the end of a launch, that the record of its end is its supervisor's."""
    return os.urandom(16).hex()


def token_of(secret: str) -> str:
    """Return the token of a secret. Who knows the token, as every agent does, cannot tell the secret."""
    return hashlib.sha256(secret.encode()).hexdigest()[:32]


class ResourceBounds(NamedTuple):
    """What a launch may use at once: processes, bytes of memory, processors. 0 is no bound."""

    pids: int = 0
    memory: int = 0
    cpus: float = 0.0


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """Everything a host needs to start and bound one process.

    Only the supervisor and the runner know the `secret`; the token that follows from it is public. An agent's token is
    in the journal before the launch.
    `holds` are a few descriptors of the caller: the supervisor keeps them open until the whole process tree
    is gone, the process itself does not get them. So a lock lives as long as what it guards.
    `stop_signal` asks the process to end, before it is killed. Without a `sandbox` it sees what the user sees.
    `secrets`, and those of its environment, are not kept if it prints them. `bounds` hold as far as the machine lets us set them.
    It ends at `until`, on the clock of the boot, unless that is extended; 0 is never.
    """

    key: LaunchKey
    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]
    secret: str = field(default_factory=new_secret)
    stdin: Path | None = None
    timeout_s: float = 3600.0
    stall_s: float = 0.0
    grace_s: float = 2.0
    log_bytes_max: int = 64 * 1024 * 1024
    holds: tuple[int, ...] = ()
    stop_signal: str = "TERM"
    sandbox: SandboxPolicy | None = None
    secrets: tuple[str, ...] = ()
    bounds: ResourceBounds = field(default_factory=ResourceBounds)
    until: float = 0.0

    @property
    def token(self) -> str:
        """The public mark of the launch: its processes carry it in their environment."""
        return token_of(self.secret)


class LaunchOutput(NamedTuple):
    """A piece of a launch's output: where it begins, counted from the first byte ever printed, and where all of it ends."""

    start: int
    data: bytes
    end: int


def is_output_of(ended: Exit, output: LaunchOutput) -> bool:
    """Tell whether this is all that a process printed, byte for byte. The files of its output can be written by others."""
    if not ended.output_digest:
        return True  # of a fleet that keeps no output on disk
    return (
        output.start == 0 and hashlib.blake2b(output.data, digest_size=16).hexdigest() == ended.output_digest
    )


class Fleet(Protocol):
    """Launches supervised processes, finds them again and stops them. They survive the caller's death."""

    async def launch(self, spec: LaunchSpec) -> None:
        """Start the process. If the key was launched before, by this runner or a dead one, nothing is started.

        Raises LaunchError if no supervisor could be started. A command that cannot be executed is no error:
        it ends at once, with an Exit that says so.
        """

    def give_up(self, key: LaunchKey) -> None:
        """End the wait of a launch for a host that has room, if it waits: then nothing is launched."""

    def recognise(self, key: LaunchKey, token: str) -> None:
        """Let the end of a launch of an earlier runner count if it proves this token, which comes from the journal."""

    def inspect(self, key: LaunchKey) -> Sighting:
        """Return what became of a launch. This is the truth; events are hints.

        Everybody can write into the folder of a launch: an end counts only if we launched, or recognise, the key.
        """

    async def wait(self, key: LaunchKey) -> Sighting:
        """Return once the launch is no longer alive: ended, lost, or unknown."""

    async def cancel(self, key: LaunchKey) -> Sighting:
        """Stop the launch's whole process tree (SIGTERM, then SIGKILL) and return what became of it.

        Nothing that does not carry the launch's token is ever signalled. If it ended before, nothing happens.
        """

    def launch_of(self, pid: int) -> LaunchKey | None:
        """Return the launch of this repository that a process of this machine belongs to; None if to none."""

    def live_launches(self, run: str) -> list[LaunchKey]:
        """Return every launch of the run that may still have a live process."""

    def occupants(self, run: str, step: str) -> dict[str, LaunchKey]:
        """Return the names of the folders in which launches of this step worked, each with the last one that did."""

    def may_be_torn(self, key: LaunchKey) -> bool:
        """Tell whether a power cut may have torn what a launch wrote: the machine was restarted since, and nobody synced it."""

    def is_occupied(self, folder: Path) -> bool:
        """Tell whether a process works in a folder, even one that belongs to no launch that can be known by its token."""

    def last_sign(self, key: LaunchKey) -> float:
        """Return when the launch last started, printed or ended, by the clock of the disk; 0 if never."""

    async def sweep(
        self, run: str, keep: frozenset[LaunchKey], tokens: frozenset[str] = frozenset()
    ) -> list[int]:
        """End every process that carries a token of this run and belongs to no launch in `keep`; return their pids.

        `tokens` are those of launches that the caller knows, even if the fleet has lost every record of them.
        """

    def sandbox_obstacle(self, *, closed_network: bool = False) -> str:
        """Return why launches cannot be put into a sandbox here, or into one with a network of its own; empty if they can."""

    def sandbox_mechanism(self) -> SandboxMechanism:
        """Return what sandboxes are made by here, if there can be one."""

    def remove_drafts(self, run: str) -> None:
        """Remove the unfinished files of supervisors of a run that is over: a power cut can bring them back. Idempotent."""

    def output(self, key: LaunchKey, offset: int = 0, most: int | None = None) -> LaunchOutput:
        """Return the output of a launch from `offset` on, at most `most` bytes; what is no longer kept is left out."""

    def close(self) -> None:
        """Close everything without stopping anything: launches outlive this object."""
