"""A run from the outside: create it, execute it under its lease until it rests, and write its resume note.

What happens while it is executed is in `loop`. Commands of the user go through here.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import time
from collections.abc import Collection
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Self

import msgspec

from holdfast.agents.consent import consent_digest
from holdfast.agents.invocation import require_root_accepted
from holdfast.agents.presets import Presets, agent_providers, find_agent, presets_of, require_agents
from holdfast.core import ids
from holdfast.core.event_codec import encode_event
from holdfast.core.events import RunStarted
from holdfast.core.plan import Plan, encode_plan, plan_hash
from holdfast.core.projection import LandingConflict, RunRow
from holdfast.core.run_transitions import first_row
from holdfast.core.state import RunState
from holdfast.core.status import RUN_IS_OVER, RunStatus, SandboxLevel
from holdfast.errors import (
    HoldfastError,
    JournalError,
    LeaseHeldError,
    NeedsDecisionError,
    RunExistsError,
)
from holdfast.fleet import open_fleet
from holdfast.fleet.protocol import Fleet
from holdfast.journal.lease import Holder, Lease, making_runs
from holdfast.journal.protocol import Journal, JournalReader, RunListing, number_after
from holdfast.repo.debris import remove_workspaces
from holdfast.repo.files import remove_if_allowed, write_durably
from holdfast.repo.git_settings import settings_digests
from holdfast.repo.refs import known_runs, refs_by_commit
from holdfast.repo.repository import Repository
from holdfast.repo.run_record import keep_record
from holdfast.repo.taken_workspaces import save_taken, taken_names
from holdfast.reporting.resume_note import resume_note
from holdfast.runner.checkout_monitor import CheckoutMonitor
from holdfast.runner.context import Observer, RunContext
from holdfast.runner.fleet_choice import open_chosen_fleet
from holdfast.runner.held_run import HeldRun, Tell
from holdfast.runner.loop import RunLoop
from holdfast.runner.mirror.mirror_writer import MirrorWriter, write_mirrors
from holdfast.runner.notifications import Notifier
from holdfast.runner.requests import SaveRequests
from holdfast.runner.sandbox import require_good_variables
from holdfast.runner.sandbox_setting import SandboxRequest, SandboxSetting, setting_in_force
from holdfast.runner.task_workspaces import remove_soon
from holdfast.runner.tick_writer import TickWriter, make_up_ticks
from holdfast.runner.trace_exporter import trace_exporter
from holdfast.system_errors import doing

_RESTING = (RunStatus.PAUSED, RunStatus.STOPPED, RunStatus.BLOCKED)


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What the user may say about one execution of a run, without changing the plan."""

    jobs: int | None = None
    only: frozenset[str] | None = None
    native_resume: bool = False
    tokens: int | None = None
    cost_usd: float | None = None
    sandbox: SandboxRequest = field(default_factory=SandboxRequest)
    launches: bool = True
    """Whether anything may be started. Who only ends a run needs no sandbox, even if the run had one."""
    accepts_base: bool = False
    """Whether agents may start although the base fails a check."""
    skips_base_check: bool = False
    """Whether agents may start without a check of the base, if the run was to have one."""
    accepted_tip: str = ""
    """The tip at which the run branch is taken as it is, whoever made its commits."""
    tell: Tell = field(default=lambda _: None)
    """Says what is no event of the run, such as that the store does not answer."""


