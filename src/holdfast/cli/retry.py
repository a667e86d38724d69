"""`retry`: give a task all its attempts again."""

from __future__ import annotations

from argparse import Namespace
from typing import Literal

from holdfast.cli.arguments import JSON, RUN, Arguments, positional
from holdfast.cli.open_repo import choose_run, open_repo, require_task
from holdfast.cli.output import print_result
from holdfast.core import events as ev
from holdfast.runner.decisions.user_decisions import apply_decision, record_decision
from holdfast.runner.requests import Request, ask_runner

ARGUMENTS: Arguments = (
    positional("task"),
    RUN,
    JSON,
)


def execute(args: Namespace) -> int:
    """Give a task all its attempts again."""
    return decide_about_task(args, "retry", ev.TaskRetried(task=args.task), "has all its attempts again")


def decide_about_task(args: Namespace, action: Literal["retry", "skip"], event: ev.Event, done: str) -> int:
    """Record a user's decision about a task, or ask the live runner to; `done` describes the result."""
    with open_repo() as opened:
        run = choose_run(opened, args.run).run
        stored = opened.journal.load(run)
        require_task(stored.state(), args.task)
        if (held := opened.holder(run)) is None:
            record_decision(opened.repo, opened.journal, run, event)
            detail = f"{args.task} {done}. `holdfast resume {run}` continues the run."
        else:
            # A decision that the state does not allow is refused here, not by the runner.
            apply_decision(stored.state(), event)
            ask_runner(opened.directory(run), Request(action=action, task=args.task))
            detail = f"{args.task} {done}. The runner of {run} ({held}) goes on with it."
        return print_result(opened, run, detail, args, task=args.task)
