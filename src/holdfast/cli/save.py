"""`save`: save the unfinished work of live runs now. Made for hooks, which must never block."""

from __future__ import annotations

import os
import time
from argparse import Namespace
from pathlib import Path

import msgspec

from holdfast.cli.arguments import JSON, Arguments, flag, option, positional
from holdfast.cli.open_repo import choose_run
from holdfast.cli.output import as_json
from holdfast.core.status import RUN_IS_OVER, TaskStatus
from holdfast.errors import ExitCode, HoldfastError
from holdfast.paths import RunDir
from holdfast.report_channel import WAKE_VARIABLE
from holdfast.runner.requests import NotSavedError, Request, send_request
from holdfast.views.read_only_repo import ReadOnlyRepo, open_read_only

_POLL_S = 0.02


ARGUMENTS: Arguments = (
    positional("run", "run id, number or beginning of its name (every run with a live runner)", nargs="?"),
    option("--wait", "S", "seconds to wait until all is saved (10)", type=float, default=10.0),
    flag("--quiet -q", "for hooks: print nothing, never fail"),
    JSON,
)


class SavedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run of what `save --json` prints: whether its runner answered, and the snapshot of each task at work."""

    run: str
    saved: bool
    snapshots: dict[str, str]


def execute(args: Namespace) -> int:
    """Ask every live runner of this repository to save all work, and wait until it has. Idempotent."""
    try:
        _save(args)
    except (HoldfastError, OSError):
        if not args.quiet:
            raise
    return ExitCode.DONE


def _save(args: Namespace) -> None:
    deadline = time.monotonic() + args.wait
    if wake_path := os.environ.get(WAKE_VARIABLE):
        # The caller is a task's own agent: its runner is known, and the sandbox may hide everything else.
        directory = Path(wake_path).parent.parent
        _ask(RunDir(directory, directory), deadline)
        return
    opened = open_read_only()
    opened.require_journal()
    rows = [choose_run(opened, args.run)] if args.run else [listing.row for listing in opened.runs()]
    live = [row.run for row in rows if row.status not in RUN_IS_OVER and opened.holder(row.run) is not None]
    if not live and not args.quiet and not args.json:
        print("No runner is at work here. Work in workspaces stays there; `holdfast resume` saves it.")
    failures, answers = [], []
    for run in live:
        try:
            saved = _ask(opened.directory(run), deadline)
        except NotSavedError as error:
            failures.append(f"{run}: {error.message}")
            continue
        answers.append(_saved_run(opened, run, saved=saved))
    if not args.quiet:
        print(as_json(answers) if args.json else "".join(map(_line, answers)), end="\n" if args.json else "")
    if failures:
        raise NotSavedError.of("\n".join(failures))


def _ask(directory: RunDir, deadline: float) -> bool:
    """Send the request and wait until it is answered; False if that takes too long, or no runner lives to read it.

    Raises NotSavedError if the runner could not save something.
    """
    with send_request(directory, Request(action="save")) as request:
        while not request.is_answered:
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
        if why := request.refusal():
            raise NotSavedError.of(why)
    return True


def _saved_run(opened: ReadOnlyRepo, run: str, *, saved: bool) -> SavedRun:
    tasks = [task for task in opened.require_journal().load(run).tasks if task.status is TaskStatus.RUNNING]
    kept = {task.id: task.latest.snapshot for task in tasks if task.latest.snapshot}
    return SavedRun(run=run, saved=saved, snapshots=kept)


def _line(answer: SavedRun) -> str:
    if not answer.saved:
        return f"{answer.run}: the runner has been asked; it has not answered yet.\n"
    kept = ", ".join(f"{task} at {commit[:12]}" for task, commit in answer.snapshots.items())
    return f"{answer.run}: {f'saved {kept}' if kept else 'there is no unfinished work'}.\n"
