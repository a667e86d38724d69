"""Carrying a run on from the command line: who watches, what the exit code says, and doing it in the background."""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec

from holdfast.cli.open_repo import OpenRepo
from holdfast.cli.status import landed_in
from holdfast.core.events import RunnerAttached
from holdfast.core.status import RunStatus, TaskStatus
from holdfast.errors import ExitCode, HoldfastError
from holdfast.journal.protocol import StoredRun
from holdfast.process.programs import has_ended, start_in_background
from holdfast.runner.loop import Observer
from holdfast.runner.session import RunOptions, execute_run
from holdfast.views.event_text import json_lines, plain_lines
from holdfast.views.status import status_view
from holdfast.views.status_text import next_steps
from holdfast.views.terminal import supports_live_display, write_line
from holdfast.views.text import block

_ATTACH_S = 30.0
_POLL_S = 0.05
_TAIL_CHARS = 2000


def run_in_foreground(place: OpenRepo, run: str, choices: RunOptions, args: argparse.Namespace) -> int:
    """Carry a run on before the user's eyes until it rests; return the exit code that says how it rests."""
    from holdfast.cli.land import land_result

    with _audience(json=args.json) as observer:
        execute_run(place.repo, place.journal, run, choices, observer)
    stored = place.journal.load(run)
    code = exit_code(stored)
    if args.land and stored.row.status is RunStatus.COMPLETED:
        say(land_result(place.repo, stored.row, None), args)
    if args.json:
        print(msgspec.json.encode(Result(run=run, status=stored.row.status, exit_code=code)).decode())
    else:
        _summarise(place, stored)
        print_note_path(place, run)
    return code


def run_in_background(place: OpenRepo, run: str, arguments: list[str], args: argparse.Namespace) -> int:
    """Start a runner that outlives this command; return once it has attached to the run."""
    output = place.directory(run).root / "runner.log"
    before = place.journal.load(run).last_seq
    pid = start_in_background(["resume", run, "--yes", *arguments], output)
    _await_attachment(place, run, before, pid, output)
    if args.json:
        print(msgspec.json.encode(Detached(run=run, pid=pid, output=str(output))).decode())
    else:
        print(f"{run} runs in the background (pid {pid}); its output is in {output}")
        print(f"`holdfast status {run}` shows it; `holdfast stop {run}` ends it, resumably.")
    return ExitCode.DONE


class Result(msgspec.Struct, frozen=True, kw_only=True, tag=True, tag_field="kind"):
    """The last line of `run --json`: how the run rests."""

    run: str
    status: RunStatus
    exit_code: int


class Detached(msgspec.Struct, frozen=True, kw_only=True, tag=True, tag_field="kind"):
    """What `run --detach --json` prints."""

    run: str
    pid: int
    output: str


def exit_code(stored: StoredRun) -> ExitCode:
    """Return what a resting run's state means to scripts.

    Stopped is 130: the work is incomplete because somebody interrupted it, and `resume` carries on. Paused is 0: the
    runner did all it was asked to (finish what is under way, or only the tasks chosen) and nothing is wrong. Blocked
    is 1 if a task failed for good, else 3: a gate failed or the machine is in the way, and a person must decide.
    """
    status = stored.row.status
    if status is RunStatus.STOPPED:
        return ExitCode.INTERRUPTED
    if status is RunStatus.BLOCKED:
        gave_up = (TaskStatus.ABANDONED, TaskStatus.FAILED)
        failed = any(task.status in gave_up for task in stored.tasks)
        return ExitCode.TASKS_FAILED if failed else ExitCode.NEEDS_DECISION
    return ExitCode.TASKS_FAILED if status is RunStatus.ABANDONED else ExitCode.DONE


def say(text: str, args: argparse.Namespace) -> None:
    """Tell the user something, out of the way of JSON."""
    write_line(text, sys.stderr if args.json else sys.stdout)


def print_note_path(place: OpenRepo, run: str) -> None:
    """Say where the resume note of a run is, if it has one."""
    if (note := place.directory(run).note).exists():
        print(f"  {note} tells where it stands")


def _audience(*, json: bool) -> AbstractContextManager[Observer]:
    if json:
        return json_lines(sys.stdout)
    if supports_live_display(sys.stdout):
        from holdfast.views.live import LiveTable

        return LiveTable()
    return plain_lines(sys.stdout)


def _await_attachment(place: OpenRepo, run: str, before: int, pid: int, output: Path) -> None:
    """Return once the runner `pid` has recorded that it attached, even if it has ended since."""
    deadline = time.monotonic() + _ATTACH_S
    while True:
        over = has_ended(pid) or time.monotonic() > deadline
        events = (record.event for record in place.journal.events(run, after=before))
        if any(isinstance(event, RunnerAttached) and event.pid == pid for event in events):
            return
        if over:
            said = (
                output.read_text(encoding="utf-8", errors="replace")[-_TAIL_CHARS:].strip()
                or "it ended without a word"
            )
            raise HoldfastError(f"the runner did not start: {said}", f"its output is in {output}")
        time.sleep(_POLL_S)


def _summarise(place: OpenRepo, stored: StoredRun) -> None:
    there = landed_in(place.repo.checkout, stored.row)
    view = status_view(stored, None, time.time(), landed_in=there)
    assert view.run is not None
    metrics = view.metrics
    skipped = sum(task.status is TaskStatus.SKIPPED for task in view.tasks)
    print(
        f"{view.run.id} {view.run.status}: {metrics.completed} of {metrics.tasks} landed, {metrics.failed} failed"
        + (f", {skipped} skipped" if skipped else "")
    )
    if view.run.detail:
        print("\n".join(block(view.run.detail, "  ")))
    for line in next_steps(view):
        print(f"  {line}")
