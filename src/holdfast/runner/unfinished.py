"""Finding the run that a plan belongs to, so that nothing is begun twice."""

from __future__ import annotations

from holdfast.core.plan import Plan, plan_hash
from holdfast.core.status import RUN_IS_OVER
from holdfast.journal.protocol import JournalReader, RunListing


def unfinished_run(journal: JournalReader, plan: Plan, source: str) -> RunListing | None:
    """Return the latest unfinished run of a plan: the same content, or the same file with other content.

    `source` is the file as a run remembers it; empty for a plan that is in no file.
    """
    digest = plan_hash(plan)
    found = [
        listing
        for listing in journal.runs()
        if listing.row.status not in RUN_IS_OVER
        and (listing.row.plan_hash == digest or (source and listing.row.plan_source == source))
    ]
    return found[-1] if found else None
