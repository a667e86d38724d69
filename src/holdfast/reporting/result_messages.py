"""What the result of a run says of itself: the message of a commit that lands it, the title and body of a pull request.

Pure. Goals and titles are words of plans, and summaries those of agents: nothing of them steers a terminal, breaks the
trailers or shows a secret.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.core.accounts import money
from holdfast.core.plan import Plan
from holdfast.core.projection import RunRow, TaskRow
from holdfast.core.state import RunState
from holdfast.core.status import TaskStatus
from holdfast.escapes import without_controls
from holdfast.redaction import redact

_SUBJECT_CHARS = 72
_LINE_CHARS = 200
_SUMMARY_CHARS = 2_000
_TASKS_SHOWN = 200


def merge_message(row: RunRow, trailers: str) -> str:
    """Return the message of a merge of the run branch."""
    return f"Land {row.run}: {short(row.goal, 100)}\n\n{trailers}"


def squash_message(state: RunState, trailers: str) -> str:
    """Return the message of the one commit that holds all of a run: its goal, its tasks, our trailers."""
    goal = short(state.row.goal, 1_000)
    subject = short(goal, _SUBJECT_CHARS)
    more = [goal] if subject != goal else []
    return "\n\n".join([subject, *more, "\n".join(_task_lines(state)), trailers])


def pull_request_title(row: RunRow) -> str:
    """Return the title of a pull request with a run's result."""
    return short(row.goal, _SUBJECT_CHARS)


def pull_request_body(state: RunState, trailers: str) -> str:
    """Return the body of a pull request with a run's result, as Markdown: goal, tasks, checks, what it cost, our trailers."""
    sections = [
        short(state.row.goal, 1_000),
        "## Tasks\n\n" + "\n".join(_task_lines(state)),
        *_summaries(state),
        *_checks(state.plan),
        *_cost(state),
        trailers,
    ]
    return "\n\n".join(sections)


def short(text: str, most: int = _LINE_CHARS) -> str:
    """Return a text as one line of at most `most` characters, safe to show."""
    line = without_controls(redact(" ".join(text.split())))
    return line if len(line) <= most else line[: most - 1] + "…"


def _landed(state: RunState) -> list[TaskRow]:
    return [state.tasks[name] for name in state.names if state.tasks[name].status is TaskStatus.COMPLETED]


def _task_lines(state: RunState) -> Iterator[str]:
    landed = _landed(state)
    for task in landed[:_TASKS_SHOWN]:
        yield f"- {short(state.specs[task.id].headline)}"
    if len(landed) > _TASKS_SHOWN:
        yield f"- and {len(landed) - _TASKS_SHOWN} more"


def _summaries(state: RunState) -> Iterator[str]:
    """Yield what agents reported of their work, quoted, so that no word of theirs looks like ours.

    A last line that an agent happened to print describes nothing, and is not shown.
    """
    for task in _landed(state)[:_TASKS_SHOWN]:
        reports = (task.latest.report, task.last_report)
        summary = next((report.summary for report in reports if report and report.summary), "")
        said = without_controls(redact(summary.strip()))[:_SUMMARY_CHARS]
        if said:
            quoted = "\n".join(f"> {line}".rstrip() for line in said.splitlines())
            yield f"### {task.id}\n\n{quoted}"


def _checks(plan: Plan) -> Iterator[str]:
    of_tasks = [check for _, task in plan.tasks() for check in task.verify]
    checks = dict.fromkeys(
        [*plan.verify, *of_tasks, *(check for stage in plan.stages for check in stage.exit)]
    )
    if checks:
        yield "## Checks that passed\n\n" + _code_lines(list(checks))


def _code_lines(commands: Sequence[str]) -> str:
    return "\n".join(f"- `{short(command).replace('`', chr(39))}`" for command in commands)


def _cost(state: RunState) -> Iterator[str]:
    row = state.row
    parts = [f"{row.tokens:,} tokens"] if row.tokens else []
    parts += [money(row.cost_usd)] if row.cost_usd else []
    if parts:
        yield f"Agents reported {' and '.join(parts)}."
