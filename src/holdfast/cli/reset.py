"""`reset`: take a task or a whole run back to its beginning. Journal and refs are copied first; no work is lost."""

from __future__ import annotations

import sys
from argparse import Namespace

from holdfast.cli.arguments import JSON, OPTIONAL_TASK, RUN, WAIT, YES, Arguments
from holdfast.cli.open_repo import OpenRepo, choose_run_or_task, open_repo
from holdfast.cli.output import print_result, uncommitted_lines
from holdfast.cli.plan_file import command_for
from holdfast.cli.prompts import require_yes
from holdfast.cli.stop import stop_run
from holdfast.core.projection import RunRow
from holdfast.core.status import RUN_IS_OVER
from holdfast.journal.protocol import StoredRun
from holdfast.repo.land_run import require_removable_branch
from holdfast.runner.decisions.rewind import back_up_state, require_resettable, reset_task
from holdfast.runner.decisions.user_decisions import discard
from holdfast.runner.mirror.staging_worktree import remove_staging
from holdfast.views.event_text import plain_lines

ARGUMENTS: Arguments = (
    RUN,
    OPTIONAL_TASK,
    WAIT,
    YES,
    JSON,
)


def execute(args: Namespace) -> int:
    """Reset a task, or a whole run."""
    with open_repo() as opened:
        stored, task = choose_run_or_task(opened, args.run, args.task)
        return (
            _reset_run(opened, stored.row, args) if task is None else _reset_task(opened, stored, task, args)
        )


def _reset_task(opened: OpenRepo, stored: StoredRun, task: str, args: Namespace) -> int:
    run = stored.row.run
    opened.require_free(run)
    require_resettable(stored, task)
    require_yes(f"Start {task} of {run} again from nothing? Its work so far stays at its refs.", args)
    backup = back_up_state(opened.repo)
    reset_task(opened.repo, opened.journal, run, task, plain_lines(sys.stderr))
    detail = f"{task} starts again with the next `holdfast resume {run}`."
    lines = [detail, *uncommitted_lines(opened.repo, run)]
    return print_result(opened, run, "\n".join(lines), args, task=task, kept={"backup": str(backup)})


def _reset_run(opened: OpenRepo, row: RunRow, args: Namespace) -> int:
    run = row.run
    require_removable_branch(opened.repo, run)
    first = "" if row.status in RUN_IS_OVER else f"abandon {run}, "
    question = f"{first}archive the branch of {run} and remove its workspaces?"
    require_yes(question[0].upper() + question[1:], args)
    stop_run(opened, run, args.wait)
    backup = back_up_state(opened.repo)
    branch = discard(opened.repo, opened.journal, run, plain_lines(sys.stderr))
    again = command_for(opened.journal.load(run).row.plan_source)
    detail = f"Reset {run}. Nothing was started: `{again}` starts its plan again."
    detail += remove_staging(opened.repo, opened.journal.load(run).row)
    lines = [detail, *uncommitted_lines(opened.repo, run)]
    return print_result(opened, run, "\n".join(lines), args, kept={"branch": branch, "backup": str(backup)})
