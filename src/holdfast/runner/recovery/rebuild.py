"""`rebuild`: a new journal from git alone. The old file is kept, whatever is wrong with it.

The new journal is made beside the old one and takes its place in one step, so a kill at any moment leaves either, or
none; doing it again mends that.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec

from holdfast.core import events as ev, ids
from holdfast.core.event_codec import decode_event
from holdfast.core.facts import BranchFacts
from holdfast.core.ids import plan_ref
from holdfast.core.plan import Plan, decode_plan, plan_hash
from holdfast.core.rebuild import TaskTraces, passed_over, rebuild_events
from holdfast.core.run_transitions import first_row
from holdfast.core.state import RunState
from holdfast.core.status import TASK_IS_SETTLED, RunStatus
from holdfast.errors import HoldfastError, NeedsDecisionError
from holdfast.fleet import open_fleet
from holdfast.fleet.protocol import AGENT_STEP, Fleet, LaunchKey
from holdfast.journal import open_reader
from holdfast.journal.lease import Lease
from holdfast.journal.maintenance import diagnose, open_draft, put_in_place
from holdfast.journal.protocol import Journal
from holdfast.paths import RunDir
from holdfast.repo.commit_contents import commit_time
from holdfast.repo.debris import clear_debris
from holdfast.repo.landing import branch_facts, trailers
from holdfast.repo.refs import known_runs, recorded_runs, run_refs
from holdfast.repo.repository import Repository
from holdfast.repo.run_record import read_origin, read_record
from holdfast.repo.snapshots import take_snapshot
from holdfast.repo.workspaces import WorkspaceGoneError, Workspaces
from holdfast.runner.effect_errors import capture_safely


@dataclass(frozen=True, slots=True)
class LostRun:
    """A run as git and its folders show it. `put_away`: its branch was archived by the user's wish."""

    branch: BranchFacts
    refs: dict[str, str]
    put_away: bool = False


async def end_and_save(repo: Repository, fleet: Fleet, run: str, plan: Plan) -> None:
    """End what a dead runner left running, and commit what is in its workspaces. The caller holds the run's lease."""
    await fleet.sweep(run, frozenset())
    pool = Workspaces(repo, repo.state.run(run).workspaces)
    clear_debris(repo, pool)
    occupants = fleet.occupants(run, AGENT_STEP)
    for name in filter(str.isdigit, pool.names()):
        _save(repo, pool, name, occupants.get(str(pool.path(name))), run, plan)


def find_lost_run(repo: Repository, run: str, base: str) -> LostRun:
    """Return what git shows of a run. If its branch was put away, the archived one speaks for it."""
    refs = run_refs(repo, run)
    branch = branch_facts(repo, ids.run_branch(run), base, run)
    if branch.tip:
        return LostRun(branch, refs)
    archived = [ref for ref in refs if ref.startswith(ids.archive_ref(run, "branch-"))]
    if not archived:
        return LostRun(branch, refs)
    newest = max(archived, key=lambda ref: commit_time(repo, ref))
    return LostRun(branch_facts(repo, newest, base, run), refs, put_away=True)


def remaining_work(
    repo: Repository, run: str, plan: Plan, base: str, found: LostRun
) -> dict[str, TaskTraces]:
    """Return what is left of every task that was ever begun."""
    landed = {landing.task: landing.attempt for landing in found.branch.landings}
    tip, remains = found.branch.tip or base, {}
    for _, task in plan.tasks():
        commits = {
            number: commit
            for ref, commit in found.refs.items()
            if (number := ids.attempt_of_ref(run, task.id, ref))
        }
        folders = _attempt_folders(repo.state.run(run), task.id)
        attempts = max([0, landed.get(task.id, 0), *commits, *folders])
        wip = found.refs.get(ids.snapshot_ref(run, task.id), "")
        carry = "" if task.id in landed else _newest(repo, commits[max(commits)] if commits else "", wip)
        if attempts or carry:
            below = (repo.merge_base(tip, carry) or base) if carry else ""
            remains[task.id] = TaskTraces(max(attempts, 1), carry, below)
    return remains


