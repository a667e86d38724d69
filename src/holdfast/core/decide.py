"""The one place where it is decided what happens next: `decide(state, now)`.

Pure: the same state and time give the same commands. Every command is made durable by its intent event, and
applying that event keeps the command from being decided again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import count, islice, takewhile

from holdfast.core import events as ev
from holdfast.core.budgets import is_over_budget, run_overrun, task_overrun
from holdfast.core.commands import (
    CheckTask,
    CloseStage,
    Command,
    LandTasks,
    OpenStage,
    RecordEvent,
    StartAttempt,
    ValidateTask,
)
from holdfast.core.projection import TaskRow
from holdfast.core.provider_limits import (
    available_agent,
    earliest_start,
    earliest_validation,
    limits_in_the_way,
    parked_validators,
    provider_of,
)
from holdfast.core.retry import decide_retry, kind_of_next_attempt
from holdfast.core.state import RunState
from holdfast.core.status import RunStatus, StageStatus, TaskStatus


def wants_session(state: RunState, task: TaskRow, agent: str) -> bool:
    """Tell whether a session is to be gone on with, if there is one: fresh is the rule, and first attempts are."""
    return task.attempt > 0 and (state.native or provider_of(state, agent).native)


def session_for(state: RunState, task: TaskRow, agent: str, workspace: int, start: str) -> tuple[str, str]:
    """Return the session that the next attempt goes on with, else an empty one and why it cannot be.

    An agent remembers files as it left them, in the folder where it left them: neither may have changed.
    """
    if not wants_session(state, task, agent):
        return "", ""
    obstacles = {
        f"{agent} cannot go on with a session": not provider_of(state, agent).resumable,
        "no session of the last attempt is known": not task.latest.session,
        f"the last attempt was {task.latest.agent}'s": task.latest.agent != agent,
        "its workspace is in use": task.latest.session_workspace != workspace,
        "its workspace has changed since": task.latest.session_commit != start,
    }
    why = next((words for words, holds in obstacles.items() if holds), "")
    return ("", why) if why else (task.latest.session, "")


_NEVER = float("inf")
LANDING_BATCH_MAX = 16
"""How many tasks may land in one move of the branch when no check has to run between them."""


def decide(state: RunState, now: float) -> list[Command]:
    """Return what to do now. `now` is the run's own clock in seconds, which no wall-clock jump moves."""
    if state.row.status is not RunStatus.RUNNING:
        return []
    if state.row.stopping:
        return [] if _in_flight(state) else [RecordEvent(_stopped(state))]
    if given_up := list(_abandonments(state)):
        return given_up  # First of all: what else may start depends on it.
    commands: list[Command] = [*_checks(state, now), *_landings(state)]
    if not state.row.pausing:
        commands += _stage_moves(state)
        commands += _attempts(state, now)
    if commands or _in_flight(state) or next_wake(state) is not None:
        return commands
    return [RecordEvent(_ending(state, now))]


def next_wake(state: RunState) -> float | None:
    """Return the time on the run's clock at which `decide` has something new to say without any event."""
    if state.row.pausing or state.row.stopping or state.row.status is not RunStatus.RUNNING:
        return None
    return min(_wakes(state), default=None)


def _wakes(state: RunState) -> Iterator[float]:
    """Yield when each task that waits, for its retry or for a provider, may start. One that is told to stop at a limit
    does not wait for it."""
    waiting = [task for task in state.failed.values() if _may_start(state, task)]
    waiting += _retryable(state)
    if state.row.parked:
        stages = (stage for stage in state.current_stages if _takes_work(state, stage))
        waiting += [task for stage in stages for task in _parked_tasks(state, stage)]
        judged = [free for task in state.unchecked.values() if (free := earliest_validation(state, task))]
        yield from (free for free in judged if _is_waited_for(state, free))
    for task in waiting:
        free = earliest_start(state, task)
        if not free or _is_waited_for(state, free):
            yield max(task.not_before, free)


