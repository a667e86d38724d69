"""`status`, `list`, `logs`, `inspect`, `recap`: looking at runs. Nothing here changes anything."""

from __future__ import annotations

import argparse
import sys
import time
from codecs import getincrementaldecoder
from collections.abc import Iterator
from pathlib import Path

import msgspec

from holdfast.cli.open_repo import ReadOnlyRepo, choose_latest_run, choose_run, open_read_only
from holdfast.core.projection import RunRow
from holdfast.core.state import RunState, replay
from holdfast.core.status import RunStatus, TaskStatus
from holdfast.errors import HoldfastError, did_you_mean, quoted
from holdfast.journal.lease import boot_id
from holdfast.journal.protocol import JournalReader, StoredRun
from holdfast.reporting.displayed_status import AgentSign
from holdfast.views.status import StatusView, status_view
from holdfast.views.text import count

_FOLLOW_POLL_S = 0.1


def status(args: argparse.Namespace) -> int:
    """Show where a run stands. A repository without runs is no error."""
    from holdfast.views.status_text import status_text

    place = open_read_only()
    runs = place.journal.runs() if place.journal else []
    if not runs and args.run is None:
        view = StatusView()
    else:
        view = current_status(place, choose_run(runs, args.run).row.run)
    print(as_json(view) if args.json else status_text(view))
    return 0


def list_runs(args: argparse.Namespace) -> int:
    """Show every run, oldest first."""
    from holdfast.views.status import run_line
    from holdfast.views.status_text import list_text

    place = open_read_only()
    runs = place.journal.runs() if place.journal else []
    boot = boot_id()
    lines = [
        run_line(listing, held=place.holder(listing.row.run) is not None, boot_id=boot) for listing in runs
    ]
    print(as_json(lines) if args.json else list_text(lines))
    return 0


def inspect(args: argparse.Namespace) -> int:
    """Show a run or one task of it whole, now or after an earlier event."""
    from holdfast.views.inspection import inspection, inspection_text

    place = open_read_only()
    journal = place.require_journal()
    run = choose_run(journal.runs(), args.run).row.run
    stored, who = _as_it_was(journal, run, args.at) if args.at else (journal.load(run), _holder(place, run))
    state = stored.state()
    if args.task is not None:
        require_task(state, args.task)
    events = journal.events(run, upto=stored.last_seq)
    there = () if args.at else landed_in(place.checkout, stored.row)
    status = status_view(stored, who, time.time(), boot_id=boot_id(), landed_in=there)
    view = inspection(status, state, events, args.task)
    print(as_json(view) if args.json else inspection_text(view))
    return 0


def recap(args: argparse.Namespace) -> int:
    """Tell what happened in a run, with git as the witness of what landed."""
    from holdfast.repo.landing import branch_facts
    from holdfast.repo.repository import Repository
    from holdfast.views.recap import recap_text, recap_view

    place = open_read_only()
    journal = place.require_journal()
    run = choose_latest_run(journal.runs(), args.run).row.run
    stored = journal.load(run)
    row = stored.row
    branch = branch_facts(Repository.open(place.checkout), row.branch, row.base, run)
    state = stored.state()
    view = recap_view(
        current_status(place, run),
        state,
        journal.events(run),
        branch,
    )
    print(as_json(view) if args.json else recap_text(view))
    return 0


def logs(args: argparse.Namespace) -> int:
    """Print what the agent of an attempt printed; `-f` goes on until it ends.

    Byte for byte, except on a terminal, which does not get to see what would steer it.
    """
    from holdfast.core.facts import Presence
    from holdfast.fleet import open_fleet
    from holdfast.fleet.protocol import AGENT_STEP, LaunchKey
    from holdfast.views.text import terminal_safe

    place = open_read_only()
    journal = place.require_journal()
    run = choose_run(journal.runs(), args.run).row.run
    attempt = _attempt_number(journal.load(run), args.task, args.attempt)
    fleet, key = open_fleet(place.state.fleet), LaunchKey(run, args.task, attempt, AGENT_STEP)

    def chunks() -> Iterator[bytes]:
        """Read on until the launch is over; what it printed last is there by then."""
        seen = 0
        while True:
            over = not args.follow or fleet.inspect(key).presence is not Presence.ALIVE
            chunk = fleet.logs(key, seen)
            seen += len(chunk)
            yield chunk
            if over:
                return
            time.sleep(_FOLLOW_POLL_S)

    decode = getincrementaldecoder("utf-8")(errors="replace").decode
    printed = 0
    for chunk in chunks():
        printed += len(chunk)
        sys.stdout.buffer.write(terminal_safe(decode(chunk)).encode() if sys.stdout.isatty() else chunk)
        sys.stdout.buffer.flush()
    if not printed:
        print(f"{args.task} printed nothing in attempt {attempt}.", file=sys.stderr)
    return 0