def last_epoch(directory: RunDir) -> int:
    """Return the highest epoch under which a check of the run was ever started, as far as its folders tell."""
    names = (path.name for path in directory.attempts.glob("*/*/*"))
    return max((int(found[1]) for name in names if (found := re.search(r"-(\d+)\.\d+$", name))), default=0)


def _newest(repo: Repository, done: str, wip: str) -> str:
    """Return which of two commits of a task has its latest work: the one that contains the other, else the later."""
    if not (done and wip):
        return done or wip
    if repo.is_ancestor(wip, done):
        return done
    later = repo.is_ancestor(done, wip) or commit_time(repo, wip) > commit_time(repo, done)
    return wip if later else done


def _save(
    repo: Repository, pool: Workspaces, name: str, last: LaunchKey | None, run: str, plan: Plan
) -> None:
    """Commit a workspace for the task whose agent worked in it last, unless that was collected; else archive it."""
    message = f"WIP found in workspace {name} when the journal was lost"
    ref = ids.archive_ref(run, f"workspace-{name}")
    if last is not None and any(task.id == last.owner for _, task in plan.tasks()):
        if repo.read_ref(ids.task_ref(run, last.owner, last.attempt)):
            return
        ref = ids.snapshot_ref(run, last.owner)
        message += f"\n\n{trailers(run, last.owner, last.attempt)}"
    try:
        capture_safely(pool.path(name), partial(take_snapshot, repo, pool.get(name), ref, message))
    except WorkspaceGoneError:
        return  # It was deleted together with the state; the snapshots taken before are at their ref.


def _attempt_folders(directory: RunDir, task: str) -> list[int]:
    folders: list[Path] = list((directory.attempts / task).glob("*"))
    return [int(folder.name) for folder in folders if folder.name.isdecimal()]


Ask = Callable[[str], bool]
"""Puts a question to the user whose safe answer is no."""


class RestoredRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that is in the journal again."""

    run: str
    status: RunStatus
    landed: int
    tasks: int


class RebuildResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it: why it was needed, what is back, where the old file is, and what could not be restored."""

    why: str
    runs: tuple[RestoredRun, ...]
    kept: str | None
    lost: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _ReadableRun:
    """A run whose plan git has."""

    run: str
    plan: Plan
    started: ev.RunStarted
    at: float


def rebuild(repo: Repository, ask: Ask, *, replace: bool) -> RebuildResult:
    """Put a journal made from git in the place of one that is lost. A sound one is refused unless `replace`.

    Raises LeaseHeldError, with nothing changed, if a runner of any run lives.
    """
    why = _reason(repo, replace=replace)
    repo.hide_state_dir()
    known, lost = _readable_runs(repo)
    with _all_leases(repo, known):
        draft = open_draft(repo.state.journal)
        try:
            runs = tuple(_restore(repo, draft, one, ask) for one in known)
        finally:
            draft.close()
        kept = put_in_place(repo.state.journal)
    return RebuildResult(why=why, runs=runs, kept=None if kept is None else str(kept), lost=tuple(lost))


def _reason(repo: Repository, *, replace: bool) -> str:
    path, in_git = repo.state.journal, recorded_runs(repo)
    if not path.exists():
        if not in_git:
            raise HoldfastError("git knows of no run here", "`holdfast run` starts one")
        return "there is no journal"
    if why := diagnose(path):
        return why
    if replace:
        return "the journal is sound, and was to be replaced"
    journal = open_reader(path)
    absent = sorted({*in_git} - {listing.row.run for listing in journal.runs()})
    also = f"; it lacks {', '.join(absent)}" if absent else ""
    raise NeedsDecisionError(
        f"the journal is sound: there is nothing to rebuild{also}",
        "--yes replaces it by what git shows; failures, costs and decisions are not in git",
    )


def _readable_runs(repo: Repository) -> tuple[list[_ReadableRun], list[str]]:
    """Return the runs that can be restored, oldest first, and a sentence about each that cannot."""
    recorded = recorded_runs(repo)
    lost = [f"{run}: its plan is not in git" for run in sorted(known_runs(repo) - set(recorded))]
    known: list[_ReadableRun] = []
    for run in recorded:
        try:
            known.append(_read_run(repo, run))
        except (HoldfastError, msgspec.MsgspecError) as error:
            lost.append(f"{run}: {error}")
    return sorted(known, key=lambda one: (one.at, one.run)), lost


