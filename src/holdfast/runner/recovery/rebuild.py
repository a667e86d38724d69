"""`rebuild`: a new journal from git alone. The old file is always kept.

The new journal is made beside the old one and takes its place in one step. Safe to repeat after a crash,
which leaves one of them or none.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec

from holdfast.core import events as ev, ids
from holdfast.core.event_codec import decode_event
from holdfast.core.facts import BranchFacts
from holdfast.core.ids import plan_ref
from holdfast.core.plan import Plan, decode_plan, plan_hash
from holdfast.core.rebuild import passed_over, rebuild_events
from holdfast.core.run_transitions import first_row
from holdfast.core.state import RunState
from holdfast.core.status import TASK_IS_SETTLED, RunStatus
from holdfast.errors import (
    HoldfastError,
    JournalError,
    LeaseHeldError,
    NeedsDecisionError,
    StoreUnavailableError,
)
from holdfast.fleet import open_fleet
from holdfast.fleet.protocol import AGENT_STEP, Fleet, LaunchKey
from holdfast.journal import open_reader
from holdfast.journal.lease import Lease, locker, making_runs
from holdfast.journal.maintenance import diagnose, open_draft, put_in_place
from holdfast.journal.protocol import Journal, JournalReader, RunListing
from holdfast.repo.commit_contents import commit_time
from holdfast.repo.debris import clear_debris
from holdfast.repo.landing import branch_facts, trailers
from holdfast.repo.refs import known_runs, recorded_runs, run_refs
from holdfast.repo.repository import Repository
from holdfast.repo.run_record import read_origin, read_record
from holdfast.repo.snapshots import take_snapshot
from holdfast.repo.uncollected_work import WayOut, capture_or_move_aside
from holdfast.repo.workspace import WorkspaceGoneError
from holdfast.repo.workspaces import Workspaces
from holdfast.runner.attempts.snapshots import take_torn_files
from holdfast.runner.health import runs_missing_in_journal
from holdfast.runner.store_choice import Store, remember_store, require_same_repository

Ask = Callable[[str, bool], bool]
"""Asks the user a question whose safe answer is no; the second argument tells whether git shows that it is yes."""
_TRY_AGAIN = WayOut("Nothing was replaced. `holdfast rebuild` tries again.")
_TornFiles = dict[tuple[str, int], str]
"""The commits of files that a power cut may have torn, by task and attempt; empty where there was nothing."""


class RestoredRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that is in the journal again."""

    run: str
    status: RunStatus
    landed: int
    tasks: int


class RebuildResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result: why it was needed, what is restored, where the old file is, and what is not restored."""

    why: str
    runs: tuple[RestoredRun, ...]
    kept: str | None
    lost: tuple[str, ...]


def rebuild(repo: Repository, ask: Ask, *, replace: bool, store: Store | None = None) -> RebuildResult:
    """Replace a lost journal by one made from git. A sound journal is replaced only with `replace`.

    Raises LeaseHeldError, with nothing changed, if a runner of any run lives.
    """
    repo.prepare_state_dir()
    store = repo.state_dir.journal if store is None else store
    with ExitStack() as held:
        # A run that somebody makes meanwhile would be in the journal that will be replaced.
        held.enter_context(making_runs(repo.state_dir.runs_lock))
        why = _reason(repo, store, replace=replace)
        readable, lost = _readable_runs(repo)
        # The lease of every run that exists or could: nobody may write the journal that will be replaced.
        for run in sorted({one.run for one in readable} | set(repo.state_dir.runs())):
            held.enter_context(Lease.acquire(repo.state_dir.run(run).lease))
        with closing(open_draft(store)) as draft:
            runs = tuple(one.restore(draft, ask) for one in readable)
        kept = put_in_place(store)
        remember_store(repo.state_dir, store)
    return RebuildResult(why=why, runs=runs, kept=kept, lost=tuple(lost))


def _reason(repo: Repository, store: Store, *, replace: bool) -> str:
    if _is_empty(store):
        if not recorded_runs(repo):
            raise HoldfastError("git knows of no run here", "`holdfast run` starts one")
        return "there is no journal"
    if why := diagnose(store):
        return why
    with closing(open_reader(store)) as journal:
        require_same_repository(repo, journal)
        if not replace:
            _refuse_sound(repo, journal)
        for run in map(_run_of, journal.runs()):
            held = journal.holder(run)
            if held is not None and not held.is_outlived_by(locker(repo.state_dir.run(run).lease)):
                raise LeaseHeldError(
                    f"run {run} is held by another runner: {held}", "end it there first: `holdfast stop`"
                )
    return "the journal is sound, and was to be replaced"


def _is_empty(store: Store) -> bool:
    """Tell whether there is no journal of this repository."""
    if isinstance(store, Path):
        return not store.exists()
    try:
        with closing(open_reader(store)) as journal:
            return not journal.runs()
    except StoreUnavailableError:
        raise
    except JournalError:
        return False  # there is one, and it is damaged: `diagnose` says how


def _run_of(listing: RunListing) -> str:
    return listing.row.run


def _refuse_sound(repo: Repository, journal: JournalReader) -> None:
    absent = sorted(runs_missing_in_journal(repo, journal))
    also = f"; it lacks {', '.join(absent)}" if absent else ""
    raise NeedsDecisionError(
        f"the journal is sound: there is nothing to rebuild{also}",
        "--yes replaces it with what git shows; failures, costs and decisions are not in git",
    )


def _readable_runs(repo: Repository) -> tuple[list[_LostRun], list[str]]:
    """Return the runs that can be restored, oldest first, and a sentence about each that cannot."""
    recorded = recorded_runs(repo)
    lost = [f"{run}: its plan is not in git" for run in sorted(known_runs(repo) - set(recorded))]
    readable: list[_LostRun] = []
    for run in recorded:
        try:
            readable.append(_read_run(repo, run))
        except (HoldfastError, msgspec.MsgspecError) as error:
            lost.append(f"{run}: {error}")
    return sorted(readable, key=lambda one: (one.at, one.run)), lost


def _read_run(repo: Repository, run: str) -> _LostRun:
    record = read_record(repo, run)
    if record is None:
        raise HoldfastError(f"{plan_ref(run)} does not hold its plan")
    plan, started = decode_plan(record[0]), decode_event(record[1])
    if not isinstance(started, ev.RunStarted) or started.run != run or started.plan_hash != plan_hash(plan):
        raise HoldfastError(f"{plan_ref(run)} contradicts itself")
    if not repo.exists(started.base):
        raise HoldfastError(f"the commit {started.base[:12]} it began at is gone")
    return _LostRun(repo, run, plan, started, float(commit_time(repo, plan_ref(run))))


@dataclass(frozen=True, slots=True)
class _LostRun:
    """A run that the journal lost and git has the plan of. Safe to repeat after a crash: deletes nothing."""

    repo: Repository
    run: str
    plan: Plan
    started: ev.RunStarted
    at: float

    def restore(self, journal: Journal, ask: Ask) -> RestoredRun:
        """Write the run into a journal as git shows it. The caller holds its lease."""
        with closing(open_fleet(self.repo.state_dir.fleet)) as fleet:
            torn = asyncio.run(self._end_and_save(fleet))
        # Above any epoch of the lost journal: a count of take-overs is far below the seconds since 1970.
        epoch = 1 + max(int(time.time()), self._last_epoch())
        started = msgspec.structs.replace(self.started, epoch=epoch)
        state = RunState(self.plan, first_row(started))
        journal.create_run(self.plan, state.row, started, self.at)
        events = self._history(state, ask, torn)
        epoch = journal.take_epoch(self.run)
        journal.append(self.run, epoch, events, state.row, state.take_changed(), self.at)
        landed = sum(task.status in TASK_IS_SETTLED for task in state.tasks.values())
        return RestoredRun(run=self.run, status=state.row.status, landed=landed, tasks=len(state.tasks))

    async def _end_and_save(self, fleet: Fleet) -> _TornFiles:
        """End what a dead runner left running, and commit what is in its workspaces, unless that was collected.

        If a power cut may have torn it, it is kept apart and the last snapshot counts. The record of the launch tells:
        the journal is gone, and we have signed the lease ourselves.
        """
        await fleet.sweep(self.run, frozenset())
        directory = self.repo.state_dir.run(self.run).workspaces
        pool = Workspaces(self.repo, directory, setting=self.plan.workspace)
        clear_debris(self.repo, pool)
        pool.forget_files()
        torn: _TornFiles = {}
        occupants = fleet.occupants(self.run, AGENT_STEP)
        for name in filter(str.isdigit, pool.names()):
            pool.restore_start(name, self.started.base)
            last = occupants.get(name)
            if last is None or all(task.id != last.owner for _, task in self.plan.tasks()):
                self._save(pool, name, ids.archive_ref(self.run, f"workspace-{name}"))
            elif self.repo.read_ref(ids.task_ref(self.run, last.owner, last.attempt)):
                continue
            elif fleet.may_be_torn(last):
                torn[last.owner, last.attempt] = self._save_torn(pool, name, last)
            else:
                about = trailers(self.run, last.owner, last.attempt)
                self._save(pool, name, ids.snapshot_ref(self.run, last.owner), f"\n\n{about}")
        return torn

    def _save(self, pool: Workspaces, name: str, ref: str, about: str = "") -> None:
        """Commit a workspace at a ref. One that was deleted together with the state has its earlier snapshots there."""
        message = f"WIP found in workspace {name} when the journal was lost{about}"
        with suppress(WorkspaceGoneError):
            take = partial(take_snapshot, self.repo, pool.get(name), ref, message)
            capture_or_move_aside(pool, name, take, _TRY_AGAIN)

    def _save_torn(self, pool: Workspaces, name: str, agent: LaunchKey) -> str:
        """Commit files that may be torn, apart from snapshots; return the commit, empty if there is nothing."""
        try:
            return capture_or_move_aside(
                pool, name, partial(take_torn_files, self.repo, pool.get(name), agent), _TRY_AGAIN
            )
        except WorkspaceGoneError:
            return ""

    def _last_epoch(self) -> int:
        """Return the highest epoch under which a check of the run was ever started, as far as its folders show."""
        names = (path.name for path in self.repo.state_dir.run(self.run).attempts.glob("*/*/*"))
        epochs = (re.search(r"-(\d+)\.\d+$", name) for name in names)
        return max((int(found[1]) for found in epochs if found), default=0)

    def _history(self, state: RunState, ask: Ask, torn: _TornFiles) -> list[ev.Event]:
        """Bring the run to where git shows it to be; return the events that did it."""
        inherited = read_origin(self.repo, self.run).events()
        if self.started.adopting and not inherited:
            # Its adoption was cut short: adopting the same files again takes in everything, also what the branch says.
            return rebuild_events(state, BranchFacts(tip=""), {}, ())
        refs = run_refs(self.repo, self.run)
        branch, archived = self._branch(refs)
        skipped = [event.task for event in inherited if isinstance(event, ev.TaskSkipped)]
        skipped += [
            name
            for name, above in passed_over(self.plan, branch).items()
            if name not in skipped
            and ask(
                f"{self.run}: {name} never landed, yet {above}, which builds on it, did. Was {name} skipped?",
                True,
            )
        ]
        began = [event for event in inherited if isinstance(event, ev.RunAdopted | ev.TaskInherited)]
        begun = self._begun_tasks(branch, refs, torn)
        events = rebuild_events(state, branch, begun, skipped, began, self._dropped_tasks(refs))
        return events + state.apply_all(self._ending(state, branch, ask, archived=archived))

    def _branch(self, refs: dict[str, str]) -> tuple[BranchFacts, bool]:
        """Return what git shows of the run branch, or of the newest archived one if it is gone, and which."""
        base = self.started.base
        # A killed runner may have moved it a moment ago: what the new journal says must survive a power cut.
        self.repo.ref_updates.sync(ids.run_branch(self.run))
        branch = branch_facts(self.repo, ids.run_branch(self.run), base, self.run)
        archived = [ref for ref in refs if ref.startswith(ids.archive_ref(self.run, "branch-"))]
        if branch.tip or not archived:
            return branch, False
        newest = max(archived, key=lambda ref: commit_time(self.repo, ref))
        return branch_facts(self.repo, newest, base, self.run), True

    def _begun_tasks(
        self, branch: BranchFacts, refs: dict[str, str], torn: _TornFiles
    ) -> Iterator[ev.TaskRestored]:
        """Yield what is left of every task that was ever begun."""
        landed = {landing.task: landing.attempt for landing in branch.landings}
        base = self.started.base
        for _, task in self.plan.tasks():
            commits = {ids.attempt_of_ref(self.run, task.id, ref): commit for ref, commit in refs.items()}
            commits.pop(0, None)
            folders = (self.repo.state_dir.run(self.run).attempts / task.id).glob("*")
            numbers = [int(folder.name) for folder in folders if folder.name.isdecimal()]
            attempts = max([0, landed.get(task.id, 0), *commits, *numbers])
            done = commits[max(commits)] if commits else ""
            snapshot = refs.get(ids.snapshot_ref(self.run, task.id), "")
            left = "" if task.id in landed else _newest(self.repo, done, snapshot)
            aside = torn.get((task.id, attempts), "")
            if left and self.plan.resume_mode(task) == "clean":
                yield self._restored_clean(task.id, max(attempts, 1), left, aside)
            elif attempts or left:
                below = (self.repo.merge_base(branch.tip or base, left) or base) if left else ""
                yield ev.TaskRestored(
                    task=task.id, attempts=max(attempts, 1), carry=left, set_aside=aside, base=below
                )

    def _dropped_tasks(self, refs: dict[str, str]) -> dict[str, int]:
        """Return the tasks that were begun and are not in the plan any more, each with its last attempt."""
        folders = self.repo.state_dir.run(self.run).attempts.glob("*/*")
        found = {(path.parent.name, int(path.name)) for path in folders if path.name.isdecimal()}
        found |= {at for ref in refs if (at := ids.task_of_ref(self.run, ref)) is not None}
        known = {task.id for _, task in self.plan.tasks()}
        numbers: dict[str, int] = {}
        for task, number in found:
            if task not in known and ids.is_valid_id(task):
                numbers[task] = max(number, numbers.get(task, 0))
        return numbers

    def _restored_clean(self, task: str, attempts: int, left: str, torn: str) -> ev.TaskRestored:
        """Return a task that starts without the work it left: git does not say whether that was cut short or finished.

        Files that a power cut may have torn are at that ref already, and the log of the snapshot ref has the rest.
        """
        if not torn:
            self.repo.keep(ids.cut_short_ref(self.run, task, attempts), left)
        return ev.TaskRestored(task=task, attempts=attempts, set_aside=torn or left)

    def _ending(
        self, state: RunState, branch: BranchFacts, ask: Ask, *, archived: bool
    ) -> Iterator[ev.Event]:
        """A run is over if all of it landed or the user discarded it; else it rests and can be resumed."""
        if not state.current_stages:
            yield ev.RunCompleted()
        elif archived:
            yield ev.RunAbandoned(reason="its branch was put away")
        elif not branch.tip and any(task.attempt for task in state.tasks.values()):
            gone = f"{self.run}: its branch is gone, and with it what landed."
            if ask(f"{gone} Abandon the run? (No: it can be resumed from its base.)", False):
                yield ev.RunAbandoned(reason="its branch was gone")


def _newest(repo: Repository, done: str, snapshot: str) -> str:
    """Return which of two commits of a task has its latest work: the one that contains the other, else the later."""
    if not (done and snapshot):
        return done or snapshot
    if repo.is_ancestor(snapshot, done):
        return done
    later = repo.is_ancestor(done, snapshot) or commit_time(repo, snapshot) > commit_time(repo, done)
    return snapshot if later else done
