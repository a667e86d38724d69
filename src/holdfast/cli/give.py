"""`give`: give back a task that was taken by hand. The work is committed, checked and landed like any attempt."""

from __future__ import annotations

from argparse import Namespace

from holdfast.cli.answer import decide_now, person_words
from holdfast.cli.arguments import JSON, RUN_OF_TASK, TASK, Arguments, flag, option
from holdfast.cli.open_repo import choose_task, open_repo
from holdfast.cli.output import print_result
from holdfast.core import events as ev
from holdfast.errors import HoldfastError
from holdfast.repo.taken_workspaces import taken_workspace
from holdfast.runner.decisions.user_decisions import require_possible
from holdfast.runner.requests import Request

ARGUMENTS: Arguments = (
    RUN_OF_TASK,
    TASK,
    option("-m --message", "TEXT", "what you did: the first line of the commit (the title of the task)"),
    flag("--back", "return it to the agents, who continue from your work"),
    JSON,
)


def execute(args: Namespace) -> int:
    """Have what is in the person's workspace taken in, or ask the live runner to."""
    with open_repo() as opened:
        stored, task = choose_task(opened, args.run, args.task)
        run, row = stored.row.run, stored.state().tasks[task]
        if row.taken is None:
            # The hint must not lead to a command that is refused.
            require_possible(stored, ev.TaskTaken(task=task))
            raise HoldfastError(
                f"task {task} is not taken by anybody", f"`holdfast take {run} {task}` gives it to you"
            )
        workspace = taken_workspace(opened.repo, run, task, stored.plan.workspace)
        if not row.taken.given:
            workspace.require_present()
        message = person_words(args.message, "the message") if args.message else ""
        event = ev.TaskGiven(task=task, back=args.back, message=message)
        request = Request(action="give", task=task, back=args.back, words=message)
        then = decide_now(opened, stored, event, request)
        done = "goes back to the agents, with your work" if args.back else "is given to be checked and landed"
        return print_result(opened, run, f"{task} {done}. {then}", args, task=task)