def current_status(place: ReadOnlyRepo, run: str) -> StatusView:
    """Return the status of a run at this moment."""
    stored, held = place.require_journal().load(run), _holder(place, run)
    return status_view(
        stored,
        held,
        time.time(),
        boot_id=boot_id(),
        seen_at=_last_trace(place, stored, held),
        landed_in=landed_in(place.checkout, stored.row),
        signs=_signs(place, stored),
    )


def _signs(place: ReadOnlyRepo, stored: StoredRun) -> dict[str, AgentSign]:
    """Return what the machine shows of agents at work. Where none is, nothing is loaded to look."""
    if not any(task.status is TaskStatus.RUNNING for task in stored.tasks):
        return {}
    from holdfast.fleet import open_fleet
    from holdfast.runner.recovery.agent_signs import agent_signs

    return agent_signs(open_fleet(place.state.fleet), stored)


def landed_in(checkout: Path, row: RunRow) -> tuple[str, ...]:
    """Return the branches that hold the result of a completed run. Of any other run git is not asked."""
    if row.status is not RunStatus.COMPLETED:
        return ()
    from holdfast.repo.refs import branches_with_result

    return branches_with_result(checkout, row)


def require_task(state: RunState, task: str) -> None:
    """Raise HoldfastError, with the nearest name, unless the run has this task."""
    if task not in state.tasks:
        run = state.row.run
        raise HoldfastError(
            f"run {run} has no task {quoted(task)}{did_you_mean(task, state.names)}",
            f"`holdfast status {run}` lists its tasks",
        )


def as_json(view: object) -> str:
    """Return a view as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(view), indent=2).decode()


def _holder(place: ReadOnlyRepo, run: str) -> str | None:
    found = place.holder(run)
    return None if found is None else str(found)


def _last_trace(place: ReadOnlyRepo, stored: StoredRun, held: str | None) -> float:
    """Return the newest trace of an agent whose runner is gone; elsewhere the journal knows better."""
    if held is not None or stored.row.status is not RunStatus.RUNNING:
        return 0.0
    from holdfast.fleet import open_fleet
    from holdfast.runner.recovery.agent_signs import last_heard

    return max(last_heard(open_fleet(place.state.fleet), stored).values(), default=0.0)


def _as_it_was(journal: JournalReader, run: str, seq: int) -> tuple[StoredRun, str]:
    """Fold the events up to `seq`. Whoever ran it then counts as alive, so that it shows as it was."""
    now = journal.load(run)
    if seq > now.last_seq:
        raise HoldfastError(
            f"run {run} has {now.last_seq} events, not {seq}", "`--at` takes the number of an event"
        )
    recorded = list(journal.events(run, upto=seq))
    state = replay(now.plan, (record.event for record in recorded))
    then = StoredRun(now.plan, state.row, list(state.tasks.values()), now.started_at, recorded[-1].at, seq)
    return then, f"its runner at event {seq}"


def _attempt_number(stored: StoredRun, task: str, wanted: int | None) -> int:
    state = stored.state()
    require_task(state, task)
    newest = state.tasks[task].attempt
    if wanted is not None and wanted > newest:
        raise HoldfastError(
            f"task {task} has had {count(newest, 'attempt')}, not {wanted}",
            "leave out --attempt for the newest",
        )
    if newest == 0:
        raise HoldfastError(
            f"task {task} has not been started", f"`holdfast status {stored.row.run}` shows what it waits for"
        )
    return wanted or newest
