"""`list`: every run of the repository, oldest first."""

from __future__ import annotations

from argparse import Namespace

from holdfast.boot import boot_id
from holdfast.cli.arguments import JSON, Arguments
from holdfast.cli.open_repo import ReadOnlyRepo, open_read_only
from holdfast.cli.output import show
from holdfast.cli.status import landed_in
from holdfast.core.projection import RunRow
from holdfast.core.status import RUN_IS_OVER
from holdfast.reporting.needs_you import NeedOfTask, needs_you
from holdfast.views.status import run_line
from holdfast.views.status_text import list_text, no_run_text

ARGUMENTS: Arguments = (JSON,)


def execute(args: Namespace) -> int:
    """Show every run. A repository without runs is not an error."""
    opened, boot = open_read_only(), boot_id()
    lines = [
        run_line(
            listing,
            held=opened.holder(listing.row.run) is not None,
            boot_id=boot,
            needs=_needs(opened, listing.row),
            tasks=opened.require_journal().load(listing.row.run).tasks,
            landed_in=landed_in(opened.checkout, listing.row),
        )
        for listing in opened.runs()
    ]
    return show(lines, lambda lines: list_text(lines) if lines else no_run_text(opened.summaries()), args)


def _needs(opened: ReadOnlyRepo, row: RunRow) -> tuple[NeedOfTask, ...]:
    """Return what a run needs from the user. Most wait for nothing: only unfinished ones are read whole."""
    return () if row.status in RUN_IS_OVER else needs_you(opened.require_journal().load(row.run).state())
