"""The commit message of a snapshot: how far the agent was, where it worked, and what it changed. Bounded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.core.projection import Report, TaskRow

_FILES_SHOWN = 20
_TEXT_CHARS = 120


def snapshot_message(task: TaskRow, checkpoint: int, files: Sequence[str], trailers: str) -> str:
    """Return the message of a task's `checkpoint`-th snapshot; what an agent said is cut to one line each."""
    report = task.latest.report or Report()
    progress = "" if report.progress is None else f"{report.progress:g} %, "
    noun = "file" if len(files) == 1 else "files"
    subject = f"WIP {task.id}: {progress}checkpoint {checkpoint}, {len(files)} {noun} changed"
    where = "\n".join([f"Attempt {task.attempt}.", *_where(report)])
    return "\n\n".join([subject, where, *_files(files), trailers])


def _where(report: Report) -> Iterator[str]:
    if report.file:
        line = "" if report.line is None else f", line {report.line}"
        yield f"At {_short(report.file)}{line}."
    if report.section_done:
        yield f"Last finished section: {_short(report.section_done)}"
    if report.section_next:
        yield f"Next section: {_short(report.section_next)}"


def _files(files: Sequence[str]) -> Iterator[str]:
    if not files:
        return
    lines = [f"- {_short(path)}" for path in files[:_FILES_SHOWN]]
    if len(files) > _FILES_SHOWN:
        lines.append(f"and {len(files) - _FILES_SHOWN} more")
    yield "Changed since the attempt began:\n" + "\n".join(lines)


def _short(text: str) -> str:
    """Return an agent's text as one line that cannot be mistaken for our trailers."""
    flat = " ".join(text.split())
    return flat if len(flat) <= _TEXT_CHARS else flat[: _TEXT_CHARS - 1] + "…"