def create_run(
    repo: Repository,
    journal: Journal,
    plan: Plan,
    plan_source: str,
    target: str | None = None,
    adopting: str = "",
    known: Collection[str] | None = None,
    resolves: LandingConflict | None = None,
    *,
    check_base: bool = False,
) -> str:
    """Make a run durable, in the journal and in git, and return its id. Nothing is executed yet.

    `target` is the branch its result is meant for; by default the one the user is on. With `adopting`, the digest of
    another system's files, nobody may execute the run until `RunAdopted` is recorded. `known` are the runs that there were
    when the caller found none of this plan: raises LeaseHeldError if somebody else made one since. `resolves` is the
    conflict that its task begins with; the commit with the markers is kept before the run exists. With `check_base`, the
    plan's checks run on the base before the first agent starts.
    """
    repo.prepare_state_dir()
    base = repo.resolve(plan.base)
    repo.require_no_state_dir(base)
    event = RunStarted(
        run="",  # chosen below, where nobody else of this clone chooses
        goal=plan.goal,
        plan_hash=plan_hash(plan),
        base=base,
        branch="",
        target=repo.head_branch() if target is None else target,
        plan_source=plan_source,
        adopting=adopting,
        git_settings=settings_digests(repo),
        check_base=check_base,
        resolves=resolves,
        first_commit=repo.first_commit_of_named() if journal.lease_s is not None else "",
    )
    with making_runs(repo.state_dir.runs_lock):
        while True:
            if known is not None:
                _refuse_twin(journal, event.plan_hash, plan_source, adopting, known)
            number = _next_number(repo, journal)
            run = ids.run_id(number, plan.goal)
            event = msgspec.structs.replace(event, run=run, branch=ids.run_branch(run))
            try:
                _record_start(repo, journal, plan, event)
            except RunExistsError:
                if journal.next_run_number() <= number:
                    raise  # nobody was faster: the journal does not list what it has
            else:
                return run


def _next_number(repo: Repository, journal: JournalReader) -> int:
    """Return a number that no run has. The journal may not know all runs: it was lost, or they were cleaned away."""
    outputs = (folder.name for folder in repo.state_dir.outputs("").glob("*"))
    return max(number_after({*known_runs(repo), *outputs}), journal.next_run_number())


def _record_start(repo: Repository, journal: Journal, plan: Plan, event: RunStarted) -> None:
    """Make a run durable. Raises RunExistsError if another clone, which shares the journal, took its id meanwhile.

    The journal decides before git has a plan or a branch of that name, so no two clones ever have different runs of one id.
    """
    kept = {}
    if event.resolves is not None:
        kept[ids.merged_ref(event.run, event.resolves.task, 0)] = event.resolves.commit
    for ref, commit in kept.items():
        repo.keep(ref, commit)
    try:
        journal.create_run(plan, RunState(plan, first_row(event)).row, event, time.time())
    except RunExistsError:
        repo.ref_updates.delete(kept)
        raise
    keep_record(repo, event.run, encode_plan(plan), encode_event(event))


def _refuse_twin(
    journal: JournalReader, digest: str, source: str, adopting: str, known: Collection[str]
) -> None:
    """Raise LeaseHeldError if another process made a run of the same plan or files since `known` was read."""
    for listing in journal.runs():
        row = listing.row
        of_files = adopting and adopting in (row.adopting, row.origin.digest if row.origin else "")
        if row.run not in known and (row.plan_hash == digest or row.plan_source == source != "" or of_files):
            raise LeaseHeldError(
                f"another command has just made run {row.run} of the same plan",
                f"`holdfast status {row.run}` shows where it stands; `holdfast resume {row.run}` continues it",
            )


def execute_run(
    repo: Repository,
    journal: Journal,
    run: str,
    options: RunOptions,
    observer: Observer,
    fleet: Fleet | None = None,
    presets: Presets | None = None,
) -> RunStatus:
    """Take the run's lease and execute the run until it rests. Raises LeaseHeldError if another runner has the lease.

    `fleet` says where the agents run; this machine if it is not given. `presets` are the known agents, if they are not to be
    those of the user's files.
    """
    session = RunSession.open(repo, journal, run, options, presets)
    try:
        session.require_agreed_agents()
        if session.is_over:
            if session.status is RunStatus.COMPLETED:
                _finish(repo, journal, run)
            return session.status
        is_new = not session.state.row.clock and not any(
            task.attempt for task in session.state.tasks.values()
        )
        with closing(
            fleet or open_chosen_fleet(repo, run, session.state.plan, options.tell, is_new=is_new)
        ) as place:
            if fleet is None:
                session.require_root_accepted(place)
            return asyncio.run(session.execute(observer, place))
    finally:
        # Only now: after an error, our threads may act on the run until the event loop has ended.
        session.close()


