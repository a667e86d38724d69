"""The fleet of a run that an agent leads: it offers tasks to that agent instead of starting them.

An offer exists only in memory. A task that the agent took has the same folder, record and lock as a
supervised launch of `LocalFleet`, so the next runner finds it there: alive while this process lives, lost
once it is gone. Commands, checks and validators are launched as always.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from holdfast.boot import boot_id
from holdfast.core.facts import Exit, ExitReason, Presence, Sighting
from holdfast.errors import HoldfastError
from holdfast.fleet.local import LocalFleet
from holdfast.fleet.protocol import AGENT_STEP, LaunchKey, LaunchSpec
from holdfast.fleet.termination import end_carriers
from holdfast.locks import open_lockable, try_lock
from holdfast.paths import StateDir
from holdfast.process.launch_order import (
    exit_file,
    log_file,
    make_folder,
    record_file,
    signed,
    to_json,
    write_whole,
)
from holdfast.process.output_log import remove_output
from holdfast.process.procfs import TOKEN_VARIABLE
from holdfast.redaction import redact
from holdfast.report_channel import REPORT_VARIABLE

_NEVER = float("inf")
_OURS = "HOLDFAST_"
_ERROR_CHARS = 300


class ClaimError(HoldfastError):
    """A task cannot be taken, or is not held any more. MCP clients know this error by its name."""


class Offer:
    """One attempt that waits for the leading agent, or that it took and works on: then `fd` holds the lock."""

    def __init__(self, spec: LaunchSpec, folder: str) -> None:
        self.spec = spec
        self.folder = folder
        self.fd = -1
        self.began = self.heard = 0.0
        self.reported = 0
        self.over = asyncio.Event()
        self.exit: Exit | None = None

    @property
    def is_taken(self) -> bool:
        """Whether somebody works on it."""
        return self.fd >= 0 and self.exit is None

    @property
    def is_open(self) -> bool:
        """Whether it waits for somebody."""
        return self.fd < 0 and self.exit is None

    @property
    def environment(self) -> dict[str, str]:
        """The variables for a process that works on this attempt: with them it can report, and is found if it is left behind."""
        ours = {name: value for name, value in self.spec.env.items() if name.startswith(_OURS)}
        return {**ours, TOKEN_VARIABLE: self.spec.token}

    def sign(self) -> None:
        """Note a sign of life, also in the time stamp of the record."""
        self.heard = time.monotonic()
        os.utime(self.fd)

    def limit(self) -> tuple[float, ExitReason]:
        """Return when the attempt ends at the latest without a sign of life, and the reason."""
        timeout = self.began + self.spec.timeout_s
        stall = self.heard + self.spec.stall_s if self.spec.stall_s > 0 else _NEVER
        return (timeout, ExitReason.TIMEOUT) if timeout <= stall else (stall, ExitReason.STALLED)

    def read_report(self) -> None:
        """Count a new report as a sign of life: an agent below the leading one may have made it."""
        with suppress(OSError):
            changed = Path(self.spec.env[REPORT_VARIABLE]).lstat().st_mtime_ns
            if changed != self.reported:
                self.reported = changed
                self.sign()


class LeadFleet(LocalFleet):
    """Offers the agents' launches of the `led` tasks; everything else is a launch on this machine.

    `on_change` is called whenever there is a new offer.
    """

    def __init__(self, state: StateDir, is_led: Callable[[str], bool], on_change: Callable[[], None]) -> None:
        super().__init__(state)
        self._is_led = is_led
        self._on_change = on_change
        self._offers: dict[LaunchKey, Offer] = {}
        self._withdrawn = False

    # -- for the agent that leads ---------------------------------------------------------------------------

    def offers(self) -> list[Offer]:
        """Return what can be taken."""
        return [offer for offer in self._offers.values() if offer.is_open]

    def taken(self) -> list[Offer]:
        """Return what was taken and is not over."""
        return [offer for offer in self._offers.values() if offer.is_taken]

    def take(self, task: str) -> Offer:
        """Take the offer of a task, durably: a crash loses it. Raises ClaimError if there is none."""
        offer = next((offer for offer in self.offers() if offer.spec.key.owner == task), None)
        if offer is None:
            if any(offer.spec.key.owner == task for offer in self.taken()):
                raise ClaimError(f"task {task} is claimed already", "go on with it, or claim another one")
            raise ClaimError(f"task {task} is not ready", "list what is ready, and claim one of those")
        make_folder(offer.folder)
        offer.fd = _take(offer)
        offer.began = time.monotonic()
        offer.read_report()
        offer.sign()
        # Waiters for the launch must learn that limits apply from now on.
        offer.over.set()
        offer.over.clear()
        return offer

    def held(self, task: str, token: str) -> Offer:
        """Return the taken task that a token proves; that counts as a sign of life. Raises ClaimError if it is over."""
        for offer in self.taken():
            if offer.spec.key.owner == task and offer.spec.token == token:
                offer.sign()
                return offer
        raise ClaimError(
            f"that claim of task {task} is not held any more",
            "it was completed, given back or timed out; its work is kept: list what is ready and claim anew",
        )

    async def finish(self, offer: Offer, reason: ExitReason, code: int = 0, words: str = "") -> None:
        """End a taken task as a process would end, having printed `words`. Processes that it left running are ended."""
        await end_carriers(frozenset({offer.spec.token}))
        if offer.exit is None:
            _end(offer, reason, code, words)

    def withdraw(self) -> None:
        """Take back all open offers, and offer nothing more. Idempotent."""
        self._withdrawn = True
        for offer in self.offers():
            _end(offer, ExitReason.CANCELLED)

    # -- for the runner -------------------------------------------------------------------------------------

    async def launch(self, spec: LaunchSpec) -> None:
        """Offer the agent's work on a led task, or start the process. A key that was launched before is not launched again."""
        if spec.key.step != AGENT_STEP or not self._is_led(spec.key.owner):
            await super().launch(spec)
        elif self.inspect(spec.key).presence is Presence.UNKNOWN:
            self._offers[spec.key] = offer = Offer(spec, self.folder(spec.key))
            if self._withdrawn:
                _end(offer, ExitReason.CANCELLED)
            self._on_change()

    def inspect(self, key: LaunchKey) -> Sighting:
        """Return what became of a launch. An open offer is alive for us, and unknown to the next runner."""
        offer = self._offers.get(key)
        if offer is None:
            return super().inspect(key)
        return Sighting(Presence.ALIVE) if offer.exit is None else Sighting(Presence.ENDED, offer.exit)

    async def wait(self, key: LaunchKey) -> Sighting:
        """Return once the launch is over. A taken task that shows no sign of life for too long is ended here."""
        offer = self._offers.get(key)
        if offer is None:
            return await super().wait(key)
        while offer.exit is None:
            due, reason = offer.limit() if offer.is_taken else (_NEVER, ExitReason.STALLED)
            if not await _happens(offer.over, due - time.monotonic()) and offer.exit is None:
                offer.read_report()
                if offer.limit() == (due, reason):
                    await self.finish(offer, reason, code=1)
        return self.inspect(key)

    async def cancel(self, key: LaunchKey) -> Sighting:
        """Stop the launch: the token of a taken task is refused from now on. If it ended before, nothing happens."""
        offer = self._offers.get(key)
        if offer is None:
            return await super().cancel(key)
        if offer.exit is None:
            await self.finish(offer, ExitReason.CANCELLED)
        return self.inspect(key)

    def live_launches(self, run: str) -> list[LaunchKey]:
        """Return every launch of the run that is not over, offers among them."""
        offers = [key for key, offer in self._offers.items() if offer.exit is None and key.run == run]
        return sorted({*super().live_launches(run), *offers})

    async def sweep(
        self, run: str, keep: frozenset[LaunchKey], tokens: frozenset[str] = frozenset()
    ) -> list[int]:
        """End everything that belongs to no launch in `keep`, taken tasks included; return the pids of processes."""
        for key in [key for key in self._offers if key.run == run and key not in keep]:
            await self.cancel(key)
        return await super().sweep(run, keep, tokens)

    def close(self) -> None:
        """Close everything without ending anything: taken tasks are lost, and the next runner finds them."""
        for offer in self.taken():
            os.close(offer.fd)
            offer.fd = -1
        self._offers.clear()
        super().close()


