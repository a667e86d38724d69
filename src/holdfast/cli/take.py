"""`take`: work on a task by hand, in a workspace of your own that holds the work so far. `give` has it checked and landed."""

from __future__ import annotations

import os
import shlex
import sys
import time
from argparse import Namespace
from pathlib import Path

from holdfast.cli.arguments import JSON, RUN_OF_TASK, TASK, Arguments, flag, one_of
from holdfast.cli.open_repo import OpenRepo, choose_task, open_repo
from holdfast.cli.output import print_result
from holdfast.cli.prompts import is_interactive
from holdfast.core import events as ev
from holdfast.core.projection import TaskRow
from holdfast.core.status import TaskStatus
from holdfast.errors import HoldfastError
from holdfast.journal.protocol import StoredRun
from holdfast.repo.taken_workspaces import taken_workspace
from holdfast.repo.workspace_files import require_brought_files
from holdfast.runner.decisions.take import is_theirs, take_task
from holdfast.runner.decisions.user_decisions import apply_decision
from holdfast.runner.requests import Request, ask_runner
from holdfast.views.event_text import plain_lines

_PATIENCE_S = 60.0
_POLL_S = 0.05
ARGUMENTS: Arguments = (
    RUN_OF_TASK,
    TASK,
    one_of(
        flag("--editor", "open $EDITOR there, not $SHELL"),
        flag("--no-shell", "only print where it is"),
    ),
    JSON,
)


def execute(args: Namespace) -> int:
    """Hand a task over to the person, and open a shell there if there is a terminal."""
    with open_repo() as opened:
        stored, task = choose_task(opened, args.run, args.task)
        run = stored.row.run
        path = _take(opened, stored, task)
        detail = _how_it_stands(run, opened.journal.load(run).state().tasks[task], path)
        # People have read the place already.
        kept = {"workspace": str(path)} if args.json else {}
        code = print_result(opened, run, detail, args, task=task, kept=kept)
    if args.editor or not (args.no_shell or args.json or not is_interactive()):
        _open(path, editor=args.editor)
    return code


def _take(opened: OpenRepo, stored: StoredRun, task: str) -> Path:
    run, row = stored.row.run, stored.state().tasks[task]
    workspace = taken_workspace(opened.repo, run, task, stored.plan.workspace)
    if is_theirs(opened.repo, row, workspace):
        return workspace.path
    # Otherwise an agent would be stopped, or the task taken, for a workspace that cannot be made.
    require_brought_files(opened.repo.checkout, stored.plan.workspace)
    if opened.holder(run) is None:
        return take_task(opened.repo, opened.journal, run, task, plain_lines(sys.stderr))
    if row.taken is None or row.taken.ready:
        # A decision that the state does not allow is refused here, not by the runner.
        apply_decision(stored.state(), ev.TaskTaken(task=task))
        ask_runner(opened.directory(run), Request(action="take", task=task))
    _wait_until_theirs(opened, run, task)
    return workspace.path


def _how_it_stands(run: str, row: TaskRow, path: Path) -> str:
    """Return where the workspace is, and what to do next."""
    task = row.id
    if row.taken is not None and row.taken.given:
        return (
            f"{task} is given, and not taken in yet: `holdfast resume {run}` does that. What you change in {path} until then is "
            f"part of it.\n`holdfast give {run} {task} --back` returns it to the agents instead."
        )
    give = f"`holdfast give {run} {task}` has your work checked and landed."
    return f"{task} is yours, in {path}\n{_conflict(row)}{give}"


def _conflict(row: TaskRow) -> str:
    """Return what there is to resolve in the workspace, as a line; empty if it is no merge that conflicts."""
    if row.taken is None or not row.conflict or row.taken.start != row.conflict:
        return ""
    return f"What landed meanwhile conflicts with the work. Resolve the markers in {', '.join(row.conflict_files)}.\n"


def _wait_until_theirs(opened: OpenRepo, run: str, task: str) -> None:
    """Wait until the runner has stopped the agent and made the workspace."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        stored = opened.journal.load(run)
        row = stored.state().tasks[task]
        if row.taken is not None and row.taken.ready:
            return
        if row.taken is None or row.status not in (TaskStatus.BLOCKED, TaskStatus.RUNNING):
            hint = "its agent had just finished: if its work is not good enough, take it again"
            raise HoldfastError(f"task {task} is {row.status}", hint)
        if time.monotonic() > deadline or opened.holder(run) is None:
            why = f": {stored.row.reason}" if stored.row.reason else ""
            hint = f"`holdfast take {run} {task}` again prints the workspace once it is there"
            raise HoldfastError(f"task {task} is yours, but its workspace is not there yet{why}", hint)
        time.sleep(_POLL_S)


def _open(path: Path, *, editor: bool) -> None:
    """Become the user's shell or editor, in the workspace."""
    if editor:
        words = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
        command = [*words, str(path)]
    else:
        command = [os.environ.get("SHELL") or "/bin/sh"]
    os.chdir(path)
    sys.stdout.flush()
    try:
        os.execvp(command[0], command)  # noqa: S606 - the words are the user's own settings
    except OSError as error:
        raise HoldfastError(f"{command[0]} cannot be started: {error.strerror}", f"work in {path}") from None
