"""`retry`: give a task all its attempts again."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from typing import Literal

from holdfast.cli.arguments import JSON, RUN_OF_TASK, TASK, Arguments
from holdfast.cli.open_repo import choose_task, open_repo
from holdfast.cli.output import print_result
from holdfast.core import events as ev
from holdfast.core.people import open_questions
from holdfast.runner.decisions.user_decisions import apply_decision, record_decision
from holdfast.runner.requests import Request, ask_runner

ARGUMENTS: Arguments = (
    RUN_OF_TASK,
    TASK,
    JSON,
)


def execute(args: Namespace) -> int:
    """Give a task all its attempts again."""
    return decide_about_task(args, "retry", ev.TaskRetried, "has all its attempts again")


def decide_about_task(
    args: Namespace, action: Literal["retry", "skip"], decision: Callable[..., ev.TaskEvent], done: str
) -> int:
    """Record a user's decision about a task, or ask the live runner to; `done` describes the result."""
    with open_repo() as opened:
        stored, task = choose_task(opened, args.run, args.task)
        run, event = stored.row.run, decision(task=task)
        if (held := opened.holder(run)) is None:
            record_decision(opened.repo, opened.journal, run, event)
            detail = f"{task} {done}. `holdfast resume {run}` continues the run."
        else:
            # A decision that the state does not allow is refused here, not by the runner.
            apply_decision(stored.state(), event)
            ask_runner(opened.directory(run), Request(action=action, task=task))
            detail = f"{task} {done}. The runner of {run} ({held}) goes on with it."
        if open_questions(stored.state().tasks[task]):
            detail += " Its question stays without an answer."
        return print_result(opened, run, detail, args, task=task)