def _take(offer: Offer) -> int:
    """Lock the launch's record and fill it as a supervisor does; return the descriptor that holds the lock."""
    fd = open_lockable(Path(record_file(offer.folder)))
    if not try_lock(fd):
        os.close(fd)
        raise ClaimError("the task is claimed elsewhere", "list what is ready, and claim another one")
    remove_output(log_file(offer.folder))
    record: dict[str, str | float] = {
        "pid": os.getpid(),
        "boot": boot_id(),
        "token": offer.spec.token,
        "cwd": str(offer.spec.cwd),
        "began": time.time(),
    }
    os.write(fd, to_json(record))
    return fd


def _end(offer: Offer, reason: ExitReason, code: int = 0, words: str = "") -> None:
    """Leave the exit record of a taken task and release it. An open offer leaves nothing on disk."""
    said = redact(words).encode("utf-8", "replace")
    silent = f"no sign of life for {offer.spec.stall_s:g} s" if reason is ExitReason.STALLED else ""
    error = silent or (" ".join(said.decode().split())[:_ERROR_CHARS] if code else "")
    duration = time.monotonic() - offer.began if offer.fd >= 0 else 0.0
    offer.exit = Exit(
        token=offer.spec.token,
        reason=reason,
        code=code,
        error=error,
        duration_s=round(duration, 6),
        output_bytes=len(said),
        led=True,
    )
    if offer.fd >= 0:
        Path(log_file(offer.folder)).write_bytes(said)
        record = {**msgspec.structs.asdict(offer.exit), "reason": str(reason)}
        # Nobody needs the signature: whoever took the task asks us, and the next runner knows the token.
        write_whole(exit_file(offer.folder), signed(record, offer.spec.secret, b""), durably=False)
        os.close(offer.fd)
    offer.over.set()


async def _happens(event: asyncio.Event, seconds: float) -> bool:
    """Wait for an event, but no longer than that; tell whether it came."""
    try:
        async with asyncio.timeout(None if seconds == _NEVER else seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True
