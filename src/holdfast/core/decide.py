"""The one place that decides what happens next: `decide(state, now)`.

Pure: the same state and time give the same commands. Each command has an intent event (see `commands.py`); once that is
applied, the command is not decided again.

Theory of operation
-------------------
The queues, kept by `RunState` and never stored:

    ready            pending tasks whose needs have landed, per stage, in plan order
    failed           tasks whose attempt failed; `not_before` says when the next one may start
    on_hold          tasks that wait for a provider's limit, or for a person: with an open question, or taken by one
    tried_before     pending tasks that failed, crashed or spent something before: they may have used up their attempts or budget
    awaiting_restart finished work that waits to be verified again: for a person, or for a workspace
    awaiting_checks  work whose checks, or validators, have not started
    merge_queue      verified tasks, in the order in which they were verified
    landing          the tasks that are being merged: one landing at a time

Priority, from first to last:

    1. A run that is stopping starts nothing. It rests when nothing is in flight.
    2. Tasks without an attempt left are abandoned: that may stop their stage.
    3. Finished work moves on: checks, validators, the next landing. Who took a task gets a workspace.
    4. The check of the base, if the run wants one and no task has begun: nothing else starts before it.
       Then gates of stages. A run that is pausing stops here.
    5. Free workspaces get finished work that may be verified again, then an attempt: what people gave first, then failed
       tasks, then those on hold, then new ones in plan order.
    6. With nothing to do, nothing in flight and nothing to wait for, the run ends: completed, paused or blocked.

Who wakes whom: every event that the loop applies makes it ask again, so a landing wakes the tasks that need it, and an
ended attempt the one that gets its workspace. Only time comes without an event: `next_wake` says when the first retry
delay or provider limit is over. A task on hold for a person waits until a runner attaches again; one with an open question,
or that a person has, until the answer or the work arrives.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import count, islice, takewhile

from holdfast.core import events as ev
from holdfast.core.base_check import base_moves, base_obstacle, is_base_in_the_way
from holdfast.core.budgets import raising_command, run_overrun, task_overrun
from holdfast.core.commands import (
    CheckTask,
    CloseStage,
    Command,
    HandOver,
    LandTasks,
    OpenStage,
    RecordEvent,
    StartAttempt,
    ValidateTask,
)
from holdfast.core.native_resume import session_for, session_spending, wants_session
from holdfast.core.people import (
    PERSON,
    is_being_handed_over,
    needed_from_person,
    start_by_hand,
    waits_for_person,
)
from holdfast.core.projection import Spent, Taken, TaskRow
from holdfast.core.provider_limits import (
    NEVER,
    available_agent,
    awaited_start,
    awaited_validation,
    earliest_start,
    earliest_validation,
    is_any_parked,
    is_probe_due,
    limits_in_the_way,
    parked_validators,
    provider_of,
    validating_providers,
)
from holdfast.core.retry import kind_of_next_attempt, reason_to_give_up
from holdfast.core.state import RunState
from holdfast.core.status import AttemptKind, BaseStatus, FailureKind, RunStatus, StageStatus, TaskStatus

LANDING_BATCH_MAX = 16
"""How many tasks may land in one move of the branch when no check has to run between them."""

NOTHING_STARTS = "no task can start"


def decide(state: RunState, now: float) -> list[Command]:
    """Return what to do now. `now` is the run's own clock in seconds, which no wall-clock jump moves."""
    if state.row.status is not RunStatus.RUNNING:
        return []
    if state.row.stopping:
        return [] if _in_flight(state) else [RecordEvent(_stopped(state))]
    if abandoned := list(_abandonments(state)):
        return abandoned
    probed = set[str]()
    commands: list[Command] = [*_checks(state, now, probed), *_landings(state), *_hand_overs(state)]
    if not state.row.pausing and is_base_in_the_way(state):
        commands += base_moves(state)
    elif not state.row.pausing:
        commands += _stage_moves(state)
        commands += _attempts(state, now, probed)
    if commands or _in_flight(state) or next_wake(state, now) is not None:
        return commands
    return [RecordEvent(_ending(state, now))]


def leads_on(commands: Sequence[Command]) -> bool:
    """Tell whether `decide` may return more once the intents of these commands are applied.

    A decision without an effect leads to another one. So does a hand-over: work that waited for its checks, and held others
    back, is the person's then. So does a probe: it takes the place of tasks that now wait for it. Other effects lead on by their
    results, which are events.
    """
    return any(type(one) in (RecordEvent, HandOver) or getattr(one, "probes", False) for one in commands)


