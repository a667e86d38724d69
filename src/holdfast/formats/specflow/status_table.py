"""The execution status in STATE.md: one row per run, as people read it."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from holdfast.core.status import RunStatus
from holdfast.formats import markdown
from holdfast.formats.lenient_json import minute
from holdfast.formats.model import SETTLED, ClaimedStatus, ExportedRun
from holdfast.formats.run_to_claims import claim_of, group_status, is_complete, is_held

HEADING = "## Execution Status"
_HEADER = ("Spec ID", "Mode", "Progress", "Last Updated")


class StatusRow(msgspec.Struct, frozen=True, kw_only=True):
    """One run as the table shows it."""

    spec_id: str
    mode: str
    progress: str
    updated: str


def status_row(view: ExportedRun, spec: str, mode: str = "orchestrated") -> StatusRow:
    """Return the row of a run."""
    return StatusRow(spec_id=spec, mode=mode, progress=progress_of(view), updated=minute(view.updated))


def progress_of(view: ExportedRun) -> str:
    """Return `Wave 2/3 (67%)` for the wave that the run is at, or how it rests: complete, paused, failed."""
    if is_complete(view):
        return "Complete"
    total = len(view.plan.stages)
    standings = [
        group_status([claim_of(view, task.id).standing for task in stage.tasks]) for stage in view.plan.stages
    ]
    at = next((place for place, standing in enumerate(standings, 1) if standing not in SETTLED), total)
    if is_held(view):
        return "Paused"
    if view.row.status in (RunStatus.BLOCKED, RunStatus.ABANDONED) and ClaimedStatus.FAILED in standings:
        return f"Failed (Wave {at})"
    return f"Wave {at}/{total} ({round(100 * at / max(total, 1))}%)"


def execution_status(rows: Iterable[StatusRow]) -> str:
    """Return the section with its table."""
    lines = [markdown.as_row(_HEADER), "|---------|------|----------|--------------|"]
    lines += [markdown.as_row((row.spec_id, row.mode, row.progress, row.updated)) for row in rows]
    return "\n".join([HEADING, "", *lines, ""])


def with_status(text: str, row: StatusRow) -> str:
    """Return STATE.md with the row of one run; every other line stays as it is. Without the section it is added."""
    table = next(
        (table for table in markdown.tables(text) if table.header == tuple(h.casefold() for h in _HEADER)),
        None,
    )
    if table is None:
        return text.rstrip("\n") + "\n\n" + execution_status([row])
    lines = text.split("\n")
    ours = markdown.as_row((row.spec_id, row.mode, row.progress, row.updated))
    stale = [each.line for each in table.rows if each.cells[0] in (row.spec_id, "—", "-", "")]
    after = stale[0] if stale else (table.rows[-1].line + 1 if table.rows else _end_of_header(lines, table))
    kept = [(number, line) for number, line in enumerate(lines) if number not in stale]
    before = [line for number, line in kept if number < after]
    return "\n".join([*before, ours, *(line for number, line in kept if number >= after)])


def _end_of_header(lines: list[str], table: markdown.Table) -> int:
    """Return the line after the rule below the header of an empty table."""
    plain = markdown.plain_lines("\n".join(lines))
    header = next(
        number
        for number, line in enumerate(plain)
        if tuple(cell.casefold() for cell in markdown.cells(line)) == table.header
    )
    return header + 2
