"""Rebuilds a run's events from git, for when the journal was lost but the branch and the refs were not.

Only what git proves counts as done. What was never in git (failures, costs, the user's decisions) is not made up.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain

from holdfast.core import events as ev
from holdfast.core.facts import BranchFacts
from holdfast.core.plan import Plan, Stage
from holdfast.core.state import RunState
from holdfast.core.status import TASK_IS_SETTLED


def rebuild_events(
    state: RunState,
    branch: BranchFacts,
    begun: Iterable[ev.TaskRestored],
    skipped: Collection[str],
    inherited: Iterable[ev.Event] = (),
    dropped: Mapping[str, int] | None = None,
) -> list[ev.Event]:
    """Bring a run that has just begun to where git shows it to be; return the events that did it.

    `begun` says what is left of each task, `inherited` what an adopted run began with, `dropped` which attempts there were
    at tasks that amendments took out of the plan, all from git.
    """
    # Each part reads the state only after the parts before it have been applied.
    steps = chain(
        (event for event in inherited if getattr(event, "task", "") in {"", *state.tasks}),
        begun,
        _settled_tasks(state, branch, skipped),
        _tip(state, branch),
        _stages(state, {landing.task for landing in branch.landings if landing.adopted}),
        [ev.RunRestored(dropped=dict(dropped or {}))],
    )
    return state.apply_all(steps)


def passed_over(plan: Plan, branch: BranchFacts) -> dict[str, str]:
    """Return the tasks that never landed although something that builds on them did, each with one such task.

    The user skipped them, or took their landing off the branch: git cannot tell which.
    """
    landed = {landing.task for landing in branch.landings}
    here = {landing.task for landing in branch.landings if not landing.adopted}
    found: dict[str, str] = {}
    for stage, task in plan.tasks():
        if task.id in here:
            below = [t.id for other in plan.stages if other.id in stage.needs for t in other.tasks]
            found |= {name: task.id for name in (*task.needs, *below) if name not in landed}
    return found


def _settled_tasks(state: RunState, branch: BranchFacts, skipped: Collection[str]) -> Iterator[ev.Event]:
    newest = {landing.task: landing for landing in branch.landings if landing.task in state.tasks}
    for name, landing in newest.items():
        yield ev.TaskLanded(task=name, attempt=landing.attempt, commit=landing.commit, head=landing.head)
    unlanded = (name for name in dict.fromkeys(skipped) if name not in newest and name in state.tasks)
    yield from (ev.TaskSkipped(task=name) for name in unlanded)


def _tip(state: RunState, branch: BranchFacts) -> Iterator[ev.Event]:
    if branch.tip and branch.tip != state.row.tip:
        yield ev.BranchMoved(commit=branch.tip)


def _stages(state: RunState, adopted: Collection[str]) -> Iterator[ev.Event]:
    """A stage with a landing was open; one that has nothing left to do, or that others built on, was closed.

    Adopted work landed without any stage.
    """
    for stage in state.plan.stages:
        settled = [state.tasks[task.id].status in TASK_IS_SETTLED for task in stage.tasks]
        own = [done for done, task in zip(settled, stage.tasks, strict=True) if task.id not in adopted]
        built_on = _is_built_on(state, stage, adopted)
        if not (any(own) or built_on):
            continue
        yield ev.StageOpening(stage=stage.id)
        yield ev.StageOpened(stage=stage.id)
        if all(settled) and (built_on or not stage.exit):
            yield ev.StageClosing(stage=stage.id)
            yield ev.StageClosed(stage=stage.id)


def _is_built_on(state: RunState, stage: Stage, adopted: Collection[str]) -> bool:
    later = (task.id for other in state.plan.stages if stage.id in other.needs for task in other.tasks)
    return any(state.tasks[name].merge_commit for name in later if name not in adopted)
