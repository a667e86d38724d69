"""`pause`: start nothing new; tasks under way finish."""

from __future__ import annotations

from argparse import Namespace

from holdfast.cli import stop
from holdfast.cli.arguments import Arguments, flag
from holdfast.cli.open_repo import choose_run, open_repo
from holdfast.cli.output import print_result
from holdfast.runner.requests import Request

ARGUMENTS: Arguments = (
    flag("--now", "do not wait for agents: save their work and end them"),
    *stop.ARGUMENTS,
)


def execute(args: Namespace) -> int:
    """Pause a run after the tasks under way; `--now` ends its agents instead and keeps their work.

    The request holds even if this command is interrupted.
    """
    with open_repo() as opened:
        run = choose_run(opened, args.run).run
        if opened.holder(run) is None:
            return stop.stop_without_runner(opened, run, args)
        if stop.ask_and_wait(opened, run, Request(action="pause", now=args.now), args.wait):
            return stop.complete_stop(opened, run, args)
        detail = f"{run} pauses when the tasks under way have landed; `holdfast status {run}` shows it."
        return print_result(opened, run, detail, args, pending=True)
