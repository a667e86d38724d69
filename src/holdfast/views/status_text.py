"""`status` as text."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from holdfast.core.ids import with_run_numbers
from holdfast.core.status import FailureKind, RunStatus, SandboxLevel, SandboxMechanism, TaskStatus
from holdfast.reporting.displayed_status import QueuePlace
from holdfast.reporting.needs_you import NeedOfTask
from holdfast.reporting.run_ending import INTERRUPTED
from holdfast.views.spending_text import SpendingColumns, agents_table, spending_words
from holdfast.views.status import RunView, StageView, StatusView, TaskView, ending_label
from holdfast.views.text import count, duration, one_line, paragraph, percent, titled_table, when

_STUCK_NAMED = 6
_REASON_LINES = 12
_REASON_CHARS = 480
"""An error and what a person can do about it: the second is at the end."""
_NO_RUN = (
    "No run here yet. `holdfast init` writes a starter plan, `holdfast run` starts it.\n"
    "If there was one, `holdfast rebuild` restores it from git."
)


def no_run_text(summaries: Path | None, lost: Sequence[str]) -> str:
    """Return what to say where there is no run; `summaries` is where those of cleaned runs are, if there are any.

    `lost` are runs that git knows all the same.
    """
    if lost:
        return (
            f"No run in the journal, yet git knows {', '.join(lost)}: it was lost, or is in another store.\n"
            "`holdfast rebuild` restores it from git; --store names another store."
        )
    if summaries is None:
        return _NO_RUN
    return (
        f"No run here now. The summaries of cleaned runs are in {summaries}; `holdfast run` starts a new run."
    )


def status_text(view: StatusView, width: int) -> str:
    """Return the whole status as text; its tables have at most `width` columns."""
    lines = [
        *_header(view.run, view, width),
        *_needs(view.needs_you),
        "",
        *_stages(view.stages, width),
        "",
        *_tasks(view.tasks, width),
        *agents_table(view.agents),
        *_queue(view),
        "",
        *next_steps(view),
    ]
    return "\n".join(lines)


def _header(run: RunView, view: StatusView, width: int) -> Iterator[str]:
    metrics = view.metrics
    yield f"{run.id}  {ending_label(run.status, run.ending)}" + (
        f"  (held by {run.held_by})" if run.held_by else ""
    )
    yield f"  {one_line(run.goal, min(100, width - 2))}"
    yield from _reason(run.detail, width)
    yield (
        f"  {metrics.completed} of {count(metrics.tasks, 'task')} landed, {metrics.failed} failed, "
        f"{count(metrics.attempts, 'attempt')}, {metrics.redone} redone, {duration(metrics.elapsed_s)}"
    )
    if spent := spending_words(metrics.spending):
        yield f"  {spent}"
    if run.held_by or run.ending in INTERRUPTED:  # else the reason of its rest names them
        for provider in view.providers:
            yield from paragraph(provider.words, width, "  ") if provider.reason == "outage" else ()
    removed = ", removed since" if run.branch_removed else ""
    yield f"  branch {run.branch} from {run.base[:12]}{removed}"
    if run.status is not RunStatus.PENDING:
        yield f"  sandbox: {_sandbox(run)}"
    if run.adopted_from:
        yield f"  adopted from {run.adopted_from.system} {one_line(run.adopted_from.name)} ({run.adopted_from.main})"
    if run.mirrors:
        yield f"  its {', '.join(run.mirrors)} files are kept up to date"
    if run.ticks:
        yield f"  what lands is ticked in {one_line(run.ticks)}"
    if run.intrusions:
        yield f"  {count(run.intrusions, 'intrusion')} noticed; `holdfast inspect {run.id}` names the files"


def _reason(reason: str, width: int) -> Iterator[str]:
    """Yield why a run rests, with the lines of output that may belong to it."""
    for line in reason.splitlines()[:_REASON_LINES]:
        indent = "  " + " " * (len(line) - len(line.lstrip()))
        yield from paragraph(with_run_numbers(one_line(line, _REASON_CHARS)), width, indent)


def _needs(needs: Sequence[NeedOfTask]) -> Iterator[str]:
    """Yield what waits for the user, each with the command that lets it go on."""
    if needs:
        yield ""
        yield "  needs you"
    for need in needs:
        words = f"asks: {need.question}" if need.question else need.words
        yield f"    {need.task} {one_line(words, 300)}"
        yield from (f"      {n}  {one_line(option)}" for n, option in enumerate(need.options, start=1))
        yield f"      `{need.command}`"


def _sandbox(run: RunView) -> str:
    if run.sandbox is SandboxLevel.OFF:
        return str(run.sandbox)
    by = " (Landlock)" if run.sandbox_by is SandboxMechanism.LANDLOCK else ""
    return f"{run.sandbox}{by}, network: {run.network}"


def _stages(stages: Sequence[StageView], width: int) -> Iterator[str]:
    columns = SpendingColumns([stage.spending for stage in stages])
    rows = [("STAGE", "STATUS", "DONE", "FAILED", *columns.heading, "NOTE")]
    for stage in stages:
        done = f"{stage.completed}/{stage.tasks}"
        waived = ", ".join(f"{gate} check waived" for gate in stage.waived)
        note = one_line(stage.error or waived)
        used = columns.cells(stage.spending)
        rows.append((stage.id, stage.status, done, str(stage.failed), *used, note))
    yield from chain.from_iterable(titled_table(rows, width))


def _tasks(tasks: Sequence[TaskView], width: int) -> Iterator[str]:
    reports = any(task.reported is not None for task in tasks)
    columns = SpendingColumns([task.spending for task in tasks])
    progress_heading = ["PROGRESS"] if reports else []
    rows = [("TASK", "STATUS", *progress_heading, "ATTEMPTS", "AGENT", *columns.heading, "NOTE")]
    for task in tasks:
        progress = [percent(task.reported)] if reports else []
        note = one_line(_at_work(task) or task.error or (task.merge_commit or "")[:12], 80)
        used = columns.cells(task.spending)
        rows.append((task.id, task.status, *progress, _attempts(task), task.agent, *used, note))
    yield from chain.from_iterable(titled_table(rows, width))


def _attempts(task: TaskView) -> str:
    """Return how many attempts there were, and how many of them count against the limit: limits, outages and stops charge none."""
    told = task.attempts > 1 or task.charged
    return f"{task.attempts} ({task.charged} of {task.attempts_max} charged)" if told else str(task.attempts)


def _at_work(task: TaskView) -> str:
    """Return what a working agent does, or how long a task waits; empty for any other task."""
    if task.waiting_for:
        return f"waits for {task.waiting_for}"
    if task.waiting_until:
        return f"until {when(task.waiting_until)}"
    if task.liveness is None:
        return ""
    if task.obstacle:
        return f"{task.liveness}, blocked: {task.obstacle}"
    doing = f": {task.activity}" if task.activity else ""
    return f"{task.liveness}{doing}"


def _queue(view: StatusView) -> Iterator[str]:
    waiting = [
        f"{place.task} ({place.status})"
        for place in view.merge_queue
        if place.status is not QueuePlace.MERGED
    ]
    merged = len(view.merge_queue) - len(waiting)
    if view.merge_queue:
        yield ""
        yield f"  merge queue: {', '.join(waiting) or 'empty'}; {merged} merged"


def next_steps(view: StatusView) -> Iterator[str]:
    """Yield the commands that make sense now, each with what it does."""
    run = view.run
    if run.held_by:
        yield f"`holdfast status {run.id} -f` follows it, `holdfast logs {run.id} -f` its agents; `holdfast stop {run.id}` stops it; it can resume."
    elif run.landed_in:
        branches = one_line(", ".join(run.landed_in), 80)
        yield f"Its result is in {branches}. `holdfast review {run.id}` shows it; `holdfast clean {run.id}` frees its disk space."
    elif run.archived_at:
        yield f"Discarded. `git log {run.archived_at}` shows its result; `git branch {run.branch} {run.archived_at}` brings it back."
    elif run.status is RunStatus.COMPLETED:
        yield f"`holdfast review {run.id}` shows the result; `holdfast land {run.id}` merges it into {run.target or 'a branch'}."
    elif run.resumable:
        yield from _ways_to_continue(run, view)
    elif run.status is RunStatus.ABANDONED:
        yield f"Abandoned. `git for-each-ref refs/holdfast/{run.id}` shows what is kept; `holdfast run PLAN` starts its plan again."


def _ways_to_continue(run: RunView, view: StatusView) -> Iterator[str]:
    if run.adopting:
        yield f"Its adoption is not complete; `holdfast adopt {shlex.quote(run.adopting)}` completes it."
        return
    if failed := [stage.id for stage in view.stages if stage.gate]:
        yield f"`holdfast resume {run.id}` checks again; `holdfast resume {run.id} --accept {','.join(failed)}` continues anyway;"
        yield f"`holdfast abandon {run.id}` abandons the run; its branch and refs stay."
        return
    for need in view.needs_you:
        yield f"`{need.command}` {need.does};"
    abandoned = [task for task in view.tasks if task.status is TaskStatus.ABANDONED]
    stuck = [task.id for task in abandoned]
    if stuck:
        others = f" ({', '.join(stuck[1:_STUCK_NAMED])} too)" if stuck[1:] else ""
        yield f"`holdfast inspect {run.id} {stuck[0]}` shows why {stuck[0]} failed{others};"
        yield f"`holdfast retry {run.id} {stuck[0]}` runs it again, `holdfast skip {run.id} {stuck[0]}` skips it;"
    yield from _ways_to_finish(run, abandoned)
    if view.way_out:
        yield view.way_out
        return
    if stuck or view.needs_you:
        yield f"then `holdfast resume {run.id}` continues."
        return
    if f"`holdfast resume {run.id}`" in run.detail:
        return
    if run.status is RunStatus.BLOCKED:
        yield f"`holdfast resume {run.id}` tries again."
        return
    yield f"`holdfast resume {run.id}` continues."


def _ways_to_finish(run: RunView, abandoned: Sequence[TaskView]) -> Iterator[str]:
    """Yield what helps a task whose agents do not say that they are done: its work may be whole."""
    unfinished = [task for task in abandoned if task.failure is FailureKind.UNFINISHED]
    for task in unfinished[:1]:
        yield f"`holdfast take {run.id} {task.id}` hands you its work, which may be whole;"
    for task in [task for task in unfinished if task.closing_line_missing][:1]:
        yield (
            f"if its model never writes the closing line: `closing_line: false` for {task.agent} under `agents:` in the plan, "
            f"`holdfast amend {run.id}`;"
        )
