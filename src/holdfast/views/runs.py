"""`list` as data: one line per run, without loading its tasks."""

from __future__ import annotations

import msgspec

from holdfast.core.interruption import Ending, how_it_ended
from holdfast.core.projection import Origin
from holdfast.core.shown import is_resumable, shown_run_status
from holdfast.core.status import RunStatus, StageStatus
from holdfast.journal.protocol import RunListing
from holdfast.views.times import timestamp


class RunLine(msgspec.Struct, frozen=True, kw_only=True):
    """One run; `stage` is the last one that has begun."""

    id: str
    goal: str
    status: RunStatus
    ending: Ending
    stage: str | None
    started_at: str
    updated_at: str
    resumable: bool
    adopted_from: Origin | None = None


def run_line(listing: RunListing, *, held: bool, boot_id: str = "") -> RunLine:
    """Return a run as `list` shows it; `held` tells whether a runner carries it on at this moment.

    `boot_id` tells a reboot from a crash.
    """
    row = listing.row
    begun = [name for name, stage in row.stages.items() if stage.status is not StageStatus.PENDING]
    return RunLine(
        id=row.run,
        goal=row.goal,
        status=shown_run_status(row, held=held),
        ending=how_it_ended(row, held=held, boot_id=boot_id),
        stage=begun[-1] if begun else None,
        started_at=timestamp(listing.started_at),
        updated_at=timestamp(listing.updated_at),
        resumable=is_resumable(row, held=held),
        adopted_from=row.origin,
    )
