"""What an amendment of the plan changes in the rows of tasks and stages that stay in it.

What landed, or is being merged, stands. Work under way goes on, and is judged by the new checks. Work that failed only on
checks which are gone is verified again, not done again. What becomes of the plan itself is in `amendment.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto

from msgspec.structs import replace

from holdfast.core import people
from holdfast.core.plan import AgentSpec, Limits, Plan, Task, Validator
from holdfast.core.projection import Failure, RunRow, StageRow, TaskRow
from holdfast.core.retry import losses_allowed, reason_to_give_up
from holdfast.core.status import FailureKind, StageStatus, TaskStatus
from holdfast.core.task_transitions import IllegalEventError, forgive_all

STANDS = (TaskStatus.COMPLETED, TaskStatus.MERGING)
"""A task that landed, or is being merged, keeps what it was: nothing of it can be changed any more."""
UNDER_WAY = (TaskStatus.RUNNING, TaskStatus.VERIFYING, TaskStatus.VERIFIED)
"""A task in one of these is not dropped: an agent or a check works on it, or it lands next."""
_ON_CHECKS = (FailureKind.CHECK, FailureKind.MERGED_CHECK)
_FAILED = (TaskStatus.FAILED, TaskStatus.ABANDONED)


class RestChange(Enum):
    """What an amendment changes about a task at which nothing works."""

    NOTHING = auto()
    CHECK_AGAIN = auto()
    BEGIN_AGAIN = auto()
    GET_ATTEMPTS = auto()


@dataclass(frozen=True, slots=True)
class Terms:
    """On which terms a task is done and judged: what is asked of it, with whom and within which bounds, and by what it is judged."""

    asked: Task
    assignment: tuple[Task, str, AgentSpec | None]
    checks: tuple[str, ...]
    validation: tuple[tuple[Validator, ...], float]
    validators: Mapping[str, tuple[Validator, str]]
    limits: Limits


def terms_of(plan: Plan, task: Task) -> Terms:
    """Return on which terms a plan has a task done and judged. Titles, needs and points are part of neither."""
    agent = plan.agent_of(task)
    work = replace(
        task,
        title="",
        needs=(),
        needs_interface=(),
        points=(),
        verify=(),
        slot="",
        validators=(),
        gate=0.0,
    )
    attempts = plan.limits.attempts if task.attempts is None else task.attempts
    asked = replace(
        work, agent="", resume=None, attempts=None, timeout_s=None, stall_s=None, cost_usd=None, tokens=None
    )
    return Terms(
        asked=asked,
        assignment=(work, agent, plan.agents.get(agent)),
        checks=plan.verify + task.verify,
        validation=(task.validators, task.gate),
        validators={one.id: (one, plan.agent_of(one)) for one in task.validators},
        limits=replace(plan.limits, attempts=attempts),
    )


def require_amendable(tasks: Mapping[str, TaskRow], plan: Plan) -> list[TaskRow]:
    """Return the rows of the tasks that a plan drops. Raises IllegalEventError if one of them cannot be dropped."""
    names = {task.id for _, task in plan.tasks()}
    dropped = [row for name, row in tasks.items() if name not in names]
    for row in dropped:
        if row.status in (*STANDS, *UNDER_WAY) or row.taken is not None:
            standing = row.status if row.taken is None else "taken by you"
            raise IllegalEventError(f"PlanAmended: task {row.id} is {standing}")
    return dropped


def amend_task(task: TaskRow, before: Terms, now: Terms, *, restart: bool) -> None:
    """Change the row of a task that stays in the plan on other terms."""
    # Whoever took a task works on it as it is; what is given is judged on the new terms.
    if task.status not in (*STANDS, TaskStatus.SKIPPED) and task.taken is None:
        _judge_anew(task, before, now, restart=restart)
    # Failures above a lower limit are as many as the limit: none is left. What is under way, or goes on once a person
    # helped, may still fail.
    room = task.recheck or task.status in (*UNDER_WAY, TaskStatus.MERGING, TaskStatus.BLOCKED)
    task.charged = min(task.charged, now.limits.attempts - room)
    task.crash_count = min(task.crash_count, losses_allowed(now.limits) - room)


def _judge_anew(task: TaskRow, before: Terms, now: Terms, *, restart: bool) -> None:
    if task.status is TaskStatus.RUNNING:
        task.latest.restart = task.latest.restart or restart
        task.latest.outdated = is_outdated(task, before, now)
    if not task.latest.checking:
        _forget_judgements(task, before, now)
    change = change_at_rest(task, before, now)
    if change is RestChange.BEGIN_AGAIN:
        _begin_again(task)
    elif change is RestChange.CHECK_AGAIN and not task.recheck:
        _forgive_checks(task, before, now)
    elif change is not RestChange.NOTHING:
        task.status, task.error = TaskStatus.PENDING, ""


def change_at_rest(task: TaskRow, before: Terms, now: Terms) -> RestChange:
    """Return what other terms change about a task at which nothing works; nothing for any other."""
    if task.recheck and before.asked != now.asked:
        return RestChange.BEGIN_AGAIN
    if task.recheck:
        return RestChange.CHECK_AGAIN if is_judged_anew(before, now) else RestChange.NOTHING
    if task.status in _FAILED and _waits_for_other_checks(task, before, now):
        return RestChange.CHECK_AGAIN
    if task.status in (TaskStatus.ABANDONED, TaskStatus.BLOCKED) and before.assignment != now.assignment:
        return RestChange.BEGIN_AGAIN
    if task.status is TaskStatus.ABANDONED and _has_more_attempts(task, before, now):
        return RestChange.GET_ATTEMPTS
    return RestChange.NOTHING


def is_outdated(task: TaskRow, before: Terms, now: Terms) -> bool:
    """Tell whether something else is asked, or of somebody else, than the agent at work was asked; also since an earlier amendment."""
    return task.latest.outdated or before.assignment != now.assignment


def is_judged_anew(before: Terms, now: Terms) -> bool:
    """Tell whether finished work is to hold against something else than before."""
    return (before.checks, before.validation) != (now.checks, now.validation)


def _waits_for_other_checks(task: TaskRow, before: Terms, now: Terms) -> bool:
    """Tell whether the latest attempt finished what is still asked, and failed only on what it is not judged by any more."""
    last = task.failures[-1] if task.failures else None
    if last is None or last.attempt != task.attempt or not task.latest.head or before.asked != now.asked:
        return False
    return _is_moot(last, before, now)


def _has_more_attempts(task: TaskRow, before: Terms, now: Terms) -> bool:
    """Tell whether a task that was abandoned has an attempt left because the limit was raised."""
    return now.limits.attempts > before.limits.attempts and not reason_to_give_up(task, now.limits)


def _is_moot(failure: Failure, before: Terms, now: Terms) -> bool:
    """Tell whether a failure says nothing any more: its check is gone, or its validation is another one."""
    if failure.kind in _ON_CHECKS:
        return failure.check in before.checks and failure.check not in now.checks
    return failure.kind is FailureKind.VALIDATION and before.validation != now.validation


def _forget_judgements(task: TaskRow, before: Terms, now: Terms) -> None:
    """Forget that checks held which are other ones now, and the scores of validators that are."""
    task.latest.checks_succeeded = task.latest.checks_succeeded and before.checks == now.checks
    task.latest.scores = {
        name: score
        for name, score in task.latest.scores.items()
        if before.validators.get(name) == now.validators.get(name)
    }


def _forgive_checks(task: TaskRow, before: Terms, now: Terms) -> None:
    recent = task.failures[task.forgiven :]
    task.charged = max(0, task.charged - sum(_is_moot(failure, before, now) for failure in recent))
    task.status, task.recheck, task.error = TaskStatus.PENDING, True, ""


def _begin_again(task: TaskRow) -> None:
    """Another assignment has all its attempts. Work that waits is of the old one: the next attempt continues from it."""
    task.carry = task.latest.head if task.recheck else task.carry
    task.status, task.recheck = TaskStatus.PENDING, False
    people.close_questions(task)
    forgive_all(task)


def amend_stages(run: RunRow, before: Plan, now: Plan) -> None:
    """Give each stage of the plan its row. A gate that failed and has other commands now is checked again."""
    gates = {stage.id: (stage.entry, stage.exit) for stage in before.stages}
    run.stages = {stage.id: run.stages.get(stage.id) or StageRow(id=stage.id) for stage in now.stages}
    for stage in now.stages:
        row = run.stages[stage.id]
        if row.status is not StageStatus.BLOCKED or stage.id not in gates:
            continue
        changed = {"entry": gates[stage.id][0] != stage.entry, "exit": gates[stage.id][1] != stage.exit}
        if changed[row.gate]:
            row.status = StageStatus.PENDING if row.gate == "entry" else StageStatus.RUNNING
            row.error = row.detail = ""
