"""`tick`: tick what a run landed in the task list that its plan was made from, now and as it goes on."""

from __future__ import annotations

from argparse import Namespace

from holdfast.cli.arguments import ANY_RUN, JSON, Arguments, flag
from holdfast.cli.open_repo import OpenRepo, choose_latest_run, open_repo
from holdfast.cli.output import print_result
from holdfast.core import events as ev
from holdfast.core.plan import Plan
from holdfast.core.status import RUN_IS_OVER, TaskStatus
from holdfast.errors import HoldfastError
from holdfast.journal.lease import Lease
from holdfast.runner.decisions.user_decisions import record_decision
from holdfast.runner.requests import Request, ask_runner
from holdfast.runner.tick_writer import make_up_ticks, tick_landed
from holdfast.views.text import count, one_line

ARGUMENTS: Arguments = (
    ANY_RUN,
    flag("--off", "leave the list as it is from now on"),
    JSON,
)


def execute(args: Namespace) -> int:
    """Tick the points of landed tasks in their list, and go on doing so; `--off` ends that and unticks nothing."""
    with open_repo() as opened:
        row = choose_latest_run(opened, args.run)
        path = require_points(opened.journal.load(row.run).plan)
        if args.off:
            detail = _end(opened, row.run, path)
        elif row.status in RUN_IS_OVER:
            with Lease.acquire(opened.directory(row.run).lease):
                make_up_ticks(opened.repo, opened.journal, row.run, asked=True)
            detail = _ticked(opened, row.run, path)
        elif opened.holder(row.run) is not None:
            ask_runner(opened.directory(row.run), Request(action="tick"))
            detail = f"The runner of {row.run} ticks what lands in {path}."
        else:
            record_decision(opened.repo, opened.journal, row.run, ev.TickingStarted())
            going_on = "What lands from now on is ticked when the run continues."
            detail = f"{_ticked(opened, row.run, path)}\n{going_on}"
        return print_result(opened, row.run, detail, args)


def start_ticking(opened: OpenRepo, run: str) -> None:
    """Have a run without a runner tick what lands. Raises HoldfastError if its plan names no list."""
    require_points(opened.journal.load(run).plan)
    record_decision(opened.repo, opened.journal, run, ev.TickingStarted())


def require_points(plan: Plan) -> str:
    """Return the list that a plan was made from. Raises HoldfastError if there is none, or no task has a point in it."""
    if plan.task_list is None or not any(task.points for _, task in plan.tasks()):
        raise HoldfastError(
            "the plan names no task list to tick",
            "`holdfast plan import FILE` makes a plan that does, from a tasks.md, tasks.json, backlog or checklist",
        )
    return plan.task_list.path


def _end(opened: OpenRepo, run: str, path: str) -> str:
    if opened.holder(run) is not None:
        ask_runner(opened.directory(run), Request(action="untick"))
    elif opened.journal.load(run).row.status not in RUN_IS_OVER:
        record_decision(opened.repo, opened.journal, run, ev.TickingEnded())
    return f"{path} stays as it is from now on."


def _ticked(opened: OpenRepo, run: str, path: str) -> str:
    """Say how many of the landed tasks are ticked, and why others are not."""
    state = opened.journal.load(run).state()
    landed = [row for row in state.tasks.values() if row.status is TaskStatus.COMPLETED]
    ticked = sum(row.ticked for row in landed)
    left = [
        event for event in tick_landed(opened.repo, state, asked=True) if isinstance(event, ev.TickFailed)
    ]
    lines = [
        f"{ticked} of {count(len(landed), 'landed task')} {'was' if ticked == 1 else 'were'} ticked in {path}."
    ]
    return "\n".join([*lines, *(f"  {event.task} was not: {one_line(event.error, 300)}" for event in left)])
