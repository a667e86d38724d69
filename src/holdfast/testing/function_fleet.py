"""Agents that are Python functions: the real loop, the real journal and real git run at full speed without a process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.core.facts import Exit, ExitReason, Presence, Sighting
from holdfast.core.status import SandboxMechanism
from holdfast.fleet.protocol import LaunchKey, LaunchOutput, LaunchSpec

Work = Callable[[LaunchSpec], int]
"""What an agent does: it may read and write below `spec.cwd`, and returns an exit status."""


@dataclass(slots=True)
class FunctionFleet:
    """A fleet whose agents and checks are one Python function, called in a thread for each launch.

    Pass it as `fleet` to `runner.session.execute_run`. Nothing outlives the runner here:
    a launch of an earlier fleet is unknown, as after a reboot of a machine without a disk.
    """

    work: Work
    launches: dict[LaunchKey, asyncio.Task[Exit]] = field(default_factory=dict)

    async def launch(self, spec: LaunchSpec) -> None:
        """Call the function in a thread. Idempotent: a key is launched only once."""
        if spec.key not in self.launches:
            self.launches[spec.key] = asyncio.ensure_future(self._work(spec))

    async def _work(self, spec: LaunchSpec) -> Exit:
        code = await asyncio.to_thread(self.work, spec)
        return Exit(token=spec.token, reason=ExitReason.EXITED, code=code)

    def sandbox_obstacle(self, *, closed_network: bool = False) -> str:
        """Return an empty string: functions do what they are told, sandbox or not."""
        return ""

    def sandbox_mechanism(self) -> SandboxMechanism:
        """Return the usual one."""
        return SandboxMechanism.BUBBLEWRAP

    def give_up(self, key: LaunchKey) -> None:
        """Do nothing: no function waits."""

    def recognise(self, key: LaunchKey, token: str) -> None:
        """Do nothing: no launch of an earlier fleet is known."""

    def inspect(self, key: LaunchKey) -> Sighting:
        """Return the status of a launch of this fleet."""
        launch = self.launches.get(key)
        if launch is None:
            return Sighting(Presence.UNKNOWN)
        if not launch.done():
            return Sighting(Presence.ALIVE)
        return Sighting(Presence.ENDED, launch.result())

    async def wait(self, key: LaunchKey) -> Sighting:
        """Return once the function has returned; what it raised is raised here."""
        if key in self.launches:
            await asyncio.shield(self.launches[key])
        return self.inspect(key)

    async def cancel(self, key: LaunchKey) -> Sighting:
        """Wait for the function: a thread cannot be stopped from outside."""
        return await self.wait(key)

    def launch_of(self, pid: int) -> LaunchKey | None:
        """Return None: there are no processes."""

    def live_launches(self, run: str) -> list[LaunchKey]:
        """Return the launches that have not returned."""
        return [key for key, launch in self.launches.items() if key.run == run and not launch.done()]

    def occupants(self, run: str, step: str) -> dict[str, LaunchKey]:
        """Return nothing: a function leaves no record in a folder."""
        return {}

    def may_be_torn(self, key: LaunchKey) -> bool:
        """Tell whether the launch is one of an earlier fleet."""
        return key not in self.launches

    def is_occupied(self, folder: Path) -> bool:
        """Return False: there are no processes."""
        return False

    def last_sign(self, key: LaunchKey) -> float:
        """Return 0: a function leaves no sign on disk."""
        return 0.0

    def remove_drafts(self, run: str) -> None:
        """Do nothing: there are no files."""

    async def sweep(
        self, run: str, keep: frozenset[LaunchKey], tokens: frozenset[str] = frozenset()
    ) -> list[int]:
        """Find nothing: there are no processes."""
        return []

    def output(self, key: LaunchKey, offset: int = 0, most: int | None = None) -> LaunchOutput:
        """Return nothing: functions print elsewhere."""
        return LaunchOutput(offset, b"", offset)

    def close(self) -> None:
        """Release everything."""
        self.launches.clear()
