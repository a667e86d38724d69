"""The questions about an unfinished run: its recovery report on a terminal, answered with one key."""

from __future__ import annotations

from holdfast.cli.inspect import inspect_run
from holdfast.cli.land import land_result
from holdfast.cli.open_repo import OpenRepo
from holdfast.cli.prompts import choose_key, confirm
from holdfast.cli.review import print_review
from holdfast.cli.status import current_status
from holdfast.errors import NeedsDecisionError
from holdfast.fleet import open_fleet
from holdfast.runner.recovery.resume_preview import preview_resume
from holdfast.runner.session import RunOptions
from holdfast.views.inspection import inspection_text
from holdfast.views.recovery_text import (
    RecoveryChoice,
    RecoveryView,
    choice_lines,
    recovery_header,
    recovery_text,
    recovery_view,
)
from holdfast.views.terminal import terminal_width


def ask_how_to_resume(opened: OpenRepo, run: str) -> str:
    """Show the report and return the key of the answer: `r`esume, restart `f`ailed, `a`bandon. Quitting raises."""
    print(recovery_text(_recovery_view(opened, run), terminal_width()))
    while True:
        key = choose_key("r, f, i, a, or q to quit [r]?", "rfiaq", default="r")
        if key == "i":
            print(inspection_text(inspect_run(opened.read_only(), run)))
        elif key == "q":
            raise _undecided(run)
        else:
            return key


def ask_about_unfinished(opened: OpenRepo, run: str) -> str:
    """Show where a plan's unfinished run stands and return the key of the answer: `c`ontinue or start `f`resh.

    Review and land come back to the question; quitting raises.
    """
    header = recovery_header(_recovery_view(opened, run))
    print("\n".join([*header, "", *choice_lines(_choices(run), terminal_width())]))
    while True:
        key = choose_key("c, v, l, f, or q to quit [c]?", "cvlfq", default="c")
        if key == "v":
            print_review(opened.repo, opened.journal.load(run).row)
        elif key == "l":
            _land(opened, run)
        elif key == "q":
            raise _undecided(run)
        else:
            return key


def _recovery_view(opened: OpenRepo, run: str) -> RecoveryView:
    """Return the recovery report of a run. Nothing is changed."""
    view = current_status(opened.read_only(), run).run
    assert view is not None
    fleet = open_fleet(opened.repo.state.fleet)
    return recovery_view(view, preview_resume(opened.repo, fleet, opened.journal, run, RunOptions()))


def _choices(run: str) -> list[RecoveryChoice]:
    return [
        RecoveryChoice("c", "continue it", f"holdfast resume {run}"),
        RecoveryChoice("v", "review what has landed", f"holdfast review {run}"),
        RecoveryChoice("l", "land (merge) what there is", f"holdfast land {run} --yes"),
        RecoveryChoice("f", "start fresh; the old run is archived", "holdfast run --fresh"),
    ]


def _land(opened: OpenRepo, run: str) -> None:
    row = opened.journal.load(run).row
    if confirm(f"Merge what {run} has landed so far into {row.target or 'its branch'}?", yes=False):
        print(land_result(opened.repo, row, None))


def _undecided(run: str) -> NeedsDecisionError:
    return NeedsDecisionError("nothing was done", f"`holdfast resume {run}` continues the run")
