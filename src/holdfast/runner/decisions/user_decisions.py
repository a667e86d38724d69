"""User decisions about a run without a live runner: recorded under its lease, like everything else."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from holdfast.core import events as ev
from holdfast.core.projection import RunRow
from holdfast.core.state import RunState
from holdfast.core.status import RUN_IS_OVER, RunStatus
from holdfast.core.task_transitions import IllegalEventError
from holdfast.core.user_decisions import gate_waivers
from holdfast.errors import HoldfastError
from holdfast.journal.lease import Lease, holder
from holdfast.journal.protocol import Journal, StoredRun
from holdfast.repo.debris import remove_workspaces
from holdfast.repo.land_run import discard_run
from holdfast.repo.repository import Repository
from holdfast.runner.context import Observer
from holdfast.runner.mirror.mirror_writer import write_mirrors
from holdfast.runner.requests import Request, ask_runner, send_request
from holdfast.runner.session import RunOptions, execute_run
from holdfast.runner.tick_writer import tick_landed


def record_decision(repo: Repository, journal: Journal, run: str, *events: ev.Event) -> None:
    """Record a decision of the user, whole or not at all.

    Raises LeaseHeldError if a runner lives, HoldfastError if the decision cannot be made now.
    """
    with deciding(repo, journal, run) as (_, record):
        record(*events)


@contextmanager
def deciding(repo: Repository, journal: Journal, run: str) -> Iterator[tuple[RunState, Callable[..., None]]]:
    """Take a run's lease to decide about it: yields its state, and what records events, whole or not at all.

    Raises LeaseHeldError if a runner lives, HoldfastError if the run is over.
    """
    directory = repo.state_dir.run(run)
    with Lease.acquire(directory.lease) as lease:
        epoch = journal.take_epoch(run, lease.holder)
        stored = journal.load(run)
        _refuse_over(stored.row)
        state = stored.state()

        def record(*events: ev.Event) -> None:
            apply_decision(state, *events)
            journal.append(run, epoch, events, state.row, state.take_changed(), time.time())

        yield state, record
        if ticks := state.apply_all(tick_landed(repo, state)):
            journal.append(run, epoch, ticks, state.row, state.take_changed(), time.time())
        if failures := write_mirrors(repo, journal, run):
            journal.append(run, epoch, failures, state.row, (), time.time())


def require_possible(stored: StoredRun, *events: ev.Event) -> None:
    """Raise HoldfastError if a decision cannot be made now: said before the user is asked anything about it."""
    _refuse_over(stored.row)
    apply_decision(stored.state(), *events)


def _refuse_over(row: RunRow) -> None:
    if row.status in RUN_IS_OVER:
        raise HoldfastError(
            f"run {row.run} is {row.status}", "`holdfast run PLAN --fresh` starts the plan again"
        )


def apply_decision(state: RunState, *events: ev.Event) -> None:
    """Apply a decision of the user, or raise HoldfastError if it cannot be made now."""
    try:
        state.apply_all(events)
    except IllegalEventError as error:
        hint = f"`holdfast status {state.row.run}` shows where it stands"
        # The core's message names the event, then the obstacle; only the obstacle is useful to the user.
        raise HoldfastError(f"that cannot be done now: {str(error).rpartition(': ')[2]}", hint) from error


def stop_leftover_agents(repo: Repository, journal: Journal, run: str, observer: Observer) -> bool:
    """Stop what a dead runner left behind: agents end, their work is kept, the run rests. Tell whether it had to.

    A runner starts and finds the stop request, so recovery is the usual one.
    """
    if journal.load(run).row.status is not RunStatus.RUNNING:
        return False
    with send_request(repo.state_dir.run(run), Request(action="stop")):
        execute_run(repo, journal, run, RunOptions(launches=False), observer)
    return True


def abandon(repo: Repository, journal: Journal, run: str, observer: Observer, reason: str = "") -> None:
    """End a run for good: nothing of it keeps running, its work stays at its refs. A run that is over stays as it is."""
    if journal.load(run).row.status not in RUN_IS_OVER:
        stop_leftover_agents(repo, journal, run, observer)
        record_decision(repo, journal, run, ev.RunAbandoned(reason=reason))
    repo.state_dir.run(run).note.unlink(missing_ok=True)


def discard(repo: Repository, journal: Journal, run: str, observer: Observer) -> str:
    """Abandon a run if it is unfinished, archive its branch and return the ref that keeps it.

    Returns an empty string if the branch was archived before. Workspaces go; what was in them is at refs.
    """
    abandon(repo, journal, run, observer)
    with Lease.acquire(repo.state_dir.run(run).lease):
        remove_workspaces(repo, run, journal.load(run).plan.workspace)
        return discard_run(repo, run)


def waive_gates(repo: Repository, journal: Journal, run: str, stages: Sequence[str]) -> bool:
    """Waive the failed gates of these stages, or ask the live runner to; tell whether a runner was asked.

    Waives all of them or none. A gate that was waived before is no longer blocked, which is an error.
    """
    stored = journal.load(run)
    events = gate_waivers(stored.state(), stages)
    directory = repo.state_dir.run(run)
    if holder(directory.lease) is not None:
        for event in events:
            ask_runner(directory, Request(action="accept", stage=event.stage, gate=event.gate))
        return True
    record_decision(repo, journal, run, *events)
    return False