def _is_waited_for(state: RunState, free: float) -> bool:
    return free < _NEVER and state.plan.limits.on_limit == "wait"


def _parked_tasks(state: RunState, stage: str) -> list[TaskRow]:
    return state.ready_tasks(stage, len(state.names), lambda task: earliest_start(state, task) > 0)


def _in_flight(state: RunState) -> bool:
    """Tell whether an effect is under way. Work that waits for its checks is at rest until they start."""
    if len(state.active) > len(state.unchecked) or state.landing:
        return True
    gates = (StageStatus.OPENING, StageStatus.CLOSING)
    return any(state.stage(stage).status in gates for stage in state.current_stages)


def _checks(state: RunState, now: float) -> Iterator[Command]:
    for task in state.unchecked.values():
        if not task.latest.checks_succeeded and state.checks_of(task.id):
            yield CheckTask(task.id, task.attempt)
        elif state.specs[task.id].validators:
            if earliest_validation(state, task) <= now:
                yield ValidateTask(task.id, task.attempt)
        else:
            yield RecordEvent(ev.TaskVerified(task=task.id, attempt=task.attempt))


def _landings(state: RunState) -> Iterator[Command]:
    """One landing at a time: the tree that lands must be the tree that was checked. Tasks without checks need
    none between them, so several of them may share one move of the branch."""
    if state.landing or not state.merge_queue:
        return
    queue = state.next_to_land(LANDING_BATCH_MAX)
    if not queue:
        return
    unchecked = list(takewhile(lambda task: not state.checks_of(task.id), queue))
    yield LandTasks(tuple((task.id, task.attempt) for task in unchecked or queue[:1]))


def _abandonments(state: RunState) -> Iterator[Command]:
    """Failed or lost too often. A lost task waits among the new ones: it is judged when it could start again."""
    waiting = (
        task for task in state.worn.values() if _is_wanted(state, task) and state.has_all_it_needs(task)
    )
    limited = (task for task in state.held.values() if task.status is TaskStatus.WAITING_LIMIT)
    for task in (*state.failed.values(), *limited, *waiting):
        give_up = decide_retry(task, state.limits_of(task.id)).give_up or task_overrun(state, task)
        if give_up:
            yield RecordEvent(ev.TaskAbandoned(task=task.id, error=give_up))


def _stage_moves(state: RunState) -> Iterator[Command]:
    for name in state.current_stages:
        status = state.stage(name).status
        if status is StageStatus.PENDING:
            yield OpenStage(name)
        elif status is StageStatus.RUNNING and state.unsettled[name] == 0:
            yield CloseStage(name)


def _attempts(state: RunState, now: float) -> Iterator[Command]:
    """Fill the free workspaces: first with what failed and may be mended, then with new tasks in plan order."""
    used = {task.latest.workspace_number for task in state.active.values()}
    for task in islice(_candidates(state, now), max(0, state.jobs - len(state.active))):
        agent = available_agent(state, task, now) or ""
        workspace = _workspace(state, task, agent, used)
        start = task.carry or state.row.tip
        session, why = session_for(state, task, agent, workspace, start)
        used.add(workspace)
        yield StartAttempt(
            task=task.id,
            attempt=task.attempt + 1,
            workspace_number=workspace,
            start=start,
            attempt_kind=kind_of_next_attempt(task),
            agent=agent,
            provider=provider_of(state, agent).provider,
            session=session,
            fresh_because=why,
        )


def _workspace(state: RunState, task: TaskRow, agent: str, used: Collection[int]) -> int:
    """Return the lowest free workspace; for an agent that goes on with its session, the one that it knows, if free."""
    known = task.latest.session_workspace
    if wants_session(state, task, agent) and known >= 0 and known not in used:
        return known
    return next(number for number in count() if number not in used)


