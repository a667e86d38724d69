"""The execution status in STATE.md: one row per run, for people."""

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

    def line(self) -> str:
        """Return the row as a line of Markdown."""
        return markdown.as_row((self.spec_id, self.mode, self.progress, self.updated))


def status_row(view: ExportedRun, spec: str, mode: str = "orchestrated") -> StatusRow:
    """Return the row of a run."""
    return StatusRow(spec_id=spec, mode=mode, progress=_progress(view), updated=minute(view.updated))


def _progress(view: ExportedRun) -> str:
    """Return `Wave 2/3 (67%)` for the wave that the run is at, or how it rests: complete, paused, failed."""
    if is_complete(view):
        return "Complete"
    if is_held(view):
        return "Paused"
    total = len(view.plan.stages)
    standings = [
        group_status([claim_of(view, task.id).standing for task in stage.tasks]) for stage in view.plan.stages
    ]
    at = next((place for place, standing in enumerate(standings, 1) if standing not in SETTLED), total)
    if view.row.status in (RunStatus.BLOCKED, RunStatus.ABANDONED) and ClaimedStatus.FAILED in standings:
        return f"Failed (Wave {at})"
    return f"Wave {at}/{total} ({round(100 * at / max(total, 1))}%)"


def execution_status(rows: Iterable[StatusRow]) -> str:
    """Return the section with its table."""
    head = (markdown.as_row(_HEADER), "|---------|------|----------|--------------|")
    return "\n".join([HEADING, "", *head, *(row.line() for row in rows), ""])


def with_status(text: str, row: StatusRow) -> str:
    """Return STATE.md with the row of one run; every other line stays as it is. Without the section it is added."""
    header = tuple(name.casefold() for name in _HEADER)
    table = next((table for table in markdown.tables(text) if table.header == header), None)
    if table is None:
        return text.rstrip("\n") + "\n\n" + execution_status([row])
    stale = [each.line for each in table.rows if each.cells[0] in (row.spec_id, "—", "-", "")]
    last = table.rows[-1].line if table.rows else table.line + 1
    lines: list[str | None] = [*text.split("\n")]
    for number in stale:
        lines[number] = None
    lines.insert(stale[0] if stale else last + 1, row.line())
    return "\n".join(line for line in lines if line is not None)
