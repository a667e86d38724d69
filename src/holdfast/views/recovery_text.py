"""The recovery report, for people and for programs: where an unfinished run stands and the four choices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from holdfast.core.ids import with_run_numbers
from holdfast.core.status import RUN_IS_OVER
from holdfast.reporting.recovery_report import RecoveryReport, TaskRecovery
from holdfast.views.status import RunView, ending_label
from holdfast.views.text import (
    count,
    duration,
    one_line,
    paragraph,
    percent,
    titled_table,
    with_local_times,
    wrapped_table,
)


class RecoveryChoice(msgspec.Struct, frozen=True):
    """One choice: the key that takes it on a terminal, and the command that does the same anywhere."""

    key: str
    does: str
    command: str


class RecoveryView(msgspec.Struct, frozen=True, kw_only=True):
    """What `resume --dry-run` says; `does` is what the command would do besides the tasks."""

    run: RunView
    does: tuple[str, ...]
    report: RecoveryReport
    choices: tuple[RecoveryChoice, ...]


def recovery_view(
    run: RunView, report: RecoveryReport, effects: Sequence[str] = (), options: str = ""
) -> RecoveryView:
    """Return the report of a run with its choices; `options` are those of `resume` that it was made for."""
    choices = tuple(_choices(run.id, options, report.failed))
    if run.status in RUN_IS_OVER:
        choices = tuple(choice for choice in choices if choice.key == "i")
    return RecoveryView(run=run, does=tuple(effects), report=report, choices=choices)


def recovery_text(view: RecoveryView, width: int) -> str:
    """Return the whole report as text; its tables have at most `width` columns."""
    landed = sum(task.landed is not None for task in view.report.tasks)
    return "\n".join([
        *recovery_header(view.run, landed, len(view.report.tasks), width),
        *(line for effect in view.does for line in paragraph(with_run_numbers(effect), width)),
        "",
        *_tasks(view.report.tasks, width),
        "",
        *_estimates(view.report),
        "",
        *choice_lines(view.choices, width),
    ])  # fmt: skip


def recovery_header(run: RunView, landed: int, tasks: int, width: int) -> Iterator[str]:
    """Yield what happened to the run and its progress."""
    yield f"{run.id}  {ending_label(run.status, run.ending)}  {landed} of {count(tasks, 'task')} landed"
    yield f"  {one_line(run.goal, width - 2)}"
    detail = with_local_times(one_line(run.detail, 300) or f"last sign of life {run.last_sign_at}")
    yield from paragraph(detail, width)


def choice_lines(choices: Sequence[RecoveryChoice], width: int) -> list[str]:
    """Return choices as lines: the key, what it does, the command that does the same."""
    rows = [(choice.key, choice.does, f"`{with_run_numbers(choice.command)}`") for choice in choices]
    # A command is not broken: who copies it gets the whole of it.
    longest = max((len(command) for *_, command in rows), default=0)
    return [line for row in wrapped_table(rows, width, room=longest) for line in row]


def _choices(run: str, options: str, failed: Sequence[str]) -> Iterator[RecoveryChoice]:
    which = one_line(", ".join(failed), 60) or "none has failed"
    yield RecoveryChoice("r", "resume: continue as shown", f"holdfast resume {run}{options}")
    yield RecoveryChoice("f", f"restart failed only: {which}", f"holdfast resume {run} --failed-only")
    yield RecoveryChoice("i", "inspect (dry run): look closer, run nothing", f"holdfast inspect {run}")
    yield RecoveryChoice("a", "abandon it; branch and snapshots stay", f"holdfast abandon {run}")


def _tasks(tasks: Sequence[TaskRecovery], width: int) -> Iterator[str]:
    rows = [("TASK", "STATUS", "PROGRESS", "ATTEMPTS", "SAFE IN GIT", "UNSAVED", "REDO", "RESUME WOULD")]
    rows += [
        (
            task.id,
            task.status,
            percent(task.progress),
            str(task.attempts),
            _safe(task),
            count(task.unsaved, "file") if task.unsaved else "-",
            duration(task.redo_s) if task.redo_s else "-",
            f"{task.move}: {one_line(task.why, 160)}",
        )
        for task in tasks
    ]
    heading, *others = titled_table(rows, width)
    yield from heading
    for task, lines in zip(tasks, others, strict=True):
        yield from lines
        if (place := _place(task)) and not task.landed:
            yield f"    {one_line(place, width - 4)}"


def _safe(task: TaskRecovery) -> str:
    if task.landed:
        return f"landed {task.landed[:12]}"
    if task.set_aside:
        return f"set aside {task.set_aside[:12]}"
    if task.snapshot:
        return f"snapshot {task.snapshot[:12]}"
    return f"committed {task.committed[:12]}" if task.committed else "-"


def _place(task: TaskRecovery) -> str:
    """Return the last place that the agent reported."""
    line = "" if task.line is None else f" line {task.line}"
    parts = (
        f"at {task.file}{line}" if task.file else "",
        f"finished {task.section_done}" if task.section_done else "",
        f"next {task.section_next}" if task.section_next else "",
    )
    return ", ".join(part for part in parts if part)


def _estimates(report: RecoveryReport) -> Iterator[str]:
    yield f"  work to redo: {f'at most {duration(report.redo_s)}' if report.redo_s else 'none'}"
    if report.finish_s is None:
        yield "  time to finish: unknown: no task has finished yet"
    elif report.finish_s:
        basis = f"estimated from {count(report.measured, 'finished task')}; checks not counted"
        yield f"  time to finish: about {duration(report.finish_s)} of agent time, {basis}"
    if report.undecided:
        yield f"  not counted, they need a decision: {count(report.undecided, 'task')}"