def _read_run(repo: Repository, run: str) -> _ReadableRun:
    record = read_record(repo, run)
    if record is None:
        raise HoldfastError(f"{plan_ref(run)} does not hold its plan")
    plan, started = decode_plan(record.plan), decode_event(record.started)
    if not isinstance(started, ev.RunStarted) or started.run != run or started.plan_hash != plan_hash(plan):
        raise HoldfastError(f"{plan_ref(run)} contradicts itself")
    if not repo.exists(started.base):
        raise HoldfastError(f"the commit {started.base[:12]} it began at is gone")
    return _ReadableRun(run, plan, started, float(commit_time(repo, plan_ref(run))))


@contextmanager
def _all_leases(repo: Repository, known: list[_ReadableRun]) -> Iterator[None]:
    """Hold the lease of every run there is, or could be: nobody may write the journal that is going to be replaced."""
    with ExitStack() as held:
        for run in sorted({one.run for one in known} | set(repo.state.runs())):
            held.callback(Lease.acquire(repo.state.run(run).lease).release)
        yield


def _restore(repo: Repository, journal: Journal, one: _ReadableRun, ask: Ask) -> RestoredRun:
    fleet = open_fleet(repo.state.fleet)
    try:
        asyncio.run(end_and_save(repo, fleet, one.run, one.plan))
    finally:
        fleet.close()
    # Above whatever a runner of the lost journal had: a count of take-overs is far below the seconds since 1970.
    epoch = 1 + max(int(time.time()), last_epoch(repo.state.run(one.run)))
    started = msgspec.structs.replace(one.started, epoch=epoch)
    found = find_lost_run(repo, one.run, started.base)
    state = RunState(one.plan, first_row(started))
    journal.create_run(one.plan, state.row, started, one.at)
    events = _history(repo, one, state, found, ask)
    journal.append(one.run, journal.take_epoch(one.run), events, state.row, state.take_changed(), one.at)
    landed = sum(task.status in TASK_IS_SETTLED for task in state.tasks.values())
    return RestoredRun(run=one.run, status=state.row.status, landed=landed, tasks=len(state.tasks))


def _history(
    repo: Repository, one: _ReadableRun, state: RunState, found: LostRun, ask: Ask
) -> list[ev.Event]:
    """Bring the run to where git shows it to be; return the events that did it."""
    inherited = read_origin(repo, one.run).events()
    if one.started.adopting and not inherited:
        # Its adoption was cut short: adopting the same files again takes everything in, also what the branch says.
        return rebuild_events(state, BranchFacts(tip=""), {}, ())
    left = remaining_work(repo, one.run, one.plan, one.started.base, found)
    skipped = [
        name
        for name, above in passed_over(one.plan, found.branch).items()
        if ask(f"{one.run}: {name} never landed, yet {above}, which builds on it, did. Was {name} skipped?")
    ]
    skipped += [event.task for event in inherited if isinstance(event, ev.TaskSkipped)]
    began = [event for event in inherited if isinstance(event, ev.RunAdopted | ev.TaskInherited)]
    events = rebuild_events(state, found.branch, left, skipped, began)
    for event in _ending(state, one.run, found, ask):
        state.apply(event)
        events.append(event)
    return events


def _ending(state: RunState, run: str, found: LostRun, ask: Ask) -> Iterator[ev.Event]:
    """A run is over if all of it landed, or if the user put its branch away; else it rests and can be resumed."""
    if not state.current_stages:
        yield ev.RunCompleted()
    elif found.put_away:
        yield ev.RunAbandoned(reason="its branch was put away")
    elif not found.branch.tip and any(task.attempt for task in state.tasks.values()):
        question = f"{run}: its branch is gone, and with it what landed. Give the run up? (No: it can be resumed from its base.)"
        if ask(question):
            yield ev.RunAbandoned(reason="its branch was gone")
