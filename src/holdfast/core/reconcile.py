"""What recovery concludes from the evidence: the journal's state against what git and the process table show.

Pure. Idempotent: once the events are applied, reconciling again yields nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.core import events as ev
from holdfast.core.facts import BranchFacts, Facts, Presence
from holdfast.core.people import is_being_handed_over
from holdfast.core.projection import TaskRow
from holdfast.core.provider_limits import shorten_waits
from holdfast.core.state import RunState
from holdfast.core.status import StageStatus, TaskStatus


def reconcile(state: RunState, facts: Facts) -> list[ev.Event]:
    """Return the events that bring the state in line with the facts. Git overrides the journal."""
    return [
        *_branch_changes(state, facts),
        *_tasks_in_flight(state, facts),
        *_gates_in_flight(state),
        *shorten_waits(state, facts.wall),
    ]


def vanished(state: RunState, branch: BranchFacts) -> list[TaskRow]:
    """Return the tasks that are recorded as landed but whose recorded merge is not on the branch."""
    proved = {landing.commit for landing in branch.landings}
    return [
        task
        for task in state.tasks.values()
        if task.status is TaskStatus.COMPLETED and task.merge_commit not in proved
    ]


def _branch_changes(state: RunState, facts: Facts) -> Iterator[ev.Event]:
    """Yield what became of recorded landings, the landings that the journal lacks, and where the branch is now.

    A landing also counts as lacking if its recorded commit is neither there nor proved.
    """
    gone = vanished(state, facts.branch)
    for task in gone:
        same = facts.equivalents.get(task.id)
        if same is None:
            _, set_aside = state.carry_or_set_aside(task, task.latest.head)
            yield ev.LandingVanished(task=task.id, commit=task.merge_commit, set_aside=set_aside)
        elif same.commit != task.replaced:
            yield ev.LandingReplaced(task=task.id, commit=same.commit, proof=same.proof)
    lacking = {task.id for task in gone} - facts.equivalents.keys()
    lacking |= {name for name, task in state.tasks.items() if task.status is not TaskStatus.COMPLETED}
    tip = state.row.tip
    for landing in facts.branch.landings:
        if landing.task in lacking:
            tip = landing.commit
            if tip in facts.foreign:
                # The user takes the branch as it is, and with it a merge that the journal never announced, or has lost.
                yield ev.BranchMoved(commit=tip)
            yield ev.TaskLanded(task=landing.task, attempt=landing.attempt, commit=tip, head=landing.head)
    # The branch may be ahead of the last landing (somebody committed on it) or behind (somebody reset it).
    if facts.branch.tip and facts.branch.tip != tip:
        yield ev.BranchMoved(commit=facts.branch.tip)


def _tasks_in_flight(state: RunState, facts: Facts) -> Iterator[ev.Event]:
    landed = {landing.task for landing in facts.branch.landings}
    handed_over = [task for task in state.on_hold.values() if is_being_handed_over(task)]
    waiting = [*state.awaiting_restart.values(), *handed_over]
    for task in [*state.active.values(), *state.landing.values(), *waiting]:
        if task.id not in landed:
            yield from _task_in_flight(state, task, facts)


def _task_in_flight(state: RunState, task: TaskRow, facts: Facts) -> Iterator[ev.Event]:
    if is_being_handed_over(task):
        # Nobody was told of the workspace yet: it is made again.
        yield ev.HandOverInterrupted(task=task.id)
    elif task.status is TaskStatus.MERGING:
        yield ev.LandingInterrupted(task=task.id, attempt=task.attempt)
    elif task.status is not TaskStatus.RUNNING and task.latest.head in facts.missing_commits:
        yield ev.AttemptLost(task=task.id, attempt=task.attempt)
    elif task.status is TaskStatus.VERIFYING and task.latest.checking:
        yield ev.ChecksInterrupted(task=task.id, attempt=task.attempt)
    elif task.status is TaskStatus.RUNNING and facts.sightings[task.id].presence is Presence.LOST:
        carry, set_aside = state.carry_or_set_aside(task, task.latest.snapshot, lost=True)
        yield ev.AttemptLost(
            task=task.id,
            attempt=task.attempt,
            carry=carry,
            set_aside=set_aside,
            duration_s=facts.sightings[task.id].worked_s,
        )


def _gates_in_flight(state: RunState) -> Iterator[ev.Event]:
    """A gate that was being checked, or that failed before, is checked again."""
    for name, stage in state.row.stages.items():
        if stage.status is StageStatus.OPENING:
            yield ev.StageGateReset(stage=name, gate="entry")
        elif stage.status is StageStatus.CLOSING:
            yield ev.StageGateReset(stage=name, gate="exit")
        elif stage.status is StageStatus.BLOCKED:
            yield ev.StageGateReset(stage=name, gate=stage.gate)
