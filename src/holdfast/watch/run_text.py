"""What the terminal view says about a run and its tasks, as styled text of a given width. Pure.

All text of agents is made harmless first. Each status has a word, a sign and a colour, in this order of importance.
"""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from holdfast.core.ids import with_run_numbers
from holdfast.core.projection import TaskRow
from holdfast.core.status import RunStatus, TaskStatus
from holdfast.reporting.displayed_status import QueuePlace
from holdfast.reporting.run_ending import INTERRUPTED
from holdfast.views.inbox import InboxItem
from holdfast.views.live_picture import progress_bar, used_words
from holdfast.views.status import StageView, StatusView, TaskView, ending_label
from holdfast.views.text import block, count, duration, one_line, percent, shortened, when, with_local_times
from holdfast.watch.run_feed import ShownRun

NAME_MAX = 26
RED, YELLOW, GREEN, CYAN = "#ff8a80", "#ffd54f", "#81c784", "#4dd0e1"
"""So light that they can be read as greys, too: that is what is left of them with NO_COLOR."""
_BAR = 16
_SIGNS: dict[TaskStatus, tuple[str, str, str]] = {
    TaskStatus.PENDING: ("·", "waits", "dim"),
    TaskStatus.RUNNING: ("●", "at work", CYAN),
    TaskStatus.WAITING_LIMIT: ("◷", "waits for a limit", YELLOW),
    TaskStatus.VERIFYING: ("◐", "checked", CYAN),
    TaskStatus.VERIFIED: ("◑", "to land", CYAN),
    TaskStatus.MERGING: ("⇡", "landing", CYAN),
    TaskStatus.COMPLETED: ("✓", "landed", GREEN),
    TaskStatus.FAILED: ("✗", "failed", RED),
    TaskStatus.BLOCKED: ("‖", "needs you", YELLOW),
    TaskStatus.ABANDONED: ("✗", "abandoned", RED),
    TaskStatus.SKIPPED: ("-", "skipped", "dim"),
}
_RUN_STYLES = {
    RunStatus.COMPLETED: GREEN,
    RunStatus.RUNNING: CYAN,
    RunStatus.INTERRUPTED: f"bold {RED}",
    RunStatus.BLOCKED: f"bold {YELLOW}",
}


def inbox_line(inbox: tuple[InboxItem, ...], width: int) -> Text:
    """Return what waits for the user in one line: how many, and the oldest."""
    if not inbox:
        return Text("nothing needs you", style="dim")
    first = inbox[0]
    about = " ".join(filter(None, (first.task, first.words)))
    words = f"Needs you ({len(inbox)}, {when(first.since)}): {about}"
    return Text(one_line(words, width), style=f"bold {YELLOW}")


def run_lines(now: ShownRun, width: int) -> Iterator[Text]:
    """Yield the header of a run: its goal, how far it is and why it rests, its merge queue."""
    view = now.status
    yield Text(one_line(f"{view.run.id}  {view.run.goal}", width), style="bold")
    yield _standing(view, width)
    if detail := now.problem or view.run.detail:
        style = YELLOW if view.run.status is not RunStatus.COMPLETED else "dim"
        yield Text(one_line(with_local_times(with_run_numbers(detail)), width), style=style)
    if waiting := [place for place in view.merge_queue if place.status is not QueuePlace.MERGED]:
        queue = ", ".join(f"{place.task} {place.status}" for place in waiting)
        yield Text(one_line(f"merge queue: {queue}", width), style="dim")


