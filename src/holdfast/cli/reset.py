"""`abandon` and `reset`: giving up a run, or what a task has done so far. No work is ever lost by it."""

from __future__ import annotations

import argparse
import sys

from holdfast.cli.land import remove_build_worktree
from holdfast.cli.open_repo import OpenRepo, choose_run, open_repo
from holdfast.cli.output import print_result
from holdfast.cli.prompts import confirm
from holdfast.cli.status import require_task
from holdfast.cli.stop import bring_to_rest
from holdfast.core.status import RUN_IS_OVER
from holdfast.errors import LeaseHeldError, NeedsDecisionError
from holdfast.runner.decisions.rewind import back_up_state, reset_task
from holdfast.runner.decisions.user_decisions import abandon as abandon_run, discard
from holdfast.views.event_text import plain_lines


def abandon(args: argparse.Namespace) -> int:
    """Give a run up: its agents end, its branch, refs and unfinished work stay. One that is over is left as it is."""
    with open_repo() as place:
        row = choose_run(place.journal.runs(), args.run).row
        if row.status in RUN_IS_OVER:
            said = f"{row.run} is {row.status}; there is nothing to give up."
            return print_result(place, row.run, said, args)
        _require(f"Give {row.run} up? Its branch, its refs and its unfinished work stay.", args)
        bring_to_rest(place, row.run, args.wait)
        abandon_run(place.repo, place.journal, row.run, plain_lines(sys.stderr))
        said = f"Gave {row.run} up. `git for-each-ref refs/holdfast/{row.run}` shows what is kept."
        return print_result(place, row.run, said, args)


def reset(args: argparse.Namespace) -> int:
    """Take a task, or a whole run, back to nothing. Journal and refs are copied first."""
    with open_repo() as place:
        run = choose_run(place.journal.runs(), args.run).row.run
        return _reset_run(place, run, args) if args.task is None else _reset_task(place, run, args)


def _reset_task(place: OpenRepo, run: str, args: argparse.Namespace) -> int:
    stored = place.journal.load(run)
    require_task(stored.state(), args.task)
    if (held := place.holder(run)) is not None:
        raise LeaseHeldError(f"run {run} is held by {held}", f"`holdfast stop {run}` ends it first")
    _require(f"Let {args.task} begin again from nothing? What it did stays at its refs.", args)
    copy = back_up_state(place.repo)
    reset_task(place.repo, place.journal, run, args.task, plain_lines(sys.stderr))
    said = f"{args.task} begins again with the next `holdfast resume {run}`."
    return print_result(place, run, said, args, task=args.task, kept={"backup": str(copy)})


def _reset_run(place: OpenRepo, run: str, args: argparse.Namespace) -> int:
    _require(f"Give {run} up, archive its branch and remove its workspaces?", args)
    bring_to_rest(place, run, args.wait)
    copy = back_up_state(place.repo)
    kept = discard(place.repo, place.journal, run, plain_lines(sys.stderr))
    said = f"Reset {run}. Nothing was started: `holdfast run` begins its plan anew."
    said += remove_build_worktree(place.repo, place.journal.load(run).row)
    return print_result(place, run, said, args, kept={"branch": kept, "backup": str(copy)})


def _require(question: str, args: argparse.Namespace) -> None:
    if not confirm(question, yes=args.yes):
        raise NeedsDecisionError("nothing was done", "say --yes to do it without being asked")
