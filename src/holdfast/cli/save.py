"""`save`: have the unfinished work of live runs saved now. Made for hooks, which must never be in the way."""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

from holdfast.cli.open_repo import ReadOnlyRepo, choose_run, open_read_only
from holdfast.core.status import RUN_IS_OVER, TaskStatus
from holdfast.errors import ExitCode, HoldfastError
from holdfast.paths import RunDir
from holdfast.report_channel import WAKE_VARIABLE
from holdfast.runner.requests import Request, send_request

_POLL_S = 0.02


def save(args: argparse.Namespace) -> int:
    """Ask every live runner of this repository to save all work, and wait until it has. Done twice, nothing is new."""
    try:
        _save(args)
    except (HoldfastError, OSError):
        if not args.quiet:
            raise
    return ExitCode.DONE


def _save(args: argparse.Namespace) -> None:
    deadline = time.monotonic() + args.wait
    if bell := os.environ.get(WAKE_VARIABLE):
        # A task's own agent asks: its runner is known, and the sandbox may hide everything else.
        directory = Path(bell).parent.parent
        _ask(RunDir(directory, directory), deadline)
        return
    place = open_read_only()
    journal = place.require_journal()
    wanted = [choose_run(journal.runs(), args.run)] if args.run else journal.runs()
    live = [listing.row.run for listing in wanted if listing.row.status not in RUN_IS_OVER]
    live = [run for run in live if place.holder(run) is not None]
    if not live and not args.quiet:
        print("No runner is at work here. What is in workspaces stays there; `holdfast resume` saves it.")
    for run in live:
        saved = _ask(place.state.run(run), deadline)
        if not args.quiet:
            _tell(place, run, saved=saved)


def _ask(directory: RunDir, deadline: float) -> bool:
    """Leave the request and wait until it is answered; False when the time is over first, or nobody lives to read it."""
    request = send_request(directory, Request(action="save"))
    while request.exists():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True


def _tell(place: ReadOnlyRepo, run: str, *, saved: bool) -> None:
    if not saved:
        print(f"{run}: the runner has been asked; it has not answered yet.")
        return
    tasks = [task for task in place.require_journal().load(run).tasks if task.status is TaskStatus.RUNNING]
    kept = ", ".join(f"{task.id} at {task.wip[:12]}" for task in tasks if task.wip)
    print(f"{run}: {f'saved {kept}' if kept else 'there is no unfinished work'}.")
