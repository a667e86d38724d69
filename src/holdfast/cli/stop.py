"""`stop`: end a run's agents now and keep their work, whether a runner lives or not."""

from __future__ import annotations

import sys
import time
from argparse import Namespace

from holdfast.cli.arguments import JSON, RUN, WAIT, Arguments
from holdfast.cli.open_repo import OpenRepo, choose_run, open_repo
from holdfast.cli.output import print_result, say, uncommitted_lines
from holdfast.core.status import RunStatus
from holdfast.errors import HoldfastError
from holdfast.journal.lease import Holder
from holdfast.runner.decisions.user_decisions import stop_leftover_agents
from holdfast.runner.requests import Request, RequestError, SentRequest, send_request, way_out_of_silence
from holdfast.system_errors import machine_error
from holdfast.views.event_text import plain_lines

_POLL_S = 0.05
_SILENCE_S = 5.0


ARGUMENTS: Arguments = (RUN, WAIT, JSON)


def execute(args: Namespace) -> int:
    """End a run's agents, keep their work, and return when the run has stopped."""
    with open_repo() as opened:
        run = choose_run(opened, args.run).run
        if opened.holder(run) is None:
            return stop_without_runner(opened, run, args)
        stop_run(opened, run, args.wait)
        return complete_stop(opened, run, args)


def stop_run(opened: OpenRepo, run: str, seconds: float) -> None:
    """Ask the runner of a run, if one lives, to stop, and return when it has. Raises HoldfastError if it takes longer."""
    held = opened.holder(run)
    if held is not None and not ask_and_wait(opened, run, Request(action="stop"), seconds):
        raise HoldfastError(
            f"the runner of {run} ({held}) has not stopped within {seconds:g} s",
            f"it was asked to stop; `holdfast status {run}` shows how far it is",
        )


def complete_stop(opened: OpenRepo, run: str, args: Namespace) -> int:
    """Say how a run has stopped that was asked to. If its runner died before it did as it was asked, stop it ourselves."""
    if opened.journal.load(run).row.status is RunStatus.RUNNING:
        return stop_without_runner(opened, run, args)
    return _print_stopped(opened, run, args)


def stop_without_runner(opened: OpenRepo, run: str, args: Namespace) -> int:
    """Stop the agents of a crashed runner. If there can be none, only say so."""
    status = opened.journal.load(run).row.status
    if status is not RunStatus.RUNNING:
        return print_result(opened, run, f"{run} is {status}; nothing of it is running.", args)
    say(f"{run} has no runner; stopping the agents that are left.", args)
    stop_leftover_agents(
        opened.repo, opened.journal, run, plain_lines(sys.stderr if args.json else sys.stdout)
    )
    return _print_stopped(opened, run, args)


def _print_stopped(opened: OpenRepo, run: str, args: Namespace) -> int:
    """Say how a run has stopped, and where its resume note is."""
    detail = f"{run} is {opened.journal.load(run).row.status}. `holdfast resume {run}` continues it."
    note = opened.directory(run).note
    lines = [detail, *uncommitted_lines(opened.repo, run)]
    return print_result(
        opened, run, "\n".join(lines), args, kept={"note": str(note) if note.exists() else ""}
    )


def ask_and_wait(opened: OpenRepo, run: str, asked: Request, seconds: float) -> bool:
    """Send the request and wait until nobody holds the run; False if that takes longer than `seconds`."""
    began, warned = time.monotonic(), False
    with _send(opened, run, asked) as request:
        while (held := opened.holder(run)) is not None:
            if why := request.refusal():
                raise RequestError(f"the runner of {run} refused: {why}")
            waited = time.monotonic() - began
            if waited > seconds and (request.is_answered or waited > _SILENCE_S):
                return False
            if waited > _SILENCE_S and not warned and held.pid and not request.is_answered:
                _warn_of_silence(run, held)
                warned = True
            time.sleep(_POLL_S)
    return True


def _send(opened: OpenRepo, run: str, asked: Request) -> SentRequest:
    """Send the request. A full disk has no room for it, but a signal needs none."""
    try:
        return send_request(opened.directory(run), asked)
    except OSError as error:
        held = opened.holder(run)
        instead = f"; or stop the runner with `kill {held.pid}`, which loses nothing" if held else ""
        raise machine_error(error, f"run the command again{instead}") from error


def _warn_of_silence(run: str, held: Holder) -> None:
    """Say that the runner did not take the request, which a live one does at once, and what to do."""
    words = f"The runner of {run} ({held}) does not answer: {way_out_of_silence(held)}."
    print(words, file=sys.stderr, flush=True)
