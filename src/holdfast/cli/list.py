"""`list`: every run of the repository, oldest first."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path

from holdfast.boot import boot_id
from holdfast.cli.arguments import JSON, Arguments
from holdfast.cli.open_repo import ReadOnlyRepo, open_read_only
from holdfast.cli.output import show
from holdfast.core.facts import NOWHERE, ResultPlaces
from holdfast.core.projection import RunRow
from holdfast.core.status import RUN_IS_OVER, RunStatus
from holdfast.journal.protocol import RunListing, RunProgress
from holdfast.views.run_list import RunLine, list_text, run_line
from holdfast.views.status_text import no_run_text
from holdfast.views.terminal import ANY_WIDTH, terminal_width

ARGUMENTS: Arguments = (JSON,)


def execute(args: Namespace) -> int:
    """Show every run. A repository without runs is not an error."""
    opened, boot = open_read_only(), boot_id()
    runs = opened.runs()
    places = _places(opened.checkout, [listing.row for listing in runs])
    progress = opened.require_journal().progress(runs) if runs else {}
    lines = [_line(opened, listing, progress[listing.row.run], boot, places) for listing in runs]
    width = terminal_width(in_pipe=ANY_WIDTH)
    return show(
        lines, lambda lines: list_text(lines, width) if lines else no_run_text(opened.summaries()), args
    )


def _line(
    opened: ReadOnlyRepo,
    listing: RunListing,
    progress: RunProgress,
    boot: str,
    places: Mapping[str, ResultPlaces],
) -> RunLine:
    """Return the line of a run. Only an unfinished one is loaded: there may be hundreds of others."""
    row = listing.row
    is_over = row.status in RUN_IS_OVER
    return run_line(
        listing,
        progress,
        None if is_over else opened.require_journal().load(row.run).state(),
        time.time(),
        held=not is_over and opened.holder(row.run) is not None,
        boot_id=boot,
        places=places.get(row.run, NOWHERE),
    )


def _places(checkout: Path, rows: list[RunRow]) -> dict[str, ResultPlaces]:
    """Return where the results of completed runs are: in the branches that they began on, or archived.

    Without any, git is not asked. Only for an archived one it is asked alone: it may have landed in another branch.
    """
    completed = [row for row in rows if row.status is RunStatus.COMPLETED]
    if not completed:
        return {}
    from holdfast.repo.refs import archived_runs, result_places, runs_in_their_targets

    landed = runs_in_their_targets(checkout, completed)
    rest = [row for row in completed if row.run not in landed]
    return {
        **{row.run: ResultPlaces((row.target,)) for row in completed if row.run in landed},
        **{row.run: result_places(checkout, row) for row in (archived_runs(checkout, rest) if rest else ())},
    }
