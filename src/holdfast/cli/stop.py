"""`stop`, `pause`, `retry`, `skip`: steering a run, whether a runner lives or not."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Literal

from holdfast.cli.open_repo import OpenRepo, choose_run, open_repo
from holdfast.cli.output import print_result
from holdfast.cli.run_session import say
from holdfast.cli.status import require_task
from holdfast.core import events as ev
from holdfast.core.status import RunStatus
from holdfast.errors import HoldfastError
from holdfast.journal.lease import Holder
from holdfast.runner.decisions.user_decisions import record_decision, state_after, stop_leftover_agents
from holdfast.runner.requests import Request, send_request
from holdfast.views.event_text import plain_lines

_POLL_S = 0.05
_SILENCE_S = 5.0


def stop(args: argparse.Namespace) -> int:
    """End a run's agents, keeping their work, and return when the run rests."""
    with open_repo() as place:
        run = choose_run(place.journal.runs(), args.run).row.run
        if place.holder(run) is None:
            return _stop_without_runner(place, run, args)
        bring_to_rest(place, run, args.wait)
        return _report(place, run, args)


def bring_to_rest(place: OpenRepo, run: str, seconds: float) -> None:
    """Ask the runner of a run, if one lives, to stop, and return when it has. Raises HoldfastError if it takes longer."""
    held = place.holder(run)
    if held is not None and not _ask_and_wait(place, run, Request(action="stop"), seconds):
        raise HoldfastError(
            f"the runner of {run} ({held}) has not stopped within {seconds:g} s",
            f"it was asked to; `holdfast status {run}` shows how far it is",
        )


def pause(args: argparse.Namespace) -> int:
    """Let a run finish what is under way and then rest; `--now` ends its agents instead, their work kept.

    The request holds even if this command is interrupted.
    """
    with open_repo() as place:
        run = choose_run(place.journal.runs(), args.run).row.run
        if place.holder(run) is None:
            return _stop_without_runner(place, run, args)
        if _ask_and_wait(place, run, Request(action="pause", now=args.now), args.wait):
            return _report(place, run, args)
        said = f"{run} pauses when what is under way has landed; `holdfast status {run}` shows it."
        return print_result(place, run, said, args, pending=True)


def retry(args: argparse.Namespace) -> int:
    """Give a task all its attempts again."""
    return _decide(args, "retry", ev.TaskReset(task=args.task))


def skip(args: argparse.Namespace) -> int:
    """Declare a task unnecessary: tasks that need it may start."""
    return _decide(args, "skip", ev.TaskSkipped(task=args.task))


def _decide(args: argparse.Namespace, action: Literal["retry", "skip"], event: ev.AnyEvent) -> int:
    with open_repo() as place:
        run = choose_run(place.journal.runs(), args.run).row.run
        stored = place.journal.load(run)
        require_task(stored.state(), args.task)
        if (held := place.holder(run)) is not None:
            state_after(stored, event)
            send_request(place.directory(run), Request(action=action, task=args.task))
            asked = f"{args.task}: asked the runner of {run} ({held}). `holdfast status {run}` shows what it does."
            return print_result(place, run, asked, args, task=args.task, pending=True)
        record_decision(place.repo, place.journal, run, event)
        done = "has all its attempts again" if action == "retry" else "is skipped"
        said = f"{args.task} {done}. `holdfast resume {run}` carries on."
        return print_result(place, run, said, args, task=args.task)


def _stop_without_runner(place: OpenRepo, run: str, args: argparse.Namespace) -> int:
    """Stop what a crashed runner left. A run that rests already is only reported."""
    status = place.journal.load(run).row.status
    if status is not RunStatus.RUNNING:
        return print_result(place, run, f"{run} is {status}; nothing of it is running.", args)
    say(f"No runner carries {run}; stopping what is left of it.", args)
    stop_leftover_agents(place.repo, place.journal, run, plain_lines(sys.stderr if args.json else sys.stdout))
    return _report(place, run, args)


def _ask_and_wait(place: OpenRepo, run: str, asked: Request, seconds: float) -> bool:
    """Leave the request and wait until nobody holds the run; False when the time is over first."""
    request = send_request(place.directory(run), asked)
    began, told = time.monotonic(), False
    while (held := place.holder(run)) is not None:
        waited = time.monotonic() - began
        if waited > seconds:
            return False
        if waited > _SILENCE_S and not told and held.pid and request.exists():
            _tell_silence(run, held)
            told = True
        time.sleep(_POLL_S)
    _withdraw(request)
    return True


def _tell_silence(run: str, held: Holder) -> None:
    """Say that a runner did not take a request that a live one takes at once, and how to get past it."""
    print(
        f"The runner of {run} ({held}) holds it but does not answer. If it was suspended, `kill -CONT {held.pid}` "
        f"wakes it; `kill -9 {held.pid}`, then `holdfast resume {run}`, goes on without it.",
        file=sys.stderr,
        flush=True,
    )


def _withdraw(request: Path) -> None:
    """Take back a request that the runner did not live to read: it must not stop the next one."""
    request.unlink(missing_ok=True)


def _report(place: OpenRepo, run: str, args: argparse.Namespace) -> int:
    said = f"{run} is {place.journal.load(run).row.status}. `holdfast resume {run}` carries on."
    note = place.directory(run).note
    return print_result(place, run, said, args, kept={"note": str(note) if note.exists() else ""})
