"""What to do about an unfinished run: the report is shown on a terminal and answered with one key."""

from __future__ import annotations

import argparse
import time

from holdfast.cli.land import land_result, review
from holdfast.cli.open_repo import OpenRepo, ReadOnlyRepo
from holdfast.cli.prompts import choose_key, confirm
from holdfast.cli.status import current_status
from holdfast.core import events as ev
from holdfast.core.state import RunState
from holdfast.errors import HoldfastError, NeedsDecisionError
from holdfast.fleet import open_fleet
from holdfast.journal.lease import boot_id
from holdfast.journal.protocol import JournalReader
from holdfast.repo.repository import Repository
from holdfast.reporting.recovery_report import failed_tasks
from holdfast.runner.decisions.user_decisions import record_decision
from holdfast.runner.recovery.resume_preview import preview_resume
from holdfast.runner.session import RunOptions
from holdfast.views.inspection import inspection, inspection_text
from holdfast.views.recovery_text import (
    RecoveryChoice,
    RecoveryView,
    choice_lines,
    recovery_header,
    recovery_text,
    recovery_view,
)
from holdfast.views.status import status_view
from holdfast.views.terminal import terminal_width


def load_recovery_view(repo: Repository, journal: JournalReader, run: str) -> RecoveryView:
    """Return the recovery report of a run. Journal, git, workspaces and processes are only looked at."""
    view = current_status(ReadOnlyRepo(repo.checkout, repo.state, journal), run).run
    assert view is not None
    return recovery_view(view, preview_resume(repo, open_fleet(repo.state.fleet), journal, run, RunOptions()))


def ask_how_to_resume(place: OpenRepo, run: str) -> str:
    """Show the report and return the key of the answer: `r`esume, restart `f`ailed, `a`bandon. Quitting raises."""
    view = load_recovery_view(place.repo, place.journal, run)
    print(recovery_text(view, terminal_width()))
    while True:
        key = choose_key("r, f, i, a, or q to quit [r]?", "rfiaq", default="r")
        if key == "i":
            print(_inspected(place, run))
        elif key == "q":
            raise _undecided(run)
        else:
            return key


def ask_about_unfinished(place: OpenRepo, run: str) -> str:
    """Show where a plan's unfinished run stands and return the key of the answer: `c`ontinue or start `f`resh.

    Reviewing comes back to the question. Landing what there is, and quitting, end the command.
    """
    view = load_recovery_view(place.repo, place.journal, run)
    print("\n".join([*recovery_header(view), "", *choice_lines(_ways_on(run), terminal_width())]))
    while True:
        key = choose_key("c, v, l, f, or q to quit [c]?", "cvlfq", default="c")
        if key == "v":
            review(argparse.Namespace(run=run))
        elif key == "l":
            _land(place, run)
        elif key == "q":
            raise _undecided(run)
        else:
            return key


def restart_failed(place: OpenRepo, run: str) -> frozenset[str]:
    """Give every failed and abandoned task of a run all its attempts again and return which they are."""
    stored = place.journal.load(run)
    failed = require_failed(stored.state())
    for task in failed:
        record_decision(place.repo, place.journal, run, ev.TaskReset(task=task))
    return frozenset(failed)


def require_failed(state: RunState) -> tuple[str, ...]:
    """Return the failed and abandoned tasks of a run, or say that there are none."""
    run = state.row.run
    if failed := failed_tasks(state):
        return failed
    raise HoldfastError(f"no task of run {run} has failed", f"`holdfast resume {run}` carries it on")


def _ways_on(run: str) -> list[RecoveryChoice]:
    return [
        RecoveryChoice(key="c", does="continue it", command=f"holdfast resume {run}"),
        RecoveryChoice(key="v", does="review what has landed", command=f"holdfast review {run}"),
        RecoveryChoice(key="l", does="land (merge) what there is", command=f"holdfast land {run} --yes"),
        RecoveryChoice(key="f", does="start fresh; the old run is archived", command="holdfast run --fresh"),
    ]


def _inspected(place: OpenRepo, run: str) -> str:
    stored = place.journal.load(run)
    status = status_view(stored, None, time.time(), boot_id=boot_id())
    state = stored.state()
    return inspection_text(inspection(status, state, place.journal.events(run), None))


def _land(place: OpenRepo, run: str) -> None:
    row = place.journal.load(run).row
    if confirm(f"Bring what {run} has landed so far into {row.target or 'its branch'}?", yes=False):
        print(land_result(place.repo, row, None))


def _undecided(run: str) -> NeedsDecisionError:
    return NeedsDecisionError("nothing was done", f"`holdfast resume {run}` carries the run on")
