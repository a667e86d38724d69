"""What a run needs from its user now: answers, tasks that the user has taken, a way past an obstacle. For display only."""

from __future__ import annotations

import msgspec

from holdfast.core.base_check import base_way_out
from holdfast.core.budgets import raising_command, run_overrun
from holdfast.core.people import lacks_merge, next_command, open_questions, question_line, taken_words
from holdfast.core.projection import TaskRow
from holdfast.core.state import RunState
from holdfast.core.status import TASK_IS_OVER, TaskStatus

_WORDS_CHARS = 300


class NeedOfTask(msgspec.Struct, frozen=True, kw_only=True):
    """One task that waits for the user: what for, in words, the command that lets it go on, and what that does.

    `question` and `options` are an agent's words, cleaned when they were recorded; `taken` says that the user has the task.
    """

    task: str
    words: str
    command: str
    does: str = "answers it"
    question: str | None = None
    options: tuple[str, ...] = ()
    taken: bool = False


def needs_you(state: RunState) -> tuple[NeedOfTask, ...]:
    """Return what waits for the user, in plan order: questions first."""
    found = [need for task in state.tasks.values() if (need := need_of(state.row.run, task))]
    return tuple(sorted(found, key=lambda need: need.taken))


def way_past_obstacle(state: RunState) -> str:
    """Return what lets a run go on whose base or budget is in the way: just to resume it would change nothing.

    Empty for any other run.
    """
    if way := base_way_out(state):
        return way
    if run_overrun(state):
        return f"`{raising_command(state)}` raises the budget to N and continues."
    return ""


def need_of(run: str, task: TaskRow) -> NeedOfTask | None:
    """Return what a task needs from the user; None if that is nothing now."""
    if task.status in TASK_IS_OVER:
        return None
    if asked := open_questions(task):
        first = asked[0]
        answer = "1" if first.options else '"…"'
        return NeedOfTask(
            task=task.id,
            words=_short(f"asks: {question_line(first)}"),
            command=f"holdfast answer {run} {task.id} {answer}",
            question=first.question,
            options=first.options,
        )
    if task.taken is None or task.taken.given or task.status is not TaskStatus.BLOCKED:
        return None
    return NeedOfTask(
        task=task.id,
        words=_short(f"is {taken_words(task)}"),
        command=next_command(run, task),
        does="puts the merge into your workspace"
        if lacks_merge(task)
        else "has your work checked and landed",
        taken=True,
    )


def _short(words: str) -> str:
    flat = " ".join(words.split())
    return flat if len(flat) <= _WORDS_CHARS else flat[: _WORDS_CHARS - 1] + "…"
