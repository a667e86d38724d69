"""Beginning a run and taking it over: who may, under which lease, with which parts."""

from __future__ import annotations

import asyncio
import shlex
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Self

from holdfast.agents.presets import agent_providers, presets_of, require_agents
from holdfast.core import events as ev, ids
from holdfast.core.event_codec import encode_event
from holdfast.core.events import RunStarted
from holdfast.core.plan import Plan, encode_plan, plan_hash
from holdfast.core.projection import RunRow
from holdfast.core.run_transitions import first_row
from holdfast.core.state import RunState
from holdfast.core.status import RUN_IS_OVER, RunStatus
from holdfast.errors import HoldfastError, JournalError, NeedsDecisionError
from holdfast.fleet import open_fleet
from holdfast.fleet.protocol import Fleet
from holdfast.journal.lease import Lease
from holdfast.journal.protocol import Journal, JournalReader, RunListing, number_after
from holdfast.repo.debris import clear_debris
from holdfast.repo.files import write_atomically
from holdfast.repo.refs import known_runs, refs_by_commit
from holdfast.repo.repository import Repository
from holdfast.repo.run_record import keep_record
from holdfast.repo.workspaces import Workspaces
from holdfast.reporting.resume_note import resume_note
from holdfast.runner.context import RunContext
from holdfast.runner.loop import Observer, RunLoop
from holdfast.runner.mirror.mirror_writer import MirrorWriter
from holdfast.runner.notifications import Notifier


def unfinished_run(journal: JournalReader, plan: Plan, source: str) -> RunListing | None:
    """Return the latest unfinished run of a plan: the same content, or the same file with other content.

    `source` is the file as a run remembers it; empty for a plan that is in no file.
    """
    digest = plan_hash(plan)
    found = [
        listing
        for listing in journal.runs()
        if listing.row.status not in RUN_IS_OVER
        and (listing.row.plan_hash == digest or (source and listing.row.plan_source == source))
    ]
    return found[-1] if found else None


_RESTING = (RunStatus.PAUSED, RunStatus.STOPPED, RunStatus.BLOCKED)


def write_resume_note(repo: Repository, state: RunState) -> None:
    """Write where a run rests that can be carried on. Written again, the file is replaced as a whole."""
    run = state.row.run
    if state.row.status not in _RESTING:
        return
    at = f"{datetime.fromtimestamp(time.time(), UTC):%Y-%m-%d %H:%M:%S} UTC"
    # The run rests safely in the journal by now: a full disk may cost this note, but not the run's good end.
    with suppress(OSError, HoldfastError):
        text = resume_note(state, refs_by_commit(repo, run), at)
        write_atomically(repo.state.run(run).note, text.encode("utf-8", "surrogateescape"))


_ID_TRIES = 20


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What the user may say about one turn at a run, without changing the plan."""

    jobs: int | None = None
    only: frozenset[str] | None = None
    native_resume: bool = False
    tokens: int | None = None
    cost_usd: float | None = None


def create_run(
    repo: Repository,
    journal: Journal,
    plan: Plan,
    plan_source: str,
    target: str | None = None,
    adopting: str = "",
) -> str:
    """Make a run durable, in the journal and in git, and return its id. Nothing is executed yet.

    `target` is the branch its result is meant for: the one the user is on, unless told otherwise. With `adopting`, the
    digest of another system's files, nobody may carry it on until those are taken in.
    """
    repo.require_own_state_dir()
    repo.hide_state_dir()
    base = repo.resolve(plan.base)
    taken = number_after(_names_taken(repo))
    for _ in range(_ID_TRIES):
        run = ids.run_id(max(taken, journal.next_run_number()), plan.goal)
        event = RunStarted(
            run=run,
            goal=plan.goal,
            plan_hash=plan_hash(plan),
            base=base,
            branch=ids.run_branch(run),
            target=repo.head_branch() if target is None else target,
            plan_source=plan_source,
            adopting=adopting,
        )
        try:
            journal.create_run(plan, RunState(plan, first_row(event)).row, event, time.time())
        except JournalError:
            if run in {listing.row.run for listing in journal.runs()}:
                continue  # Another process took this number in between; the next one is free.
            raise
        keep_record(repo, run, encode_plan(plan), encode_event(event))
        return run
    raise JournalError("could not find a free run id", "Try again: other runs are being started right now.")


def _names_taken(repo: Repository) -> set[str]:
    """Return the runs that the journal may not know, because it was lost or they were cleaned away."""
    outputs = repo.state.outputs("").glob("*") if repo.state.outputs("").is_dir() else ()
    return {*known_runs(repo), *(folder.name for folder in outputs)}


def execute_run(
    repo: Repository,
    journal: Journal,
    run: str,
    choices: RunOptions,
    observer: Observer,
    fleet: Fleet | None = None,
) -> RunStatus:
    """Take the run's lease and carry it on until it rests. Raises LeaseHeldError if somebody else does.

    `fleet` says where the agents run; this machine if it is not given.
    """
    turn = RunSession.begin(repo, journal, run, choices)
    try:
        if turn.is_over:
            return turn.status
        return asyncio.run(turn.see_through(observer, fleet or open_fleet(repo.state.fleet)))
    finally:
        turn.end()


@dataclass(slots=True)
class RunSession:
    """One runner's turn at a run, which holds its lease from `begin` to `end`.

    After an error the lease must be kept until no thread of ours can act on the run any more: the end of the event
    loop that `see_through` ran in is early enough.
    """

    repo: Repository
    journal: Journal
    state: RunState
    _lease: Lease
    _epoch: int = 0

    @classmethod
    def begin(cls, repo: Repository, journal: Journal, run: str, choices: RunOptions) -> Self:
        """Take the run's lease. Raises LeaseHeldError if somebody else has it."""
        repo.require_own_state_dir()
        directory = repo.state.run(run)
        directory.root.mkdir(parents=True, exist_ok=True)
        lease = Lease.acquire(directory.lease)
        try:
            stored = journal.load(run)
            turn = cls(repo, journal, stored.state(), lease)
            if not turn.is_over:
                refuse_half_adopted(stored.row)
                turn._epoch = journal.take_epoch(run)
                _apply_options(turn.state, choices)
                directory.note.unlink(missing_ok=True)
        except BaseException:
            lease.release()
            raise
        return turn

    @property
    def status(self) -> RunStatus:
        """Where the run stands."""
        return self.state.row.status

    @property
    def is_over(self) -> bool:
        """Whether there is nothing to carry on."""
        return self.status in RUN_IS_OVER

    async def see_through(self, observer: Observer, fleet: Fleet) -> RunStatus:
        """Carry the run on until it rests, and leave a note where it does."""
        status = await _run_loop(
            self.repo, self.journal, self._lease, self._epoch, self.state, observer, fleet
        )
        write_resume_note(self.repo, self.state)
        return status

    def end(self) -> None:
        """Let go of the lease. Repeating changes nothing."""
        self._lease.release()


