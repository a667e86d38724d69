"""`inspect` in words: the timeline of a run, the whole story of a task."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.views.history import AttemptView, Inspection, TaskHistory
from holdfast.views.sentences import sentence
from holdfast.views.text import block, one_line, table
from holdfast.views.times import duration


def inspection_text(view: Inspection) -> str:
    """Return a run with its tasks and timeline as text."""
    run = view.run
    lines = [f"{run.id}  {run.status}  as of event {view.seq}", f"  {one_line(run.goal)}", ""]
    for task in view.tasks:
        lines += [*task_lines(task), ""]
    lines.append("timeline")
    rows = [("#", "TIME", "WHAT")]
    rows += [(str(line.seq), line.at, words) for line in view.events if (words := sentence(line.event))]
    return "\n".join([*lines, *table(rows)])


def task_lines(task: TaskHistory) -> Iterator[str]:
    """Yield one task with all its attempts."""
    yield f"{task.id}  {task.status}  stage {task.stage}, agent {task.agent}, worked {duration(task.worked_s)}"
    if task.title:
        yield f"  {one_line(task.title)}"
    for name, value in (("needs", task.needs), ("delivers", task.files), ("kept at", task.refs)):
        if value:
            yield f"  {name} {', '.join(value)}"
    if task.merge_commit:
        yield f"  landed as {task.merge_commit}"
    if task.wip:
        yield f"  unfinished work saved as {task.wip}"
    for attempt in task.attempts:
        yield from _attempt(attempt)


def _attempt(attempt: AttemptView) -> Iterator[str]:
    commit = f", commit {attempt.commit[:12]}" if attempt.commit else ""
    ended = f" to {attempt.ended_at}" if attempt.ended_at else ""
    outcome = "cut short" if attempt.outcome == "lost" else attempt.outcome
    yield f"  attempt {attempt.attempt} ({attempt.kind}): {outcome}{commit}, {attempt.started_at}{ended}"
    used = f", {attempt.cost_usd:.4f} USD" if attempt.cost_usd else ""
    if attempt.tokens or used:
        yield f"    used {attempt.tokens} tokens{used}"
    if attempt.session:
        yield f"    session {one_line(attempt.session)}"
    if attempt.kept:
        yield f"    its work is kept as {attempt.kept[:12]}, where the next attempt goes on"
    for error in attempt.errors:
        yield f"    {error.at}  {error.failure}: {one_line(error.error, 200)}"
        yield from block(error.detail, "      | ")