@dataclass(slots=True)
class RunSession:
    """One runner at one run. It holds the run's lease from `open` to `close`."""

    repo: Repository
    journal: Journal
    state: RunState
    presets: Presets
    _lease: Lease
    _epoch: int = 0
    _options: RunOptions = field(default_factory=RunOptions)
    save_requests: SaveRequests = field(default_factory=SaveRequests)
    """For a caller in the same event loop. Other processes send a request."""

    @classmethod
    def open(
        cls,
        repo: Repository,
        journal: Journal,
        run: str,
        options: RunOptions,
        presets: Presets | None = None,
    ) -> Self:
        """Take the run's lease. Raises LeaseHeldError if another runner has it."""
        repo.require_own_state_dir()
        directory = repo.state_dir.run(run)
        lease = Lease.acquire(directory.lease)
        try:
            epoch = _fence(journal, run, lease.holder)
            # Read only now: a runner that lost its lease and does not know it yet cannot change this any more.
            state = journal.load(run).state()
            if journal.lease_s is not None:
                require_history(repo, state.row)
            known = presets_of(repo.checkout) if presets is None else presets
            session = cls(repo, journal, state, known, lease, epoch, options)
            if not session.is_over:
                apply_options(session.state, options, session.presets)
                with doing("remove the old resume note"):
                    directory.note.unlink(missing_ok=True)
        except BaseException:
            lease.release()
            raise
        return session

    @property
    def status(self) -> RunStatus:
        """Where the run stands."""
        return self.state.row.status

    @property
    def is_over(self) -> bool:
        """Whether there is nothing left to execute."""
        return self.status in RUN_IS_OVER

    def require_agreed_agents(self) -> None:
        """Raise NeedsDecisionError if the user did not agree to the agents of the user's files as this session read them.

        The question was asked before, of what was in these files then. Agents can write them.
        """
        plan = self.state.plan_as_run()
        digest = consent_digest(plan, self.presets)
        if digest != plan_hash(plan) and not self.journal.is_confirmed(digest):
            raise NeedsDecisionError(
                "agents.toml defines an agent of this run otherwise than when you agreed",
                f"`holdfast resume {self.state.row.run}` shows what would run, and asks",
            )

    def require_root_accepted(self, fleet: Fleet) -> None:
        """Raise RefusesRootError if root starts an agent that refuses that, before anything is started."""
        if os.geteuid() != 0 or not self._options.launches:
            return
        if self._sandbox_setting(fleet).level is not SandboxLevel.OFF:
            return
        plan = self.state.plan_as_run()
        for agent in filter(None, (find_agent(n, plan.agents, self.presets) for n in plan.agents_named())):
            require_root_accepted(agent, os.environ)

    async def execute(self, observer: Observer, fleet: Fleet) -> RunStatus:
        """Execute the run until it rests, bring its mirrors and notifications up to date, and write the resume note."""
        require_agents(self.state.plan_as_run(), self.presets)
        context = RunContext(
            self.repo,
            HeldRun(self.journal, self.state.row.run, self._epoch, self._options.tell),
            fleet,
            self._lease,
            self.state,
            self.presets,
            self._sandbox_setting(fleet),
            accepted_tip=self._options.accepted_tip,
            launches=self._options.launches,
            save_requests=self.save_requests,
        )
        with closing(fleet), closing(context.variables):
            notifier, mirrors = Notifier(context), MirrorWriter(context)
            ticks = TickWriter(context, mirrors.paths)
            monitor = CheckoutMonitor(context, mirrors.paths)
            traces = trace_exporter(self.journal, self.state, self._epoch, self._options.tell)
            observers = (observer, notifier, mirrors, ticks, *((traces,) if traces else ()))
            loop = RunLoop(context, monitor, observers)
            status = await loop.run()
            await loop.record_at_rest(await ticks.finish())
            await loop.record_at_rest(await mirrors.finish())
            await loop.record_at_rest(await notifier.finish())
            if traces is not None:
                await loop.record_at_rest(await asyncio.to_thread(traces.finish))
        write_resume_note(self.repo, self.state)
        if status is RunStatus.COMPLETED:
            # Last: if the disk fails here, all else is done.
            with doing("remove the workspaces of the completed run"):
                pool = context.workspaces.pool
                # Somebody's shell or editor may be open there: such a one goes when the run is cleaned.
                busy = [name for name in taken_names(pool) if fleet.is_occupied(pool.path(name))]
                save_taken(self.repo, self.state.row.run, self.state.plan.workspace, busy)
                remove_soon(pool, busy)
                remove_if_allowed(context.directory.homes)
        return status

    def _sandbox_setting(self, fleet: Fleet) -> SandboxSetting:
        before = SandboxSetting.of_run(self.state.row)
        if not self._options.launches:
            return before
        require_good_variables()
        plan = SandboxSetting.of_plan(self.state.plan)
        setting = setting_in_force(self._options.sandbox, fleet.sandbox_obstacle, before, plan)
        is_off = setting.level is SandboxLevel.OFF
        return setting if is_off else replace(setting, by=fleet.sandbox_mechanism())

    def close(self) -> None:
        """Release the lease. Idempotent."""
        with suppress(JournalError):  # a store that is away ends the lease by itself
            self.journal.release(self.state.row.run, self._epoch)
        self._lease.release()


