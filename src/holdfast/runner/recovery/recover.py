"""Taking a run over: clear what the dead left, look at git and the processes, and bring the journal in line.

Everything here may be killed and repeated: it only removes debris, saves work, and appends what the facts say.
"""

from __future__ import annotations

import asyncio
import time

from holdfast.core import events as ev
from holdfast.core.event_codec import encode_event
from holdfast.core.facts import Facts, Presence, Sighting
from holdfast.core.observations import StreamSummary
from holdfast.core.plan import encode_plan
from holdfast.core.projection import TaskRow
from holdfast.core.reconcile import reconcile
from holdfast.core.status import TaskStatus
from holdfast.errors import RepositoryError
from holdfast.repo.debris import clear_debris
from holdfast.repo.landing import branch_facts, move_branch
from holdfast.repo.run_record import keep_record
from holdfast.runner.attempts.snapshots import save_last_snapshot
from holdfast.runner.attempts.stream_listener import StreamListener, observation
from holdfast.runner.context import RunContext
from holdfast.runner.recovery.facts import equivalents


async def recover(context: RunContext) -> list[ev.Event]:
    """Return the events that describe what the run really looks like now. Nothing of it is running twice."""
    running = [task for task in context.state.active.values() if task.status is TaskStatus.RUNNING]
    sightings = {task.id: context.fleet.inspect(context.agent_key(task)) for task in running}
    alive = [task for task in running if sightings[task.id].presence is Presence.ALIVE]
    ended = frozenset(task.latest.token for task in running if task not in alive)
    await context.fleet.sweep(context.run, frozenset(context.agent_key(task) for task in alive), ended)
    reported = [*_reports(context, running, sightings), *_heard(context, running, sightings)]
    in_use = frozenset(str(task.latest.workspace_number) for task in alive)
    await asyncio.to_thread(clear_debris, context.repo, context.workspaces.pool, in_use)
    saved = await asyncio.to_thread(_save_lost_work, context, running, sightings)
    await _keep_plan(context)
    facts = await asyncio.to_thread(_gather, context, sightings)
    _apply(context, reported + saved)
    concluded = [*reconcile(context.state, facts), *_adopted(sightings)]
    _apply(context, concluded)
    return reported + saved + concluded


async def _keep_plan(context: RunContext) -> None:
    """Make sure that git knows the plan too: whoever created the run may have been killed before that."""
    started = next(iter(context.journal.events(context.run, upto=1))).event
    plan = encode_plan(context.state.plan)
    await asyncio.to_thread(keep_record, context.repo, context.run, plan, encode_event(started))


def _apply(context: RunContext, events: list[ev.Event]) -> None:
    for event in events:
        context.state.apply(event)


def _adopted(sightings: dict[str, Sighting]) -> list[ev.Event]:
    """Say which agents of the runner before us are carried on with."""
    working = tuple(name for name, sighting in sightings.items() if sighting.presence is Presence.ALIVE)
    finished = tuple(name for name, sighting in sightings.items() if sighting.presence is Presence.ENDED)
    return [ev.AgentsReattached(working=working, finished=finished)] if working or finished else []


def _reports(context: RunContext, running: list[TaskRow], sightings: dict[str, Sighting]) -> list[ev.Event]:
    """Return what agents reported while nobody listened. Where none was started, the workspace is not theirs yet."""
    started = [task for task in running if sightings[task.id].presence is not Presence.UNKNOWN]
    return [event for task in started for event in context.reports.of(task, context.workspaces.path(task))]


def _heard(context: RunContext, running: list[TaskRow], sightings: dict[str, Sighting]) -> list[ev.Event]:
    """Return what the streams of lost agents told last; those of the others are listened to when they are carried on."""
    lost = [task for task in running if sightings[task.id].presence is Presence.LOST]
    return [event for task in lost for event in observation(task, _heard_last(context, task))]


def _heard_last(context: RunContext, task: TaskRow) -> StreamSummary:
    return StreamListener.of_attempt(context, task).finish(context.fleet, context.agent_key(task))


def _save_lost_work(
    context: RunContext, running: list[TaskRow], sightings: dict[str, Sighting]
) -> list[ev.Event]:
    saved: list[ev.Event] = []
    for task in running:
        if sightings[task.id].presence is not Presence.LOST:
            continue
        commit = save_last_snapshot(context, task)
        if commit and commit != task.latest.snapshot:
            saved.append(ev.SnapshotSaved(task=task.id, attempt=task.attempt, commit=commit))
    return saved


def _gather(context: RunContext, sightings: dict[str, Sighting]) -> Facts:
    row = context.state.row
    branch = branch_facts(context.repo, row.branch, row.base, context.run)
    if not branch.tip:
        # A new run, or somebody deleted the branch: every landing we know of is below the recorded tip.
        move_branch(context.repo, row.branch, row.tip, "")
        branch = branch_facts(context.repo, row.branch, row.base, context.run)
    if not branch.descends_from_base:
        name = row.branch.removeprefix("refs/heads/")
        raise RepositoryError(
            f"branch {name} no longer descends from {row.base[:12]}, where the run began",
            f"Put it back with `git update-ref {row.branch} {row.tip}` and resume.",
        )
    heads = [task.latest.head for task in context.state.active.values() if task.latest.head]
    return Facts(
        branch=branch,
        sightings=sightings,
        equivalents=equivalents(context.repo, context.state, branch),
        missing_commits=context.repo.missing(heads),
        wall=time.time(),
    )
