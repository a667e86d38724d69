"""`list`: every run of the repository, oldest first."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Collection
from pathlib import Path

from holdfast.boot import boot_id
from holdfast.cli.arguments import JSON, Arguments
from holdfast.cli.open_repo import open_read_only
from holdfast.cli.output import show
from holdfast.core.projection import RunRow
from holdfast.core.status import RunStatus
from holdfast.views.status import run_line
from holdfast.views.status_text import list_text

ARGUMENTS: Arguments = (JSON,)


def execute(args: Namespace) -> int:
    """Show every run. A repository without runs is not an error."""
    opened, boot = open_read_only(), boot_id()
    runs = opened.runs()
    landed = _landed(opened.checkout, [listing.row for listing in runs])
    lines = [
        run_line(
            listing,
            held=opened.holder(listing.row.run) is not None,
            boot_id=boot,
            landed_in=listing.row.target if listing.row.run in landed else None,
        )
        for listing in runs
    ]
    return show(lines, list_text, args)


def _landed(checkout: Path, rows: list[RunRow]) -> Collection[str]:
    """Return the completed runs whose result is in the branch that they began on. Without any, git is not asked."""
    completed = [row for row in rows if row.status is RunStatus.COMPLETED]
    if not completed:
        return ()
    from holdfast.repo.refs import runs_in_their_targets

    return runs_in_their_targets(checkout, completed)