def _fence(journal: Journal, run: str, holder: Holder) -> int:
    """Refuse all earlier writers of a run, hold it and return our epoch; 0 if there is nothing left to execute."""
    for listing in journal.runs():
        if listing.row.run == run and listing.row.status in RUN_IS_OVER:
            return 0
        if listing.row.run == run:
            refuse_incomplete(listing.row)
    return journal.take_epoch(run, holder, hold=True)


def require_history(repo: Repository, row: RunRow) -> None:
    """Raise HoldfastError if a run that another clone may have executed builds on commits which are not here.

    What landed there would be done again here, or not be landed.
    """
    for commit, what in ((row.base, "began at"), (row.tip, "has landed")):
        if commit and not repo.exists(commit):
            raise HoldfastError(
                f"run {row.run} {what} {commit[:12]}, which is not in this repository",
                f"fetch {ids.short_name(row.branch)} from where it ran (`git push`, `git fetch`); if this is another "
                "repository with the same first commit, `git config holdfast.repository NAME` tells them apart",
            )


def apply_options(state: RunState, options: RunOptions, presets: Presets) -> None:
    """Prepare a loaded state for a runner: set the user's options, and which provider each agent uses."""
    state.providers = agent_providers(state.plan, presets)
    state.native_resume = options.native_resume
    state.accepts_base = options.accepts_base
    state.skips_base_check = options.skips_base_check
    state.jobs = state.jobs if options.jobs is None else options.jobs
    state.tokens_max = state.tokens_max if options.tokens is None else options.tokens
    state.cost_max = state.cost_max if options.cost_usd is None else options.cost_usd
    if options.only is None:
        return
    unknown = sorted(options.only - state.tasks.keys())
    if unknown:
        raise HoldfastError(
            f"run {state.row.run} has no task {', '.join(unknown)}",
            f"`holdfast status {state.row.run}` lists its tasks.",
        )
    state.select(options.only)


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


def refuse_incomplete(row: RunRow) -> None:
    """Raise NeedsDecisionError if the run is not all there: its adoption, or its move from another store, was cut short.

    All that it lacks would be done again.
    """
    if row.adopting:
        raise NeedsDecisionError(
            f"run {row.run} is being adopted, or its adoption was cut short",
            f"`holdfast adopt {shlex.quote(row.plan_source)}` completes it",
        )
    if row.moving:
        raise NeedsDecisionError(
            f"run {row.run} is being copied from {row.moving}, or that was cut short",
            "the command that did it, given again, completes it",
        )


def finish_completed(repo: Repository, journal: Journal, run: str) -> None:
    """Do for a completed run what its runner left undone because it was killed at the very end. Usually nothing.

    Raises LeaseHeldError if that runner is alive: it does this itself.
    """
    with Lease.acquire(repo.state_dir.run(run).lease):
        _finish(repo, journal, run)


def _finish(repo: Repository, journal: Journal, run: str) -> None:
    remove_workspaces(repo, run, journal.load(run).plan.workspace, remove_soon)
    open_fleet(repo.state_dir.fleet).remove_drafts(run)
    write_mirrors(repo, journal, run)
    make_up_ticks(repo, journal, run)


def write_resume_note(repo: Repository, state: RunState) -> None:
    """Write the resume note of a resumable run, for people; nothing reads it. Replaces an earlier one."""
    run = state.row.run
    if state.row.status not in _RESTING:
        return
    at = f"{datetime.fromtimestamp(time.time()).astimezone():%Y-%m-%d %H:%M %Z}"
    # The run's rest is already in the journal: a full disk may cost this note, but nothing else.
    with suppress(OSError, HoldfastError):
        text = resume_note(state, refs_by_commit(repo, run), at)
        write_durably(repo.state_dir.run(run).note, text.encode("utf-8", "surrogateescape"))
