"""The run as its runner holds it in the journal: every append, and the lease that a journal in a server has.

A server may be away for a while. Nothing is acted on meanwhile that it did not acknowledge; agents go on, and the runner
waits, says so, and tries again. An append that was stored although its answer was lost is not stored twice
(`journal/protocol.py`). Who lost the lease learns it here, before it has any further effect.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, repeat

from holdfast.core.events import Event
from holdfast.core.projection import RunRow, TaskRow
from holdfast.errors import EventsLostError, LeftWaitingError, StoreUnavailableError
from holdfast.journal.protocol import Journal

Tell = Callable[[str], None]
"""Says something to the person at the terminal that is no event of the run."""
_PAUSES_S = (0.1, 0.2, 0.5, 1.0, 2.0)
_PAUSE_MAX_S = 5.0
_RENEWALS = 3
"""How often the lease is renewed before it would end."""


def _now() -> float:
    """Return a time that runs on while the machine sleeps, as the server's does."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass(slots=True)
class HeldRun:
    """One runner's hold on a run."""

    journal: Journal
    run: str
    epoch: int
    """The number of this take-over of the run. The journal refuses a lower one."""
    tell: Tell = field(default=lambda _: None)
    leaving: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once somebody wants the runner to end: then nobody waits for the server any longer."""
    _sure_until: float = field(default_factory=_now)
    _away_since: float | None = None

    async def append(self, events: Sequence[Event], row: RunRow, tasks: Sequence[TaskRow], at: float) -> None:
        """Make events durable and return once they are. Raises LeaseLostError if another runner took over.

        Raises EventsLostError if the store went back to an older state. Only this runner knows then which commit of the run branch
        is the last that it made, and it says so: the store may have lost that, and `resume` believes no commit by itself.
        """
        try:
            await self._patiently(lambda: self.journal.append(self.run, self.epoch, events, row, tasks, at))
        except EventsLostError as error:
            command = f"holdfast resume {self.run} --accept-branch {row.tip[:12]}"
            raise EventsLostError(error.message, f"`{command}` compares with git and carries on") from error

    async def confirm(self) -> None:
        """Return once it is sure that nobody else may have taken the run. Raises LeaseLostError if somebody did."""
        if self.journal.lease_s is not None and _now() >= self._sure_until:
            await self._renew()

    async def keep(self) -> None:
        """Renew the lease for as long as this runs. Journals without one need nothing."""
        while (lease_s := self.journal.lease_s) is not None:
            await asyncio.sleep(lease_s / _RENEWALS)
            await self._renew()

    async def _renew(self) -> None:
        lease_s = self.journal.lease_s or 0.0
        # Counted from before the call: the server began the lease anew no earlier.
        self._sure_until = lease_s + await self._patiently(lambda: self.journal.renew(self.run, self.epoch))

    async def _patiently(self, call: Callable[[], object]) -> float:
        """Make a call until the server answers, and return when that call began.

        Raises LeftWaitingError if somebody wants us to end meanwhile.
        """
        pauses_s = chain(_PAUSES_S, repeat(_PAUSE_MAX_S))
        while True:
            began = _now()
            try:
                call()
            except StoreUnavailableError as error:
                if self.leaving.is_set():
                    raise LeftWaitingError(
                        f"ended while {error.message}",
                        f"agents live on; `holdfast resume {self.run}` takes them over once the server answers",
                    ) from error
                self._tell_away(error, began)
            else:
                self._tell_back()
                return began
            with suppress(TimeoutError):
                async with asyncio.timeout(next(pauses_s)):
                    await self.leaving.wait()

    def _tell_away(self, error: StoreUnavailableError, since: float) -> None:
        """Say once that the server is away, whoever noticed it."""
        if self._away_since is None:
            self._away_since = since
            self.tell(f"{error.message}; agents go on, nothing is lost; trying again until it answers")

    def _tell_back(self) -> None:
        if self._away_since is not None:
            self.tell(f"{self.journal.name} answers again after {_now() - self._away_since:.0f} s")
            self._away_since = None
