"""`rebuild`: a new journal from git alone. The old file is kept, whatever is wrong with it.

The new journal is made beside the old one and takes its place in one step, so a kill at any moment leaves either, or
none; doing it again mends that.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import msgspec

from holdfast.core import events as ev
from holdfast.core.facts import BranchFacts
from holdfast.core.folds import first_row
from holdfast.core.ids import plan_ref
from holdfast.core.plan import Plan, decode_plan, plan_hash
from holdfast.core.restore import overleapt, restore
from holdfast.core.state import RunState
from holdfast.core.status import TASK_IS_SETTLED, RunStatus
from holdfast.errors import HoldfastError, NeedsDecisionError
from holdfast.fleet.local import LocalFleet
from holdfast.journal.lease import Lease
from holdfast.journal.protocol import Journal
from holdfast.journal.sqlite import SqliteJournal
from holdfast.journal.upkeep import diagnose, open_draft, put_in_place
from holdfast.repo.record import commit_time, known_runs, read_record, recorded_runs
from holdfast.repo.repository import Repository
from holdfast.runner.adoption.record import inheritance_of
from holdfast.runner.remains import Found, end_and_save, last_epoch, look, remains_of

Ask = Callable[[str], bool]
"""Puts a question to the user whose safe answer is no."""


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """A run that is in the journal again."""

    run: str
    status: RunStatus
    landed: int
    tasks: int


class Rebuilt(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it: why it was needed, what is back, where the old file is, and what could not be restored."""

    why: str
    runs: tuple[Restored, ...]
    kept: str | None
    lost: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Known:
    """A run whose plan git has."""

    run: str
    plan: Plan
    started: ev.RunStarted
    at: float


def rebuild(repo: Repository, ask: Ask, *, replace: bool) -> Rebuilt:
    """Put a journal made from git in the place of one that is lost. A sound one is refused unless `replace`.

    Raises LeaseHeldError, with nothing changed, if a runner of any run lives.
    """
    why = _reason(repo, replace=replace)
    repo.hide_state_dir()
    known, lost = _known(repo)
    with _all_leases(repo, known):
        draft = open_draft(repo.state.journal)
        try:
            runs = tuple(_restore(repo, draft, one, ask) for one in known)
        finally:
            draft.close()
        kept = put_in_place(repo.state.journal)
    return Rebuilt(why=why, runs=runs, kept=None if kept is None else str(kept), lost=tuple(lost))


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
    journal = SqliteJournal.open_read_only(path)
    absent = sorted({*in_git} - {listing.row.run for listing in journal.runs()})
    also = f"; it lacks {', '.join(absent)}" if absent else ""
    raise NeedsDecisionError(
        f"the journal is sound: there is nothing to rebuild{also}",
        "--yes replaces it by what git shows; failures, costs and decisions are not in git",
    )


def _known(repo: Repository) -> tuple[list[_Known], list[str]]:
    """Return the runs that can be restored, oldest first, and a sentence about each that cannot."""
    recorded = recorded_runs(repo)
    lost = [f"{run}: its plan is not in git" for run in sorted(known_runs(repo) - set(recorded))]
    known: list[_Known] = []
    for run in recorded:
        try:
            known.append(_read(repo, run))
        except (HoldfastError, msgspec.MsgspecError) as error:
            lost.append(f"{run}: {error}")
    return sorted(known, key=lambda one: (one.at, one.run)), lost


def _read(repo: Repository, run: str) -> _Known:
    record = read_record(repo, run)
    if record is None:
        raise HoldfastError(f"{plan_ref(run)} does not hold its plan")
    plan, started = decode_plan(record.plan), ev.decode_event(record.started)
    if not isinstance(started, ev.RunStarted) or started.run != run or started.plan_hash != plan_hash(plan):
        raise HoldfastError(f"{plan_ref(run)} contradicts itself")
    if not repo.exists(started.base):
        raise HoldfastError(f"the commit {started.base[:12]} it began at is gone")
    return _Known(run, plan, started, float(commit_time(repo, plan_ref(run))))


@contextmanager
def _all_leases(repo: Repository, known: list[_Known]) -> Iterator[None]:
    """Hold the lease of every run there is, or could be: nobody may write the journal that is going to be replaced."""
    with ExitStack() as held:
        for run in sorted({one.run for one in known} | set(repo.state.runs())):
            held.callback(Lease.acquire(repo.state.run(run).lease).release)
        yield


def _restore(repo: Repository, journal: Journal, one: _Known, ask: Ask) -> Restored:
    fleet = LocalFleet(repo.state)
    try:
        asyncio.run(end_and_save(repo, fleet, one.run, one.plan))
    finally:
        fleet.close()
    # Above whatever a runner of the lost journal had: a count of take-overs is far below the seconds since 1970.
    epoch = 1 + max(int(time.time()), last_epoch(repo.state.run(one.run)))
    started = msgspec.structs.replace(one.started, epoch=epoch)
    found = look(repo, one.run, started.base)
    state = RunState(one.plan, first_row(started))
    journal.create_run(one.plan, state.row, started, one.at)
    events = _history(repo, one, state, found, ask)
    journal.append(one.run, journal.take_epoch(one.run), events, state.row, state.take_changed(), one.at)
    landed = sum(task.status in TASK_IS_SETTLED for task in state.tasks.values())
    return Restored(run=one.run, status=state.row.status, landed=landed, tasks=len(state.tasks))


def _history(repo: Repository, one: _Known, state: RunState, found: Found, ask: Ask) -> list[ev.AnyEvent]:
    """Bring the run to where git shows it to be; return the events that did it."""
    inherited = inheritance_of(repo, one.run)
    if one.started.adopting and not inherited:
        # Its adoption was cut short: adopting the same files again takes everything in, also what the branch says.
        return restore(state, BranchFacts(tip=""), {}, ())
    left = remains_of(repo, one.run, one.plan, one.started.base, found)
    skipped = [
        name
        for name, above in overleapt(one.plan, found.branch).items()
        if ask(f"{one.run}: {name} never landed, yet {above}, which builds on it, did. Was {name} skipped?")
    ]
    skipped += [event.task for event in inherited if isinstance(event, ev.TaskSkipped)]
    began = [event for event in inherited if isinstance(event, ev.RunAdopted | ev.TaskInherited)]
    events = restore(state, found.branch, left, skipped, began)
    for event in _ending(state, one.run, found, ask):
        state.apply(event)
        events.append(event)
    return events


def _ending(state: RunState, run: str, found: Found, ask: Ask) -> Iterator[ev.AnyEvent]:
    """A run is over if all of it landed, or if the user put its branch away; else it rests and can be resumed."""
    if not state.current_stages:
        yield ev.RunCompleted()
    elif found.put_away:
        yield ev.RunAbandoned(reason="its branch was put away")
    elif not found.branch.tip and any(task.attempt for task in state.tasks.values()):
        question = f"{run}: its branch is gone, and with it what landed. Give the run up? (No: it can be resumed from its base.)"
        if ask(question):
            yield ev.RunAbandoned(reason="its branch was gone")