def next_wake(state: RunState, now: float) -> float | None:
    """Return the time on the run's clock, after `now`, at which `decide` may return something new without an event.

    What is due already waits for a workspace, not for the clock.
    """
    if state.row.pausing or state.row.stopping or state.row.status is not RunStatus.RUNNING:
        return None
    return min((wake for wake in _wakes(state) if wake > now), default=None)


def _wakes(state: RunState) -> Iterator[float]:
    """Yield when each waiting task may start, if it will by itself."""
    starts = () if check_is_unrunnable(state) else _failed(state)
    for task in starts:
        free = awaited_start(state, task)
        if free < NEVER:
            yield max(task.not_before, free)
    for task in state.awaiting_checks.values():
        free = awaited_validation(state, task)
        if free < NEVER:
            yield max(task.latest.validate_at, free)
    if not is_any_parked(state):
        return  # Only the clock and the end of a limit come without an event.
    working = [stage for stage in state.current_stages if _takes_work(state, stage)]
    new = [] if check_is_unrunnable(state) else [*_retryable(state), *_parked_tasks(state, working)]
    for task in new:
        free = awaited_start(state, task)
        if free < NEVER:
            yield free


def _parked_tasks(state: RunState, stages: Iterable[str]) -> list[TaskRow]:
    """Return the new tasks that only a provider's limit keeps from starting."""
    if not is_any_parked(state):
        return []
    return [
        task
        for stage in stages
        for task in state.ready_tasks(stage, len(state.names), lambda task: earliest_start(state, task) > 0)
    ]


def _in_flight(state: RunState) -> bool:
    """Tell whether an effect is under way. Work that waits for its checks is at rest until they start."""
    if len(state.active) > len(state.awaiting_checks) or state.landing:
        return True
    if state.row.base_check.status is BaseStatus.RUNNING:
        return True
    if any(is_being_handed_over(task) for task in state.on_hold.values()):
        return True
    gates = (StageStatus.OPENING, StageStatus.CLOSING)
    # All stages: one that is not current any more, because a stage below it was reopened, may still be checked.
    return any(stage.status in gates for stage in state.row.stages.values())


# -- Finished work ------------------------------------------------------------------------------------------


def _checks(state: RunState, now: float, probed: set[str]) -> Iterator[Command]:
    for task in state.awaiting_checks.values():
        if not task.latest.checks_succeeded and state.checks_of(task.id):
            yield CheckTask(task.id, task.attempt)
        elif state.specs[task.id].validators:
            if max(task.latest.validate_at, earliest_validation(state, task)) <= now:
                yield from _validation(state, task, probed)
        else:
            yield RecordEvent(ev.TaskVerified(task=task.id, attempt=task.attempt))


def _validation(state: RunState, task: TaskRow, probed: set[str]) -> Iterator[Command]:
    """Let validators start, unless another one finds out just now whether a provider of theirs works again."""
    asked = {name for name in validating_providers(state, task) if is_probe_due(state, name)}
    if asked.isdisjoint(probed):
        probed |= asked
        yield ValidateTask(task.id, task.attempt, probes=bool(asked))


def _landings(state: RunState) -> Iterator[Command]:
    """One landing at a time: the tree that lands must be the tree that was checked. Tasks without checks need
    none between them, so several of them may share one move of the branch."""
    if state.landing or not state.merge_queue:
        return
    queue = state.next_to_land(LANDING_BATCH_MAX)
    if queue:
        without_checks = list(takewhile(lambda task: not state.checks_of(task.id), queue))
        yield LandTasks(tuple((task.id, task.attempt) for task in without_checks or queue[:1]))


def _hand_overs(state: RunState) -> Iterator[Command]:
    """Whoever took a task gets the work so far, once its agent has ended."""
    for task in state.on_hold.values():
        if task.taken is not None and not task.taken.start:
            yield HandOver(task.id, start_by_hand(state.row, task))


def _abandonments(state: RunState) -> Iterator[Command]:
    """A pending task is judged only once it could start again: until then it may be skipped or reset."""
    if not (state.failed or state.on_hold or state.tried_before):
        return
    pending = [
        task for task in state.tried_before.values() if _is_selected(state, task) and state.needs_met(task)
    ]
    limited = [task for task in state.on_hold.values() if task.status is TaskStatus.WAITING_LIMIT]
    for task in (*state.failed.values(), *limited, *pending):
        spent = task_overrun(state, task)
        give_up = reason_to_give_up(task, state.limits_of(task.id)) or (spent.message if spent else "")
        if give_up:
            yield RecordEvent(ev.TaskAbandoned(task=task.id, error=give_up))


