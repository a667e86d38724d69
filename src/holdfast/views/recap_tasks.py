"""The tasks of a run on its page: what was done, what failed and why, and each task with its attempts, errors and commits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.core.people import question_line
from holdfast.core.status import TaskStatus
from holdfast.reporting.timeline import TimelineMark
from holdfast.views.inspection import AttemptView, ErrorView, TaskHistory
from holdfast.views.markup import (
    Html,
    Piece,
    code,
    data_table,
    element,
    moment_cell,
    time_of,
    words_cell,
)
from holdfast.views.recap import TaskRecap
from holdfast.views.spending_text import SpendingColumns
from holdfast.views.text import block, count, one_line
from holdfast.views.timeline_picture import OUTCOMES

WORDS_CHARS = 600
_DETAIL_LINES, _DETAIL_CHARS = 60, 8_000
_TASK_STATUSES: dict[TaskStatus, tuple[str, str]] = {
    TaskStatus.PENDING: ("not started", "soft"),
    TaskStatus.RUNNING: ("● at work", "warn"),
    TaskStatus.WAITING_LIMIT: ("waits for a limit", "warn"),
    TaskStatus.VERIFYING: ("● being checked", "warn"),
    TaskStatus.VERIFIED: ("checked, to land", "warn"),
    TaskStatus.MERGING: ("● landing", "warn"),
    TaskStatus.COMPLETED: ("✓ landed", "good"),
    TaskStatus.FAILED: ("✗ failed", "bad"),
    TaskStatus.BLOCKED: ("! blocked", "warn"),
    TaskStatus.ABANDONED: ("✗ given up", "bad"),
    TaskStatus.SKIPPED: ("skipped", "soft"),
}
_FAILURES = {
    "agent": "agent error",
    "check": "failed check",
    "merged_check": "failed check after the merge",
    "conflict": "merge conflict",
    "side_lost": "side of a conflict lost",
    "stalled": "stalled agent",
    "killed": "killed agent",
    "no_change": "nothing changed",
    "validation": "refused by validators",
    "syntax": "syntax error",
    "limit": "provider's limit",
    "outage": "provider out of reach",
}
"""Kinds of failures whose name alone says too little."""
_BAD_OUTCOMES = ("failed", "lost", "interrupted", "blocked")


def work_section(tasks: Sequence[TaskHistory], totals: Sequence[TaskRecap]) -> Html:
    """Return what was done, task by task."""
    columns = SpendingColumns([task.spending for task in totals])
    figures = {task.id: columns.cells(task.spending) for task in totals}
    heading = [
        "Task",
        "Status",
        "What",
        "By",
        "Attempts",
        *(name.capitalize() for name in columns.heading),
        "Landed as",
    ]
    rows = [
        [
            element("th", element("a", task.id, href=f"#task-{task.id}"), scope="row"),
            element("td", _status(task.status)),
            words_cell(one_line(task.title, 200)),
            element("td", one_line(_workers(task), 80)),
            element("td", str(len(task.attempts)), class_="number"),
            *(element("td", cell, class_="number") for cell in figures.get(task.id, ())),
            element("td", code(task.merge_commit[:12]) if task.merge_commit else "-", class_="short"),
        ]
        for task in tasks
    ]
    return element(
        "section",
        element("h2", "What was done"),
        data_table(heading, rows, ("Attempts", "Time", "Tokens", "Cost")),
    )


def _workers(task: TaskHistory) -> str:
    """Return who worked on a task: its agents, a command, a person."""
    names = ["a person" if one.kind == "person" else one.agent or "a command" for one in task.attempts]
    return ", ".join(dict.fromkeys(names)) or "-"


def _status(status: TaskStatus) -> Html:
    words, tone = _TASK_STATUSES[status]
    return element("span", words, class_=f"status {tone}")


def troubles_section(tasks: Sequence[TaskHistory], marks: Sequence[TimelineMark]) -> Iterator[Html]:
    """Yield what went wrong, in the order of time."""
    errors = [
        (error.at, task.id, attempt.attempt, error)
        for task in tasks
        for attempt in task.attempts
        for error in attempt.errors
    ]
    rows = [
        [
            element("td", time_of(at), class_="time"),
            element("td", element("a", task, href=f"#task-{task}"), class_="name"),
            element("td", str(attempt), class_="number"),
            element("td", failure_words(error.failure)),
            words_cell(one_line(error.error, WORDS_CHARS)),
        ]
        for at, task, attempt, error in sorted(errors, key=lambda one: one[:3])
    ]
    gates = [mark for mark in marks if mark.kind in ("gate", "shut")]
    rows += [
        [moment_cell(mark.at), *(element("td", "-"),) * 3, words_cell(one_line(mark.label, 300))]
        for mark in gates
    ]
    if rows:
        heading = ("Time (UTC)", "Task", "Attempt", "Kind", "Why")
        yield element(
            "section", element("h2", "What failed, and why"), data_table(heading, rows, ("Attempt",))
        )


def failure_words(kind: str) -> str:
    """Return a kind of failure in words."""
    return _FAILURES.get(kind, kind.replace("_", " "))


def tasks_section(tasks: Sequence[TaskHistory]) -> Html:
    """Return each task with its attempts, questions and errors."""
    return element("section", element("h2", "Each task"), *map(_task, tasks))


def _task(task: TaskHistory) -> Html:
    facts = [f"stage {task.stage}"]
    facts += [f"needs {', '.join(task.needs)}"] if task.needs else []
    facts += [f"delivers {one_line(', '.join(task.files), 200)}"] if task.files else []
    parts: list[Piece] = [
        element("div", element("h3", task.id), _status(task.status), class_="task-head"),
    ]
    if task.title:
        parts.append(element("p", one_line(task.title, 300)))
    parts.append(element("p", " · ".join(facts), class_="note"))
    if task.summary:
        parts.append(element("blockquote", "\n".join(_last_lines(task.summary))))
    if task.attempts:
        parts.append(_attempts(task.attempts))
    for one in task.questions:
        answer = f"Answer: {one_line(one.answer, 300)}" if one.answer else "No answer."
        asked = f"Attempt {one.attempt} asked: {one_line(question_line(one), WORDS_CHARS)}"
        parts.append(element("div", element("p", asked), element("p", answer), class_="asked"))
    parts += [_error(attempt.attempt, error) for attempt in task.attempts for error in attempt.errors]
    return element("section", *parts, id=f"task-{task.id}")


def _attempts(attempts: Sequence[AttemptView]) -> Html:
    columns = SpendingColumns([one.spending for one in attempts])
    numbers = [name.capitalize() for name in columns.heading]
    rows = [
        [
            element("th", str(one.attempt), scope="row", class_="short"),
            element("td", one.kind),
            element("td", "a person" if one.kind == "person" else one.agent or "a command"),
            element("td", time_of(one.started_at), class_="time"),
            *(element("td", cell, class_="number") for cell in columns.cells(one.spending)),
            element("td", element("span", OUTCOMES[one.outcome], class_=_tone(one.outcome)), class_="short"),
            element("td", code(one.commit[:12]) if one.commit else "-", class_="short"),
        ]
        for one in attempts
    ]
    return data_table(
        ("Attempt", "Kind", "By", "Started (UTC)", *numbers, "Outcome", "Commit"), rows, ("Attempt", *numbers)
    )


def _tone(outcome: str) -> str:
    return "good" if outcome == "landed" else "bad" if outcome in _BAD_OUTCOMES else "soft"


def _error(attempt: int, error: ErrorView) -> Html:
    kind = failure_words(error.failure)
    parts: list[Piece] = [
        element("p", element("strong", f"Attempt {attempt}, {kind}: "), one_line(error.error, WORDS_CHARS))
    ]
    if error.check:
        parts.append(element("p", "check ", code(one_line(error.check, 300))))
    if error.detail.strip():
        parts.append(
            element(
                "details",
                element("summary", "What it said"),
                element("pre", "\n".join(_last_lines(error.detail))),
            )
        )
    return element("div", *parts, class_="error")


def _last_lines(text: str) -> list[str]:
    """Return the end of a text of several lines, where it mostly says why."""
    lines = block(text[-_DETAIL_CHARS:], "")
    left = len(lines) - _DETAIL_LINES
    return [f"… {count(left, 'line')} before", *lines[-_DETAIL_LINES:]] if left > 0 else lines


def listed(parts: Sequence[str]) -> str:
    """Return `a, b and c`."""
    return ", ".join(parts[:-1]) + f" and {parts[-1]}" if len(parts) > 1 else "".join(parts)
