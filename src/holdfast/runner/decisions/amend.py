"""Amend the plan of a run: with its runner if one lives, else under its lease.

The journal has the amended plan first, in one transaction with its event; then git keeps it. A kill in between is made good
by the next runner, and by `amend` given again.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from holdfast.agents.presets import Presets
from holdfast.core import events as ev
from holdfast.core.amendment import amended_plan, fates_of, restarted_tasks, tasks_concerned
from holdfast.core.plan import Plan
from holdfast.core.plan_difference import FieldChange, PlanDifference, plan_difference
from holdfast.core.state import RunState
from holdfast.core.status import RUN_IS_OVER
from holdfast.errors import HoldfastError
from holdfast.journal.lease import Lease, holder
from holdfast.journal.protocol import Journal
from holdfast.repo.repository import Repository
from holdfast.runner.amendments import amendment_of, keep_plan, require_known_landings
from holdfast.runner.decisions.user_decisions import apply_decision
from holdfast.runner.mirror.mirror_writer import write_mirrors
from holdfast.runner.requests import Request, ask_runner


@dataclass(frozen=True, slots=True)
class PlannedAmendment:
    """What an amendment would change: the plan that the run gets, the difference, and what becomes of each task.

    `ignored` are the fields that a run that has begun does not change; `restarted` the tasks whose agents are ended.
    """

    plan: Plan
    difference: PlanDifference
    fates: dict[str, str]
    ignored: tuple[FieldChange, ...]
    restarted: tuple[str, ...]

    @property
    def is_empty(self) -> bool:
        """Whether the run has this plan, and nobody is to begin again."""
        return not self.difference and not self.restarted


def planned_amendment(state: RunState, wanted: Plan, *, restart: bool) -> PlannedAmendment:
    """Return what amending a run to the plan that somebody wants would change. Refuses nothing."""
    plan = amended_plan(state, wanted)
    difference = plan_difference(state.plan, plan)
    changed = (one.id for one in (*plan_difference(state.plan, wanted).tasks, *difference.tasks))
    restarted = restarted_tasks(state, plan) if restart else ()
    names = dict.fromkeys((*changed, *tasks_concerned(state, plan), *restarted))
    fates = fates_of(state, plan, names, restart=restart)
    base = FieldChange(field="base", before=state.plan.base, after=wanted.base)
    ignored = (base,) if base.before != base.after else ()
    return PlannedAmendment(plan, difference, fates, ignored, restarted)


def is_amended(state: RunState, wanted: Plan) -> bool:
    """Tell whether a run has the plan that somebody wants, as far as it can."""
    return amended_plan(state, wanted) == state.plan


def require_unfinished(run: str, state: RunState) -> None:
    """Raise HoldfastError if a run is over: there is nothing left to amend."""
    if state.row.status in RUN_IS_OVER:
        raise HoldfastError(f"run {run} is {state.row.status}", "`holdfast run` starts the edited plan anew")


def amend_run(
    repo: Repository, journal: Journal, presets: Presets, run: str, wanted: Plan, *, restart: bool
) -> bool:
    """Amend the plan of a run, or have its live runner do it; tell whether a runner was asked. The user agreed before.

    Raises HoldfastError, with nothing changed, if the amendment cannot be right.
    """
    directory = repo.state_dir.run(run)
    if holder(directory.lease) is not None:
        # What the state does not allow is refused here, not by the runner.
        amendment_of(journal.load(run).state(), journal, presets, wanted, restart=restart)
        ask_runner(directory, Request(action="amend", plan=wanted, restart=restart))
        return True
    with Lease.acquire(directory.lease) as lease:
        epoch = journal.take_epoch(run, lease.holder)
        state = journal.load(run).state()
        require_unfinished(run, state)
        require_known_landings(repo, state)
        if not is_amended(state, wanted) or (restart and restarted_tasks(state, state.plan)):
            event: ev.Event = amendment_of(state, journal, presets, wanted, restart=restart)
            apply_decision(state, event)
            journal.append(run, epoch, [event], state.row, state.take_changed(), time.time())
        keep_plan(repo, journal, run, state.plan)
        if failures := write_mirrors(repo, journal, run):
            journal.append(run, epoch, failures, state.row, (), time.time())
    return False