def _stage_moves(state: RunState) -> Iterator[Command]:
    for name in state.current_stages:
        status = state.stage(name).status
        if status is StageStatus.PENDING:
            yield OpenStage(name)
        elif status is StageStatus.RUNNING and state.unsettled[name] == 0:
            yield CloseStage(name)


# -- New attempts -------------------------------------------------------------------------------------------


def _attempts(state: RunState, now: float, probed: set[str]) -> Iterator[Command]:
    """Fill the free workspaces. A provider that is tried again gets one agent: a probe."""
    free = state.jobs - len(state.active)
    if free <= 0:
        return
    used = {task.latest.workspace_number for task in state.active.values()}
    for task in islice(_verifiable_again(state), free):
        number = _free_workspace(used)
        used.add(number)
        free -= 1
        yield RecordEvent(
            ev.VerificationRestarted(task=task.id, attempt=task.attempt, workspace_number=number)
        )
    for task in islice(_candidates(state, now, probed), free):
        if task.taken is not None:
            workspace = _workspace(state, task, "", used)
            used.add(workspace)
            yield _given_attempt(task, task.taken, workspace)
            continue
        agent = available_agent(state, task, now, probed) or ""
        known = provider_of(state, agent)
        provider = known.provider
        probes = is_probe_due(state, provider)
        if probes:
            probed.add(provider)
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
            provider=provider,
            session=session,
            fresh_because=why,
            probes=probes,
            session_before=session_spending(task) if session else Spent(),
            closing_line=known.closing_line,
        )


def _given_attempt(task: TaskRow, taken: Taken, workspace: int) -> Command:
    """Return the attempt that takes in what a person made. The numbered workspace is for its checks."""
    return StartAttempt(
        task=task.id,
        attempt=task.attempt + 1,
        workspace_number=workspace,
        start=taken.start,
        attempt_kind=AttemptKind.PERSON,
        agent=PERSON,
    )


def _workspace(state: RunState, task: TaskRow, agent: str, used: Collection[int]) -> int:
    """Return the lowest free workspace; for an agent that resumes its session, the one that it knows, if free."""
    known = task.latest.session_workspace
    if wants_session(state, task, agent) and known >= 0 and known not in used:
        return known
    return _free_workspace(used)


def _free_workspace(used: Collection[int]) -> int:
    return next(number for number in count() if number not in used)


def _verifiable_again(state: RunState) -> list[TaskRow]:
    """Return the tasks whose finished work waited, and may be verified again: since then somebody retried them or resumed the run.

    That is no new work: neither a spent budget nor an abandoned task of their stage holds them back. What a person took, and
    has not been handed over yet, is that person's; what a person gave anew takes its place.
    """
    return [
        task
        for task in state.awaiting_restart.values()
        if (task.taken is None or (task.taken.ready and not task.taken.given))
        and (task.status is TaskStatus.PENDING or task.blocked_in < state.row.epoch)
        and _is_selected(state, task)
        and state.is_startable(task)
    ]


def check_is_unrunnable(state: RunState) -> bool:
    """Tell whether a check could not be executed, and has not held since: until then no other agent is paid for work that
    nobody can check. What is under way may finish."""
    waiting = [*state.awaiting_restart.values(), *state.active.values()]
    return any(_is_selected(state, task) and _check_was_unrunnable(task) for task in waiting)


def _check_was_unrunnable(task: TaskRow) -> bool:
    """Tell whether the last that is known of a task's present attempt is that its check could not be executed."""
    last = task.failures[-1] if task.failures else None
    return last is not None and last.kind is FailureKind.UNRUNNABLE and last.attempt == task.attempt


def _candidates(state: RunState, now: float, probed: set[str]) -> Iterator[TaskRow]:
    """Yield what may start now. A task whose providers are all parked, or get their probe just now, keeps its place.

    A check that cannot be executed holds agents back, who are paid; what a person gave anew may be just what it waits for.
    """

    def has_agent(task: TaskRow) -> bool:
        return available_agent(state, task, now, probed) is not None

    if state.on_hold:
        yield from (task for task in state.on_hold.values() if _is_given(state, task))
    if check_is_unrunnable(state):
        return
    if state.failed:
        yield from (task for task in _failed(state) if task.not_before <= now and has_agent(task))
    if state.on_hold:
        yield from filter(has_agent, _retryable(state))
    for stage in state.current_stages:
        if state.ready[stage] and _takes_work(state, stage):
            found = state.ready_tasks(stage, state.jobs, has_agent if is_any_parked(state) else None)
            # What was found first may have become the probe that the others wait for.
            yield from (task for task in found if not probed or has_agent(task))


