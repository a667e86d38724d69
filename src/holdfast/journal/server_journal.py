"""What the journals in servers share: what a writer shows with every call for a run, and the lease that ends by itself.

How a server is spoken to, and what it stores, is in the module of each journal.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from hashlib import sha256

from holdfast.journal.lease import Holder
from holdfast.journal.protocol import Journal

LEASE_S = 30.0
LONGEST_LEASE_S = 2 * LEASE_S
"""No lease lasts longer. One that seems to was taken before the server's clock went back: it ends that long after somebody asks."""
_NOBODY = ""
"""The fence of who took no epoch. No run has it."""


@dataclass(slots=True)
class RunOwnership:
    """What a writer got when it took a run, and the last number it knows."""

    epoch: int
    fence: str
    last: int

    def digest(self, events: bytes) -> str:
        """Return the name of an append: the same one has the same name, so that it is stored once."""
        return sha256(f"{self.fence} {self.last} ".encode() + events).hexdigest()


class ServerJournal(Journal):
    """A journal in a server: it keeps in mind which runs this object took."""

    lease_s: float = LEASE_S

    def __init__(self) -> None:
        super().__init__()
        self._owned: dict[str, RunOwnership] = {}

    def _own(self, run: str, epoch: int, fence: str, last: int) -> int:
        """Keep in mind that we took an epoch of a run, and return it."""
        self._owned[run] = RunOwnership(epoch, fence, last)
        return epoch

    def _ownership(self, run: str, epoch: int) -> RunOwnership:
        """Return what we show for an epoch of a run. For one that we did not take, it is refused."""
        owned = self._owned.get(run)
        return owned if owned is not None and owned.epoch == epoch else RunOwnership(epoch, _NOBODY, 0)


def new_fence() -> str:
    """Return what tells a take-over from every other one, also from one with the same epoch that a failover lost."""
    return secrets.token_hex(16)


def lock_name(by: Holder | None) -> str:
    """Return the lock of who takes a run, as a server compares it; empty if it has none."""
    return f"{by.boot_id} {by.lock}" if by is not None and by.lock else ""