def _candidates(state: RunState, now: float) -> Iterator[TaskRow]:
    """Yield what may start now. Whose provider is parked, and who has no other agent, keeps its place."""

    def has_agent(task: TaskRow) -> bool:
        return available_agent(state, task, now) is not None

    for task in state.failed.values():
        if task.not_before <= now and has_agent(task) and _may_start(state, task):
            yield task
    yield from filter(has_agent, _retryable(state))
    may = has_agent if state.row.parked else None
    for stage in state.current_stages:
        if _takes_work(state, stage):
            yield from state.ready_tasks(stage, state.jobs, may)


def _retryable(state: RunState) -> list[TaskRow]:
    """Return the tasks that wait for a limit, and those that needed a person before somebody resumed the run."""
    return [
        task
        for task in state.held.values()
        if (task.status is TaskStatus.WAITING_LIMIT or task.blocked_in < state.row.epoch)
        and _may_start(state, task)
    ]


def _is_wanted(state: RunState, task: TaskRow) -> bool:
    return state.only is None or task.id in state.only


def _may_start(state: RunState, task: TaskRow) -> bool:
    return (
        _is_wanted(state, task)
        and state.has_all_it_needs(task)
        and _takes_work(state, state.stage_of[task.id])
        and not decide_retry(task, state.limits_of(task.id)).give_up
    )


def _takes_work(state: RunState, stage: str) -> bool:
    """An abandoned task stops its stage: what is under way may finish, nothing new starts in it."""
    if state.stage(stage).status is not StageStatus.RUNNING or is_over_budget(state):
        return False
    return state.abandoned[stage] == 0 or state.plan.limits.keep_going


def _stopped(state: RunState) -> ev.Event:
    if state.row.reason:
        return ev.RunBlocked(reason=state.row.reason)
    return ev.RunPaused() if state.row.pausing else ev.RunStopped()


def _ending(state: RunState, now: float) -> ev.Event:
    if not state.current_stages:
        return ev.RunCompleted()
    if state.row.pausing or _did_what_was_chosen(state):
        return ev.RunPaused()
    return ev.RunBlocked(reason=_why_blocked(state, now))


def _did_what_was_chosen(state: RunState) -> bool:
    """Tell whether only some tasks were to be worked on, and none of them was given up."""
    chosen = state.only
    return chosen is not None and not any(state.tasks[name].status is TaskStatus.ABANDONED for name in chosen)


def _why_blocked(state: RunState, now: float) -> str:
    spent = run_overrun(state)
    reasons = [f"{spent} (`resume --cost-usd` or `--tokens` raises it)"] if spent else []
    reasons += _what_is_waited_for(state, now)
    for name in state.current_stages:
        stage = state.stage(name)
        if stage.status is StageStatus.BLOCKED:
            reasons.append(f"the {stage.gate} check of stage {name} failed: {stage.error}")
        elif state.abandoned[name]:
            given_up = [
                t.id for t in state.stages[name].tasks if state.tasks[t.id].status is TaskStatus.ABANDONED
            ]
            reasons.append(f"stage {name} stopped: {', '.join(given_up)} abandoned")
    return "; ".join(reasons) or "no task can start"


def _what_is_waited_for(state: RunState, now: float) -> list[str]:
    """Return the limits and refusals of providers, and what single tasks need from a person."""
    waiting = [*state.failed.values(), *state.held.values()]
    waiting += [task for stage in state.current_stages for task in _parked_tasks(state, stage)]
    in_the_way = [parked for task in waiting for parked in limits_in_the_way(state, task, now)]
    in_the_way += [one for task in state.unchecked.values() for one in parked_validators(state, task, now)]
    words = dict.fromkeys(parked.words for parked in in_the_way)
    asked = [
        f"{task.id}: {task.error}"
        for task in state.held.values()
        if task.status is TaskStatus.BLOCKED and not limits_in_the_way(state, task, now)
    ]
    return [*words, *asked]
