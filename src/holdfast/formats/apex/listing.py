"""Every APEX task of a project, as `/apex -r --list` shows them: from the states alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from holdfast.formats import loose
from holdfast.formats.apex import layout
from holdfast.formats.apex.document import Phase, phases_of
from holdfast.formats.apex.state import name_of, read_state
from holdfast.formats.loose import BrokenFileError
from holdfast.formats.model import Standing
from holdfast.formats.stamps import minute_of

_RESUMABLE = "  ← resumable"


class TaskLine(msgspec.Struct, frozen=True, kw_only=True):
    """One task: `COMPLETE`, `IN_PROGRESS`, `FAILED`, or `UNREADABLE` where its state is broken."""

    task_id: str
    status: str
    last_phase: str
    updated: str
    resumable: bool


def listing(documents: Mapping[str, bytes]) -> list[TaskLine]:
    """Return a line for every task whose state is among the documents, by its id. A link is the state it shows."""
    lines = {line.task_id: line for path in sorted(documents) if (line := _line(path, documents[path]))}
    return [lines[name] for name in sorted(lines)]


def _line(path: str, data: bytes) -> TaskLine | None:
    if not layout.is_state(path):
        return None
    try:
        document = loose.parse_object(path, data)
        found = phases_of(document)
    except BrokenFileError:
        name = layout.task_in(path)
        broken = TaskLine(task_id=name, status="UNREADABLE", last_phase="", updated="", resumable=True)
        return broken if name else None
    if not found:
        return None
    run = read_state(path, document, {})
    standings = {claim.standing for claim in run.claims}
    status = "COMPLETE" if run.finished else "FAILED" if Standing.FAILED in standings else "IN_PROGRESS"
    return TaskLine(
        task_id=name_of(document, path),
        status=status,
        last_phase=_last(found),
        updated=minute_of(loose.text(loose.first(document, "updated_at", "created_at"))),
        resumable=not run.finished,
    )


def _last(found: list[Phase]) -> str:
    """Return the phase under way, else the last that was finished, else the first to come."""
    for place in ("current", "completed"):
        names = [phase.name or phase.number for phase in found if phase.place == place]
        if names:
            return names[-1]
    return found[0].name


def as_text(lines: Iterable[TaskLine]) -> str:
    """Return the table for people, its columns as wide as they need to be."""
    rows = [("Task ID", "Status", "Last Phase", "Updated", "")]
    rows += [
        (line.task_id, line.status, line.last_phase, line.updated, _RESUMABLE if line.resumable else "")
        for line in lines
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    texts = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)) + row[4]
        for row in rows
    )
    return "\n".join(text.rstrip() for text in texts)
