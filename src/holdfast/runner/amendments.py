"""Amendments of a run's plan: judged by the state at that moment, and followed by what they ask for.

The decision of a user about a run at rest is in `decisions/amend.py`; the rules are in `core/amendment.py`.
"""

from __future__ import annotations

import asyncio
from contextlib import closing

from msgspec.structs import replace

from holdfast.agents.consent import consent_digest
from holdfast.agents.presets import Presets, agent_names, require_agents
from holdfast.core import events as ev
from holdfast.core.amended_rows import STANDS
from holdfast.core.amendment import amendment
from holdfast.core.event_codec import encode_event
from holdfast.core.plan import Plan, encode_plan, plan_hash
from holdfast.core.plan_rules import broken_rules
from holdfast.core.projection import TaskRow
from holdfast.core.state import RunState
from holdfast.errors import HoldfastError
from holdfast.journal.protocol import JournalReader
from holdfast.repo.landing import branch_facts
from holdfast.repo.repository import Repository
from holdfast.repo.run_record import keep_record
from holdfast.runner.context import RunContext
from holdfast.runner.requests import Request

_SHOWN = 3


def amendment_of(
    state: RunState,
    journal: JournalReader,
    presets: Presets,
    wanted: Plan,
    *,
    restart: bool,
) -> ev.PlanAmended:
    """Return the event that amends the plan of a run. Raises HoldfastError if it cannot be right, or nobody agreed to it.

    The user agrees to the plan as it is wanted. What landed may add no more to it than the user agreed to before.
    """
    if not journal.is_confirmed(consent_digest(wanted, presets)):
        raise HoldfastError(
            "the user did not agree to what the amended plan runs", "`holdfast amend` shows it, and asks"
        )
    return possible_amendment(state, presets, wanted, restart=restart)


def possible_amendment(state: RunState, presets: Presets, wanted: Plan, *, restart: bool) -> ev.PlanAmended:
    """Return the event that would amend the plan of a run, whoever agreed to it. Raises HoldfastError if it cannot be right."""
    event = amendment(state, wanted, restart=restart)
    require_agents(event.plan, presets)
    if broken := [rule.what for rule in broken_rules(event.plan, agent_names(presets))]:
        raise HoldfastError(
            f"the plan does not fit what landed: {'; '.join(broken[:_SHOWN])}",
            "`holdfast amend --dry-run` shows the difference",
        )
    return event


def require_known_landings(repo: Repository, state: RunState) -> None:
    """Raise HoldfastError if the run branch has a landing that the run does not know of: somebody put it back.

    It stands, so the plan must keep it as it landed, but only the run's own rows say what landed.
    """
    row = state.row
    landings = branch_facts(repo, row.branch, row.base, row.run).landings
    back = [
        one.task for one in landings if one.task in state.tasks and state.tasks[one.task].status not in STANDS
    ]
    if back:
        raise HoldfastError(
            f"task {back[0]} is on the run branch again, and the run does not know of it yet",
            f"`holdfast resume {row.run}` takes it in; amend the plan then, also while the run is at work",
        )


def amendment_for(context: RunContext, request: Request, name: str) -> ev.PlanAmended:
    """Return the event that the request of that id becomes now. Raises HoldfastError if it is refused."""
    plan = context.state.plan
    if request.plan is None:
        raise HoldfastError("the request has no plan", "give the command again")
    if _surroundings(request.plan) != _surroundings(plan):
        raise HoldfastError(
            "what is in force for `sandbox`, `network` and `workspace` is decided when a runner starts",
            f"`holdfast stop {context.run}`, amend the plan, then `holdfast resume {context.run}`",
        )
    require_known_landings(context.repo, context.state)
    event = amendment_of(
        context.state, context.journal, context.presets, request.plan, restart=request.restart
    )
    return replace(event, request=name)


def _surroundings(plan: Plan) -> tuple[object, ...]:
    """Return what of a plan makes the surroundings in which launches run. Those of live agents cannot change."""
    return plan.sandbox, plan.network.access, plan.workspace


def keep_plan(repo: Repository, journal: JournalReader, run: str, plan: Plan) -> None:
    """Make sure that git knows the plan: the process that created the run, or amended it, may have been killed before that.

    Git keeps the run as if it had begun with the plan that it has now.
    """
    started = journal.first_event(run).event
    assert isinstance(started, ev.RunStarted)
    as_now = replace(started, plan_hash=plan_hash(plan), goal=plan.goal)
    keep_record(repo, run, encode_plan(plan), encode_event(as_now))


async def keep_amended_plan(context: RunContext) -> None:
    """Have git keep the plan that the run has now. Idempotent; every runner does it when it begins."""
    await context.require_lease()
    with closing(context.journal.reader()) as reader:
        await asyncio.to_thread(keep_plan, context.repo, reader, context.run, context.state.plan)


async def end_restarted(context: RunContext, task: TaskRow) -> None:
    """End the agent of a task that was amended and begins again. Who watches it keeps its work. If it ended before, nothing happens."""
    await context.require_lease()
    await context.fleet.cancel(context.agent_key(task))