def _failed(state: RunState) -> Iterator[TaskRow]:
    return (task for task in state.failed.values() if _may_start(state, task))


def _retryable(state: RunState) -> list[TaskRow]:
    """Return the tasks that wait for a limit, and those that needed a person before somebody resumed the run."""
    return [
        task
        for task in state.on_hold.values()
        if (task.status is TaskStatus.WAITING_LIMIT or task.blocked_in < state.row.epoch)
        and not task.recheck
        and task.taken is None
        and not waits_for_person(task)
        and _may_start(state, task)
    ]


def _is_given(state: RunState, task: TaskRow) -> bool:
    """Tell whether a person's work can be taken in now. That costs nothing, so no budget is in its way."""
    given = task.taken is not None and bool(task.taken.given)
    return given and _is_selected(state, task) and state.is_startable(task)


def _is_selected(state: RunState, task: TaskRow) -> bool:
    return state.selected is None or task.id in state.selected


def _may_start(state: RunState, task: TaskRow) -> bool:
    """Tell whether a task may be tried again. Those without an attempt left have been abandoned before this is asked."""
    return _is_selected(state, task) and state.needs_met(task) and _takes_work(state, state.stage_of[task.id])


def _takes_work(state: RunState, stage: str) -> bool:
    """An abandoned task stops its stage: what is under way may finish, nothing new starts in it."""
    if state.stage(stage).status is not StageStatus.RUNNING or run_overrun(state) or _setup_failed(state):
        return False
    return state.abandoned[stage] == 0 or state.plan.limits.keep_going


def _setup_failed(state: RunState) -> bool:
    """Tell whether set-up failed since somebody last resumed the run: it would fail in the next workspace, too."""
    return any(
        failure.kind is FailureKind.SETUP
        for task in state.on_hold.values()
        if task.status is TaskStatus.BLOCKED and task.blocked_in == state.row.epoch
        for failure in task.failures[-1:]
    )


# -- How a run ends -----------------------------------------------------------------------------------------


def _stopped(state: RunState) -> ev.Event:
    if state.row.reason:
        return ev.RunBlocked(reason=state.row.reason)
    return ev.RunPaused() if state.row.pausing else ev.RunStopped()


def _ending(state: RunState, now: float) -> ev.Event:
    if not state.current_stages:
        return ev.RunCompleted()
    # A run of selected tasks has done its part unless one of them was abandoned.
    selected = state.selected
    if state.row.pausing or (
        selected is not None
        and all(state.tasks[name].status is not TaskStatus.ABANDONED for name in selected)
    ):
        return ev.RunPaused()
    return ev.RunBlocked(reason="; ".join(obstacles(state, now)) or NOTHING_STARTS)


def obstacles(state: RunState, now: float) -> Iterator[str]:
    """Yield why nothing can start: budgets, limits and refusals of providers, needs of tasks, gates, abandoned tasks."""
    if failed := base_obstacle(state):
        yield failed
    if spent := run_overrun(state):
        yield f"{spent.message} (`{raising_command(state)}` raises it to N)"
    yield from _waited_for(state, now)
    for name in state.current_stages:
        stage = state.stage(name)
        if stage.status is StageStatus.BLOCKED:
            yield f"the {stage.gate} check of stage {name} failed: {stage.error}"
        elif state.abandoned[name]:
            tasks = [task.id for task in state.stages[name].tasks]
            abandoned = [task for task in tasks if state.tasks[task].status is TaskStatus.ABANDONED]
            yield f"stage {name} stopped: {', '.join(abandoned)} abandoned"


def _waited_for(state: RunState, now: float) -> Iterator[str]:
    """Yield the limits and refusals of providers, each once, then what single tasks need from a person."""
    new = _parked_tasks(state, state.current_stages)
    held = [task for task in state.on_hold.values() if not (task.recheck or waits_for_person(task))]
    waiting = [*state.failed.values(), *held, *new]
    parked = [one for task in waiting for one in limits_in_the_way(state, task, now)]
    parked += [one for task in state.awaiting_checks.values() for one in parked_validators(state, task, now)]
    yield from dict.fromkeys(one.words for one in parked)
    by_error: dict[str, list[str]] = {}
    for task in state.on_hold.values():
        if needed := needed_from_person(state.row.run, task):
            yield needed
        elif task.recheck or (task.status is TaskStatus.BLOCKED and not limits_in_the_way(state, task, now)):
            by_error.setdefault(task.error, []).append(task.id)
    # A check that cannot be executed stops many tasks: that is told once.
    yield from (f"{', '.join(tasks)}: {error}" for error, tasks in by_error.items())
