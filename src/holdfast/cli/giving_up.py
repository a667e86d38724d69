"""`abandon` and `reset`: giving up a run, or what a task has done so far. No work is ever lost by it."""

from __future__ import annotations

import argparse
import sys

from holdfast.cli.answering import answer
from holdfast.cli.asking import confirm
from holdfast.cli.look import require_task
from holdfast.cli.opening import Opened, choose, opened
from holdfast.cli.outcome import without_build
from holdfast.cli.steer import bring_to_rest
from holdfast.core.state import RunState
from holdfast.core.status import RUN_IS_OVER
from holdfast.errors import LeaseHeldError, NeedsDecisionError
from holdfast.runner.backup import back_up_state
from holdfast.runner.resetting import reset_task
from holdfast.runner.steering import abandon as abandon_run, discard
from holdfast.views.lines import plain_lines


def abandon(args: argparse.Namespace) -> int:
    """Give a run up: its agents end, its branch, refs and unfinished work stay. One that is over is left as it is."""
    with opened() as place:
        row = choose(place.journal.runs(), args.run).row
        if row.status in RUN_IS_OVER:
            said = f"{row.run} is {row.status}; there is nothing to give up."
            return answer(place, row.run, said, args)
        _require(f"Give {row.run} up? Its branch, its refs and its unfinished work stay.", args)
        bring_to_rest(place, row.run, args.wait)
        abandon_run(place.repo, place.journal, row.run, plain_lines(sys.stderr))
        said = f"Gave {row.run} up. `git for-each-ref refs/holdfast/{row.run}` shows what is kept."
        return answer(place, row.run, said, args)


def reset(args: argparse.Namespace) -> int:
    """Take a task, or a whole run, back to nothing. Journal and refs are copied first."""
    with opened() as place:
        run = choose(place.journal.runs(), args.run).row.run
        return _reset_run(place, run, args) if args.task is None else _reset_task(place, run, args)


def _reset_task(place: Opened, run: str, args: argparse.Namespace) -> int:
    stored = place.journal.load(run)
    require_task(RunState(stored.plan, stored.row, stored.tasks), args.task)
    if (held := place.holder(run)) is not None:
        raise LeaseHeldError(f"run {run} is held by {held}", f"`holdfast stop {run}` ends it first")
    _require(f"Let {args.task} begin again from nothing? What it did stays at its refs.", args)
    copy = back_up_state(place.repo)
    reset_task(place.repo, place.journal, run, args.task, plain_lines(sys.stderr))
    said = f"{args.task} begins again with the next `holdfast resume {run}`."
    return answer(place, run, said, args, task=args.task, kept={"backup": str(copy)})


def _reset_run(place: Opened, run: str, args: argparse.Namespace) -> int:
    _require(f"Give {run} up, archive its branch and remove its workspaces?", args)
    bring_to_rest(place, run, args.wait)
    copy = back_up_state(place.repo)
    kept = discard(place.repo, place.journal, run, plain_lines(sys.stderr))
    said = f"Reset {run}. Nothing was started: `holdfast run` begins its plan anew."
    said += without_build(place.repo, place.journal.load(run).row)
    return answer(place, run, said, args, kept={"branch": kept, "backup": str(copy)})


def _require(question: str, args: argparse.Namespace) -> None:
    if not confirm(question, yes=args.yes):
        raise NeedsDecisionError("nothing was done", "say --yes to do it without being asked")
