"""Recovery: clear what a dead runner left, gather the facts, and bring the journal in line with them.

Safe to repeat after a crash: it only removes debris, saves work, and appends what the facts say.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from holdfast.core import events as ev
from holdfast.core.event_codec import Recorded
from holdfast.core.facts import Facts, Presence, Sighting
from holdfast.core.ids import archive_ref
from holdfast.core.projection import TaskRow
from holdfast.core.reconcile import reconcile
from holdfast.core.status import AttemptKind, TaskStatus
from holdfast.repo.debris import clear_debris
from holdfast.repo.landing import move_branch
from holdfast.runner.amendments import keep_plan
from holdfast.runner.attempts.snapshots import (
    keep_set_aside,
    keep_torn_work,
    save_last_snapshot,
    snapshot_saved,
)
from holdfast.runner.attempts.stream_listener import StreamListener, observation
from holdfast.runner.context import RunContext
from holdfast.runner.recovery.facts import (
    as_left,
    find_agents,
    gather_facts,
    require_base,
    require_own_branch,
)


async def recover(context: RunContext, *, rebooted: bool) -> list[ev.Event]:
    """Return the events that bring the journal in line with reality. Nothing runs twice.

    If the machine was `rebooted` since the last runner, perhaps by a power cut, unsynced files may be torn.
    """
    running = [task for task in context.state.active.values() if task.status is TaskStatus.RUNNING]
    sightings = find_agents(context.fleet, context.run, running)
    alive = [task for task in running if sightings[task.id].presence is Presence.ALIVE]
    ended = frozenset(task.latest.token for task in running if task not in alive)
    await context.require_lease()
    await context.fleet.sweep(context.run, frozenset(context.agent_key(task) for task in alive), ended)
    started = [task for task in running if sightings[task.id].presence is not Presence.UNKNOWN]
    lost = [task for task in running if sightings[task.id].presence is Presence.LOST]
    # What they reported decides what becomes of their work.
    reported = context.state.apply_all([*_reports(context, started), *_observations(context, lost)])
    for task in started:
        context.workspaces.pool.restore_start(str(task.latest.workspace_number), task.latest.start)
    in_use = frozenset(str(task.latest.workspace_number) for task in alive)
    await asyncio.to_thread(clear_debris, context.repo, context.workspaces.pool, in_use)
    if rebooted:
        unknown = [
            task for task in running if task not in started and task.latest.kind is not AttemptKind.PERSON
        ]
        saved = await asyncio.to_thread(_set_torn_work_aside, context, lost, unknown, sightings)
    else:
        saved = await asyncio.to_thread(_save_lost_work, context, lost)
    keep_plan(context.repo, context.journal, context.run, context.state.plan)
    facts = await asyncio.to_thread(_restore_branch, context, sightings, _events_if_moved(context))
    events = reported + context.state.apply_all(saved)
    events += context.state.apply_all(reconcile(context.state, facts))
    await _end_overtaken(context, alive)
    still = {task.id: sightings[task.id] for task in running if task.status is TaskStatus.RUNNING}
    return events + context.state.apply_all(_reattached(still))


async def _end_overtaken(context: RunContext, alive: list[TaskRow]) -> None:
    """End the agents of tasks that turned out to have landed: somebody put their landing back on the branch."""
    keep = frozenset(context.agent_key(task) for task in alive if task.status is TaskStatus.RUNNING)
    if len(keep) < len(alive):
        await context.require_lease()
        await context.fleet.sweep(context.run, keep)


def _reattached(sightings: dict[str, Sighting]) -> list[ev.Event]:
    """Return which agents of an earlier runner we take over."""
    working = tuple(name for name, sighting in sightings.items() if sighting.presence is Presence.ALIVE)
    finished = tuple(name for name, sighting in sightings.items() if sighting.presence is Presence.ENDED)
    return [ev.AgentsReattached(working=working, finished=finished)] if working or finished else []


def _reports(context: RunContext, started: list[TaskRow]) -> list[ev.Event]:
    """Return what agents reported without a runner. Before its start, an agent does not own the workspace."""
    return [event for task in started for event in context.reports.of(task, context.workspaces.path(task))]


def _observations(context: RunContext, lost: list[TaskRow]) -> list[ev.Event]:
    """Return what the streams of lost agents said last. The other streams are heard when their agents are watched."""
    streams = [(task, StreamListener.of_attempt(context, task)) for task in lost]
    return [event for task, stream in streams for event in observation(task, stream.finish())]


def _save_lost_work(context: RunContext, lost: list[TaskRow]) -> list[ev.Event]:
    return [event for task in lost for event in snapshot_saved(task, save_last_snapshot(context, task))]


def _set_torn_work_aside(
    context: RunContext, lost: list[TaskRow], unknown: list[TaskRow], sightings: dict[str, Sighting]
) -> list[ev.Event]:
    """Keep what is in the workspaces of agents that a reboot ended, and let nobody build on it.

    It may have been a power cut, and nobody synced these files: some may be empty or torn. The last snapshot is whole.
    Agents whose own record was torn are `unknown`; they start again.
    """
    context.workspaces.pool.forget_files()
    for task in lost:
        keep_set_aside(context, task, task.latest.snapshot)
    torn = {task.id: keep_torn_work(context, task) for task in (*lost, *unknown)}
    state = context.state
    ends = ((task, state.carry_or_set_aside(task, task.latest.snapshot, lost=True)) for task in lost)
    return [
        ev.AttemptLost(
            task=task.id,
            attempt=task.attempt,
            carry=carry,
            set_aside=torn[task.id] or set_aside,
            duration_s=sightings[task.id].worked_s,
        )
        for task, (carry, set_aside) in ends
    ]


def _events_if_moved(context: RunContext) -> list[Recorded]:
    """Return the run's events if its branch is not where it was left; nobody needs them otherwise. Only we may read them."""
    row = context.state.row
    moved = context.repo.read_ref(row.branch) not in ("", row.tip)
    return list(context.journal.events(context.run)) if moved else []


def _restore_branch(
    context: RunContext, sightings: dict[str, Sighting], recorded: Sequence[Recorded]
) -> Facts:
    """Gather the facts. Make the run branch if this is a new run, or if somebody deleted it."""
    row = context.state.row
    # A killed runner may have moved it a moment ago. What we conclude from it must hold after a power cut as well.
    context.repo.ref_updates.sync(row.branch)
    facts = gather_facts(context.repo, context.state, recorded, sightings)
    if not facts.branch_exists and not move_branch(context.repo, row.branch, row.tip, ""):
        facts = gather_facts(context.repo, context.state, recorded, sightings)
    if not context.launches and (facts.foreign or not facts.branch.descends_from_base):
        return as_left(context.repo, row, facts)
    require_base(row, facts)
    if facts.foreign:
        # The user may take them off the branch now, and want them back later.
        tip = facts.branch.tip
        context.repo.keep(archive_ref(context.run, f"moved-{tip[:12]}"), tip)
    require_own_branch(row, facts, context.accepted_tip)
    return facts
