"""The resume note: where a run that rests stands, for a person who comes back to it. Markdown, bounded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from holdfast.core.ids import with_run_numbers
from holdfast.core.projection import TaskRow
from holdfast.core.state import RunState
from holdfast.core.status import TASK_IS_OVER, RunStatus, TaskStatus
from holdfast.escapes import without_controls
from holdfast.reporting.needs_you import NeedOfTask, needs_you, way_past_obstacle
from holdfast.reporting.recovery_report import start_again

_LINES_MAX = 40
_TEXT_CHARS = 200

_WHY = {
    RunStatus.RUNNING: "It is under way.",
    RunStatus.COMPLETED: "It is completed.",
    RunStatus.ABANDONED: "It was abandoned.",
    RunStatus.PAUSED: "It was paused.",
    RunStatus.STOPPED: "It was stopped.",
    RunStatus.BLOCKED: "It waits for a decision.",
}


def resume_note(state: RunState, refs: Mapping[str, str], written_at: str, way_on: str = "") -> str:
    """Return where a run stands. `refs` names the ref of each commit, `way_on` says how to continue; the default is `resume`."""
    row, tasks = state.row, state.tasks.values()
    done = [task for task in tasks if task.status is TaskStatus.COMPLETED]
    given_up = [task for task in tasks if task.status is TaskStatus.ABANDONED]
    needs = needs_you(state)
    waiting = {need.task for need in needs}
    begun = [
        task for task in tasks if task.attempt and task.status not in TASK_IS_OVER and task.id not in waiting
    ]
    untried = [task for task in tasks if task.status is TaskStatus.PENDING and not task.attempt]
    reason = f" {_sentence(row.reason)}" if row.reason else ""
    return with_run_numbers("\n\n".join([
        f"# Continue here: {row.run}",
        _short(row.goal),
        f"{_WHY[row.status]}{reason} Written {written_at}.",
        *_section("Needs you", [f"{need.task} {_short(need.words)}; {_kept(state.tasks[need.task], refs)}" for need in needs]),
        *_section("Done", [f"{_titled(state, task)}: landed as {task.merge_commit[:12]}" for task in done]),
        *_section("Abandoned", [_under_way(state, task, refs) for task in given_up]),
        *_section("Under way", [_under_way(state, task, refs) for task in begun]),
        *_section("Next", [_titled(state, task) for task in untried]),
        f"## Go on\n\n{way_on or way_past_obstacle(state) or _way_on(row.run, given_up, needs)}\n",
    ]))  # fmt: skip


def _way_on(run: str, given_up: Sequence[TaskRow], needs: Sequence[NeedOfTask]) -> str:
    """Return the commands that continue a run. Nothing would start while an abandoned task is in the way."""
    commands = [
        *(f"    {need.command}" for need in needs[:_LINES_MAX]),
        *(f"    holdfast retry {run} {task.id}" for task in given_up[:_LINES_MAX]),
        f"    holdfast resume {run}",
    ]
    words = [
        "Run each abandoned task again, or leave it out (`holdfast skip` instead of `retry`), then resume:",
        "",
    ]
    return "\n".join([*(words if given_up else []), *commands])


def _sentence(text: str) -> str:
    words = _short(text)
    return words if words.endswith((".", "!", "?", "…")) else f"{words}."


def _section(title: str, lines: Sequence[str]) -> Iterator[str]:
    if not lines:
        return
    listed = [f"- {line}" for line in lines[:_LINES_MAX]]
    if len(lines) > _LINES_MAX:
        listed.append(f"- and {len(lines) - _LINES_MAX} more")
    yield f"## {title} ({len(lines)})\n\n" + "\n".join(listed)


def _under_way(state: RunState, task: TaskRow, refs: Mapping[str, str]) -> str:
    stands = "cut short" if task.status is TaskStatus.PENDING else str(task.status)
    said = f"; {_short(task.error)}" if task.error else ""
    return f"{_titled(state, task)}: {stands} in attempt {task.attempt}{_progress(task)}; {_kept(task, refs)}{said}"


def _kept(task: TaskRow, refs: Mapping[str, str]) -> str:
    """Return where what there is of a task is kept."""
    kept = task.latest.head or task.set_aside or task.carry or task.latest.snapshot
    ref = f" at {refs[kept]}" if kept in refs else ""
    again = f", but it {start_again(task)}" if kept and kept == task.set_aside else ""
    return f"its work is commit {kept[:12]}{ref}{again}" if kept else "it left no work"


def _progress(task: TaskRow) -> str:
    report = task.latest.report or task.last_report
    if report is None:
        return ""
    line = "" if report.line is None else f" line {report.line}"
    parts = (
        "" if report.progress is None else f"{report.progress:g} %",
        f"{_short(report.file)}{line}" if report.file else "",
        f"next {_short(report.section_next)}" if report.section_next else "",
    )
    known = ", ".join(part for part in parts if part)
    return f" ({known})" if known else ""


def _titled(state: RunState, task: TaskRow) -> str:
    title = state.specs[task.id].title
    return f"{task.id} {_short(title)}" if title else task.id


def _short(text: str) -> str:
    flat = without_controls(" ".join(text.split()))
    return flat if len(flat) <= _TEXT_CHARS else flat[: _TEXT_CHARS - 1] + "…"