def _standing(view: StatusView, width: int) -> Text:
    run, metrics = view.run, view.metrics
    line = Text(ending_label(run.status, run.ending), style=_RUN_STYLES.get(run.status, YELLOW))
    if run.ending in INTERRUPTED:
        line.append(": press r to resume", style=f"bold {RED}")
    line.append("  ")
    line.append_text(progress_bar(metrics.completed / metrics.tasks if metrics.tasks else 0.0, _BAR, GREEN))
    line.append(f" {metrics.completed} of {metrics.tasks} landed")
    if metrics.failed:
        line.append(f", {metrics.failed} failed", style=RED)
    working = sum(task.status is TaskStatus.RUNNING for task in view.tasks)
    line.append(f", {count(working, 'agent')} at work" if working else "")
    if used := used_words(metrics.tokens or 0, metrics.cost_usd or 0.0):
        line.append(f", {used}", style="dim")
    line.truncate(width, overflow="ellipsis")
    return line


def stage_label(stage: StageView) -> Text:
    """Return a stage as a row of the tree."""
    text = Text(stage.id, style="bold")
    text.append(f"  {stage.completed}/{stage.tasks} landed", style="dim")
    if stage.failed:
        text.append(f", {stage.failed} failed", style=RED)
    if stage.error:
        text.append(f"  {one_line(stage.error)}", style=YELLOW)
    return text


def task_label(task: TaskView, row: TaskRow, name_width: int, width: int, now: float) -> Text:
    """Return a task as a row of the tree: its sign and name, its status, how long and how far, and what it does."""
    sign, word, style = _SIGNS[task.status]
    text = Text(f"{sign} ", style=style)
    text.append(f"{shortened(task.id, name_width):<{name_width}} ")
    text.append(f"{word:<9} ", style=style)
    if task.status is TaskStatus.RUNNING:
        age = duration(max(0.0, now - (row.latest.started_at or now)))
        text.append(
            f"{percent(None if task.reported is None else round(task.reported)):>5} {age:>7} ", style="dim"
        )
    if task.attempts:
        text.append(
            f"{one_line(task.agent, 12)}{f' #{task.attempts}' if task.attempts > 1 else ''} ", style="dim"
        )
    text.append(used_words(task.tokens or 0, task.cost_usd or 0.0), style="dim")
    if doing := task.question or task.activity or task.waiting_for or task.error:
        text.append(f" {one_line(doing)}")
    text.truncate(max(width, 10), overflow="ellipsis")
    return text


def task_lines(now: ShownRun, name: str, at: float) -> Iterator[Text]:
    """Yield what is going on with a task: where it stands and why, its attempts, and what was asked of the user."""
    view = next(task for task in now.status.tasks if task.id == name)
    row, spec = now.state.tasks[name], now.state.specs[name]
    sign, word, style = _SIGNS[view.status]
    yield Text(one_line(f"{name}  {spec.title}".rstrip(), 200), style="bold")
    standing = Text(f"{sign} {word}", style=style)
    standing.append(f" as {view.merge_commit[:12]}, proved by git" if view.merge_commit else "")
    yield standing
    if view.error:
        yield from _paragraph(view.error, YELLOW)
    if view.question:
        yield from _paragraph(f"asks: {view.question}", f"bold {YELLOW}")
        yield from (Text(f"  {number}  {one_line(option)}") for number, option in enumerate(view.options, 1))
    if view.activity:
        yield Text(f"now: {one_line(view.activity, 200)}")
    if view.status is TaskStatus.RUNNING and row.latest.started_at:
        yield Text(f"for {duration(max(0.0, at - row.latest.started_at))}", style="dim")
    if used := used_words(view.tokens or 0, view.cost_usd or 0.0):
        yield Text(used, style="dim")
    yield Text(
        f"agent {one_line(view.agent)}, {count(view.attempts, 'attempt')}, {view.charged} of {view.attempts_max} charged"
    )
    if spec.needs:
        yield Text(one_line(f"needs {', '.join(spec.needs)}", 300), style="dim")
    for failure in row.failures:
        yield Text(one_line(f"attempt {failure.attempt} failed: {failure.error}", 300), style=RED)


def _paragraph(text: str, style: str) -> Iterator[Text]:
    yield from (Text(line, style=style) for line in block(with_local_times(with_run_numbers(text)), ""))