def refuse_half_adopted(row: RunRow) -> None:
    """Raise NeedsDecisionError if what the run inherits is not taken in yet: all of it would be done again."""
    if row.adopting:
        raise NeedsDecisionError(
            f"run {row.run} is being adopted, or its adoption was cut short",
            f"`holdfast adopt {shlex.quote(row.plan_source)}` completes it",
        )


def remove_leftovers(repo: Repository, run: str) -> None:
    """Remove what a completed run still has on disk because its runner was killed at the very end. Usually nothing.

    Raises LeaseHeldError if that runner is alive: it is just about to do so itself.
    """
    directory = repo.state.run(run)
    lease = Lease.acquire(directory.lease)
    try:
        workspaces = Workspaces(repo, directory.workspaces)
        clear_debris(repo, workspaces)
        workspaces.remove_all()
    finally:
        lease.release()


async def _run_loop(
    repo: Repository,
    journal: Journal,
    lease: Lease,
    epoch: int,
    state: RunState,
    observer: Observer,
    fleet: Fleet,
) -> RunStatus:
    directory = repo.state.run(state.row.run)
    workspaces = Workspaces(repo, directory.workspaces)
    presets = presets_of(repo.checkout)
    require_agents(state.plan, presets)
    state.roster = agent_providers(state.plan, presets)
    # This clock goes on while the machine sleeps, so that a limit is not waited for longer than it lasts.
    began, offset = time.clock_gettime(time.CLOCK_BOOTTIME), state.row.clock
    context = RunContext(
        repo=repo,
        workspaces=workspaces,
        fleet=fleet,
        journal=journal,
        lease=lease,
        state=state,
        directory=directory,
        epoch=epoch,
        record=_not_yet,
        clock=lambda: offset + time.clock_gettime(time.CLOCK_BOOTTIME) - began,
        presets=presets,
    )
    try:
        herald = Notifier(context, observer)
        mirrors = MirrorWriter(context, herald)
        status = await RunLoop(context, mirrors).run()
        if status is RunStatus.COMPLETED:
            workspaces.remove_all()
        await mirrors.finish()
        await herald.finish()
        return status
    finally:
        fleet.close()


async def _not_yet(events: Sequence[ev.Event]) -> None:
    raise RuntimeError(f"nothing records events before the loop runs: {events}")


def _apply_options(state: RunState, choices: RunOptions) -> None:
    state.native = choices.native_resume
    if choices.jobs is not None:
        state.jobs = choices.jobs
    state.tokens_max = state.tokens_max if choices.tokens is None else choices.tokens
    state.cost_max = state.cost_max if choices.cost_usd is None else choices.cost_usd
    if choices.only is None:
        return
    unknown = sorted(choices.only - state.tasks.keys())
    if unknown:
        raise HoldfastError(
            f"run {state.row.run} has no task {', '.join(unknown)}",
            f"`holdfast status {state.row.run}` lists its tasks.",
        )
    state.restrict(choices.only)
