"""What effects do in simulated time: attempts, checks, validators, gates and landings, as `runner/` does them.

Each is a generator. It yields how long it waits, or events that must be durable before it goes on, and delivers its
results at its end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal
from zlib import crc32

from holdfast.core import events as ev
from holdfast.core.budgets import attempt_overrun, shared_overrun
from holdfast.core.commands import LandTasks
from holdfast.core.facts import Presence
from holdfast.core.projection import Spent, TaskRow
from holdfast.core.provider_limits import provider_answered, provider_of
from holdfast.core.retry import was_found_wanting
from holdfast.core.status import AttemptKind, FailureKind, Gate, TaskStatus
from holdfast.core.validation import judge_validation
from tests.core.simulation import providers
from tests.core.simulation.journal import NoRoomError
from tests.core.simulation.machine import SimulatedAgent
from tests.core.simulation.repository import NO_WORK, SimulatedWork

if TYPE_CHECKING:
    from tests.core.simulation.runner import SimulatedEffect, SimulatedRunner

COST_PER_TOKEN = 0.1
_FAILURES = (
    FailureKind.AGENT,
    FailureKind.KILLED,
    FailureKind.TIMEOUT,
    FailureKind.SYNTAX,
    FailureKind.CONTEXT,
    FailureKind.AGENT,
    FailureKind.KILLED,
)


# -- attempts -----------------------------------------------------------------------------------------------


def attempt(runner: SimulatedRunner, task: TaskRow) -> SimulatedEffect:
    """Bring the current attempt of a task to its end, whichever runner began it."""
    if task.latest.kind is AttemptKind.PERSON:
        yield from runner.world.hands.take_in(runner, task)
        return
    machine, key = runner.machine, (task.id, task.attempt)
    agent = machine.agents.get(key)
    if agent is None:
        agent = _launch(runner, task)
        if agent is None:
            return
    if task.latest.restart:
        machine.cancel(key)
    halfway = (agent.began_at + agent.ends_at) / 2
    if agent.talks and halfway > machine.now:
        yield halfway - machine.now
        if machine.inspect(key) is Presence.ALIVE:
            halt = _reason_to_halt(runner, task, agent)
            if halt is None:
                yield _reports(runner, task, agent)
                halt = _reason_to_halt(runner, task, agent)
            if halt is not None and machine.inspect(key) is Presence.ALIVE:
                yield [*observations(runner, task), halt]
                runner.require_lease()
                machine.cancel(key)
    while machine.inspect(key) is Presence.ALIVE:
        yield agent.ends_at - machine.now
    if unrecorded := observations(runner, task):
        yield unrecorded
    runner.world.step()
    _end(runner, task, agent)


def _end(runner: SimulatedRunner, task: TaskRow, agent: SimulatedAgent) -> None:
    """Deliver how an attempt ended: lost, stopped, or with work to collect."""
    presence = runner.machine.inspect((task.id, task.attempt))
    if presence is Presence.LOST and not runner.stopping:
        runner.deliver([lost(runner, task, "crash", save_last_snapshot(runner, task))])
    elif presence is Presence.LOST or (agent.cancelled and task.latest.halt is None):
        runner.deliver([lost(runner, task, "stop", save_last_snapshot(runner, task))])
    elif agent.cancelled and task.latest.halt is not None and task.latest.halt.for_run:
        runner.deliver([lost(runner, task, "budget", save_last_snapshot(runner, task))])
    else:
        runner.deliver(_collect(runner, task, agent))


def observations(runner: SimulatedRunner, task: TaskRow) -> list[ev.Event]:
    """Return what the stream of a task's agent says that its row does not know yet."""
    agent = runner.machine.agents[task.id, task.attempt]
    if agent.tokens <= task.latest.heard.tokens:
        return []
    cost = agent.tokens * COST_PER_TOKEN
    session = f"of {agent.token}"
    return [
        ev.AgentObserved(
            task=task.id, attempt=task.attempt, tokens=agent.tokens, cost_usd=cost, session=session
        )
    ]


def save_last_snapshot(runner: SimulatedRunner, task: TaskRow) -> str:
    """Commit what an attempt that is over left; return the newest snapshot. Its workspace will be used again."""
    agent, repository = runner.machine.agents[task.id, task.attempt], runner.world.repository
    work = agent.work(runner.machine.now)
    known = task.latest.snapshot
    if work == repository.work.get(known or task.latest.start, NO_WORK):
        return known
    runner.world.require_commit()
    return repository.commit(known or task.latest.start, work)


def _launch(runner: SimulatedRunner, task: TaskRow) -> SimulatedAgent | None:
    """Prepare a workspace and start an agent; None if the machine prevents it, which is then reported."""
    world, machine, random = runner.world, runner.machine, runner.world.random
    if not world.room:
        raise NoRoomError
    if machine.inspect((task.id, task.attempt - 1)) is Presence.ALIVE:
        world.judge.violated(9, f"task {task.id} is tried again while its last agent lives")
    if random() < world.rates.agent_fails / 8:
        if world.seed % 4 == 1:
            runner.deliver(providers.blocked(runner, task, FailureKind.SETUP, ""))
        else:
            runner.deliver([_failed(runner, task, FailureKind.ENVIRONMENT, task.latest.snapshot)])
        return None
    found = world.repository.work.get(task.latest.start, NO_WORK)
    fate, failure = _random_fate(runner, task)
    is_command = bool(runner.state.specs[task.id].run)
    agent = SimulatedAgent(
        token=task.latest.token,
        fate=fate,
        began_at=machine.now,
        ends_at=machine.now + random() * 30,
        found=found,
        is_command=is_command,
        tokens=0 if is_command or random() < 0.4 else int(random() * 10),
        failure=failure,
        resets_in=random() * 7200 if fate == "limit" and random() < 0.5 else None,
        talks=random() < 0.3,
        record_lost=world.rates.agent_lost > 0 and random() < world.rates.agent_lost,
    )
    world.step()
    runner.require_lease()
    return machine.launch((task.id, task.attempt), agent)


def _random_fate(runner: SimulatedRunner, task: TaskRow) -> tuple[str, FailureKind]:
    rates, random = runner.world.rates, runner.world.random
    is_command = bool(runner.state.specs[task.id].run)
    if (task.latest.probes and random() < rates.limits) or providers.is_down(runner, task):
        return (
            "limit",
            FailureKind.OUTAGE,
        )  # an outage is everybody's, and whoever meets it again mostly finds it there
    if not is_command and random() < rates.limits:
        return "limit", FailureKind.LIMIT if random() < 0.5 else FailureKind.OUTAGE
    if not is_command and random() < rates.needs_person:
        return "person", providers.REFUSALS[int(random() * len(providers.REFUSALS))]
    if task.latest.resumed_session and random() < 0.3:
        runner.world.met("session lost")
        return "fail", FailureKind.SESSION if random() < 0.5 else FailureKind.CONTEXT
    if random() >= rates.agent_fails:
        return "done", FailureKind.AGENT
    failure = _FAILURES[int(random() * len(_FAILURES))]
    if task.failures and task.failures[-1].kind in _FAILURES and random() < 0.6:
        failure = task.failures[-1].kind
    if task.conflict and random() < 0.3:
        failure = FailureKind.SIDE_LOST
    # A command that fails by itself undoes what it did; an agent may have changed nothing at all.
    by_itself = is_command and failure not in (FailureKind.KILLED, FailureKind.TIMEOUT)
    if by_itself or random() < 0.3:
        return "idle", failure if is_command else FailureKind.NO_CHANGE
    return "fail", failure


def _reason_to_halt(runner: SimulatedRunner, task: TaskRow, agent: SimulatedAgent) -> ev.AttemptHalted | None:
    if agent.is_command:
        return None  # it has no stream that anybody listens to
    heard = Spent(tokens=agent.tokens, cost_usd=agent.tokens * COST_PER_TOKEN)
    spent = attempt_overrun(runner.state, task, heard)
    shared = "" if spent else shared_overrun(runner.state, task, heard)
    if spent or shared:
        failure = FailureKind.BUDGET
    elif agent.fate == "limit":
        failure = agent.failure
    elif agent.fate == "person":
        failure = FailureKind.PERMISSION
    else:
        return None
    why = spent or shared or "it waits"
    return ev.AttemptHalted(
        task=task.id, attempt=task.attempt, failure=failure, error=why, for_run=bool(shared)
    )


def _reports(runner: SimulatedRunner, task: TaskRow, agent: SimulatedAgent) -> list[ev.Event]:
    """Return what a runner hears and saves in the middle of an attempt."""
    world, name, number = runner.world, task.id, task.attempt
    events = [*observations(runner, task), *providers.answered(runner, task, done=False)]
    cost = 2.0 if world.random() < 0.2 else 0.01
    events.append(
        ev.ProgressReported(task=name, attempt=number, progress=world.random() * 100, cost_usd=cost)
    )
    events += world.hands.question(task)
    if name in runner.state.interface_dependents:
        events.append(ev.InterfacePublished(task=name, attempt=number, name="api", contract="c"))
    if world.room and world.random() < 0.7:
        work = agent.work(runner.machine.now)
        commit = world.repository.commit(task.latest.start, work)
        world.step()
        events.append(ev.SnapshotSaved(task=name, attempt=number, commit=commit))
    return events


def lost(
    runner: SimulatedRunner, task: TaskRow, cause: Literal["crash", "stop", "budget"], unfinished: str
) -> ev.Event:
    """Return the end of an attempt that was cut short by a crash or a stop."""
    carry, set_aside = runner.state.carry_or_set_aside(task, unfinished, lost=cause == "crash")
    return ev.AttemptLost(task=task.id, attempt=task.attempt, carry=carry, set_aside=set_aside, cause=cause)


def _failed(runner: SimulatedRunner, task: TaskRow, kind: FailureKind, unfinished: str) -> ev.Event:
    """Return the failure of an attempt that was cut short."""
    carry, set_aside = runner.state.carry_or_set_aside(task, unfinished)
    return ev.AttemptFailed(
        task=task.id,
        attempt=task.attempt,
        token=task.latest.token,
        failure=kind,
        error="failed",
        carry=carry,
        set_aside=set_aside,
        clock=runner.clock,
    )


def _collect(runner: SimulatedRunner, task: TaskRow, agent: SimulatedAgent) -> list[ev.Event]:
    """Commit what an ended agent left, once, and say how its attempt ended."""
    state, halt = runner.state, task.latest.halt
    failure = halt.failure if halt is not None and agent.cancelled else agent.failure
    done = agent.fate == "done" and not agent.cancelled
    if failure in (FailureKind.KILLED, FailureKind.TIMEOUT) and not done and state.starts_clean(task):
        if asked := runner.world.hands.ended_at_question(task, "", failed=True):
            return [*asked[:-1], lost(runner, task, "stop", save_last_snapshot(runner, task))]
        return [_failed(runner, task, failure, save_last_snapshot(runner, task))]
    work = agent.work(runner.machine.now)
    if not agent.collected:
        runner.world.require_commit()
        agent.collected = runner.world.repository.commit(task.latest.start, work)
        runner.world.step()
    commit, tree = agent.collected, f"tree{crc32(repr(work).encode())}"
    name, number, token = task.id, task.attempt, agent.token
    carry = commit if work != NO_WORK else ""
    if not done and failure in providers.WAITED_FOR:
        return providers.limited(runner, task, agent, failure, carry)
    if not done and failure in providers.REFUSALS:
        return providers.blocked(runner, task, failure, carry)
    if asked := runner.world.hands.ended_at_question(task, carry, failed=not done):
        return asked
    if done and _adds_nothing(task, agent, work):
        done, failure = False, FailureKind.NO_CHANGE
    if done:
        ended = ev.AttemptDone(task=name, attempt=number, token=token, head=commit, tree=tree)
        return [*providers.answered(runner, task, done=True), ended]
    return [
        ev.AttemptFailed(
            task=name,
            attempt=number,
            token=token,
            failure=failure,
            error="failed",
            carry=carry,
            tree=tree,
            clock=runner.clock,
        )
    ]


def _adds_nothing(task: TaskRow, agent: SimulatedAgent, work: SimulatedWork) -> bool:
    """Tell whether an agent left work as it was judged before. Every third finds nothing to change in what it was given."""
    is_as_found = not agent.is_command and work == agent.found
    return is_as_found and was_found_wanting(task) and agent.tokens % 3 == 0


# -- verification -------------------------------------------------------------------------------------------


def checks(runner: SimulatedRunner, task: TaskRow) -> SimulatedEffect:
    """Run a task's checks."""
    world, name, number = runner.world, task.id, task.attempt
    if not world.room:
        raise NoRoomError
    yield world.random() * 10
    if runner.stopping:
        runner.deliver([ev.ChecksInterrupted(task=name, attempt=number)])
    elif world.random() < world.rates.needs_person:
        runner.deliver([_waits(runner, task)])
    elif world.random() < world.rates.check_fails:
        runner.deliver([ev.ChecksFailed(task=name, attempt=number, check="check", error="failed")])
    elif runner.state.specs[name].validators:
        runner.deliver([ev.ChecksSucceeded(task=name, attempt=number)])
    else:
        runner.deliver([ev.TaskVerified(task=name, attempt=number)])


def _waits(runner: SimulatedRunner, task: TaskRow) -> ev.Event:
    """Return that finished work cannot be judged without a person."""
    runner.world.met("work waits")
    failure = FailureKind.UNRUNNABLE if runner.world.random() < 0.6 else FailureKind.ENVIRONMENT
    return ev.VerificationBlocked(task=task.id, attempt=task.attempt, failure=failure, error="no program")


def validation(runner: SimulatedRunner, task: TaskRow) -> SimulatedEffect:
    """Ask the validators that have given no score yet, then compare the mean of all scores with the gate."""
    world, spec = runner.world, runner.state.specs[task.id]
    if not world.room:
        raise NoRoomError
    gone: list[ev.Event] = []
    for validator in spec.validators:
        if validator.id in task.latest.scores:
            continue
        yield world.random() * 5
        if runner.stopping:
            runner.deliver([ev.ChecksInterrupted(task=task.id, attempt=task.attempt)])
            return
        if trouble := providers.gone_for(runner, task, validator):
            gone.append(trouble)
            continue
        if world.random() < world.rates.agent_fails / 2:
            world.met("validator without a score")
            yield [
                ev.ValidatorFailed(
                    task=task.id, attempt=task.attempt, validator=validator.id, error="overloaded"
                )
            ]
            continue
        asked = provider_of(runner.state, runner.state.plan.agent_of(validator)).provider
        yield [
            *(provider_answered(runner.state, asked) if validator.prompt else []),
            ev.ValidatorScored(
                task=task.id, attempt=task.attempt, validator=validator.id, score=world.random() ** 0.4
            ),
        ]
    if world.random() < world.rates.needs_person:
        runner.deliver([*gone, _waits(runner, task)])
        return
    interrupted = ev.ChecksInterrupted(task=task.id, attempt=task.attempt)
    runner.deliver([*gone, interrupted] if gone else [judge_validation(runner.state, task, runner.clock)])


def base_check(runner: SimulatedRunner) -> SimulatedEffect:
    """Check the base before the first agent starts."""
    world = runner.world
    yield world.random() * 10
    if not world.room:
        raise NoRoomError
    if runner.stopping:
        runner.deliver([ev.BaseCheckInterrupted()])
    else:
        runner.deliver([ev.BaseChecked(error="failed" if world.random() < 0.3 else "")])


def gate(runner: SimulatedRunner, stage: str, which: Gate) -> SimulatedEffect:
    """Check a gate of a stage: what git shows, then the plan's commands, if it has any."""
    world, spec = runner.world, runner.state.stages[stage]
    yield world.random() * (3 if which == "entry" else 10)
    commands = spec.entry if which == "entry" else spec.exit
    if vanished := _not_on_branch(runner, (stage,) if which == "exit" else spec.needs):
        error = f"recorded as landed but not on the run branch: {vanished}"
        runner.deliver([ev.StageGateFailed(stage=stage, gate=which, error=error)])
    elif commands and not world.room:
        raise NoRoomError
    elif commands and runner.stopping:
        runner.deliver([ev.StageGateReset(stage=stage, gate=which)])
    elif commands and world.random() < world.rates.gate_fails:
        runner.deliver([ev.StageGateFailed(stage=stage, gate=which, error="failed")])
    else:
        runner.deliver([ev.StageOpened(stage=stage) if which == "entry" else ev.StageClosed(stage=stage)])


def _not_on_branch(runner: SimulatedRunner, stages: tuple[str, ...]) -> list[str]:
    state, contains = runner.state, runner.world.repository.contains
    rows = [state.tasks[task.id] for name in stages for task in state.stages[name].tasks]
    return [
        row.id
        for row in rows
        if row.status is TaskStatus.COMPLETED and not row.replaced and not contains(row.merge_commit)
    ]


# -- landings -----------------------------------------------------------------------------------------------


def landing(runner: SimulatedRunner, command: LandTasks) -> SimulatedEffect:
    """Merge a batch, check the merged trees, and move the run branch once."""
    world, state = runner.world, runner.state
    onto = tip = state.row.tip
    prepared: list[ev.MergePrepared] = []
    settled: list[ev.Event] = []
    for name, number in command.tasks:
        yield world.random() * 5
        if not world.room:
            raise NoRoomError
        problem = _problem_of_merge(runner, state.tasks[name], onto)
        if problem is not None:
            settled.append(problem)
            continue
        commit = world.repository.merge(onto, name, number, state.tasks[name].latest.head)
        prepared.append(ev.MergePrepared(task=name, attempt=number, commit=commit, onto=onto))
        onto = commit
    if prepared:
        yield list(prepared)
        world.prepared.update(merge.commit for merge in prepared)
        settled += _move(runner, prepared, tip)
    runner.deliver(settled)


def _problem_of_merge(runner: SimulatedRunner, task: TaskRow, onto: str) -> ev.Event | None:
    world, rates = runner.world, runner.world.rates
    if world.random() < rates.conflicts:
        both = world.repository.commit(onto, world.repository.work.get(task.latest.head, NO_WORK))
        return ev.MergeConflicted(task=task.id, attempt=task.attempt, onto=onto, carry=both, files=("f",))
    if not runner.state.checks_of(task.id):
        return None
    if runner.stopping:
        return ev.LandingInterrupted(task=task.id, attempt=task.attempt)
    if world.random() < rates.needs_person:
        return _waits(runner, task)
    if world.random() < rates.merged_check_fails:
        return ev.MergeRefused(task=task.id, attempt=task.attempt, check="check", error="failed")
    return None


def _move(runner: SimulatedRunner, prepared: list[ev.MergePrepared], tip: str) -> Iterator[ev.Event]:
    """Move the branch: the intent is durable. Say what landed, or that somebody else had moved it."""
    world = runner.world
    world.step(5)
    moved = runner.swap(tip, prepared[-1].commit)
    if moved:
        world.step(20)
        world.repository.sync()
        world.step(5)
        for merge in prepared:
            head = runner.state.tasks[merge.task].latest.head
            yield ev.TaskLanded(task=merge.task, attempt=merge.attempt, commit=merge.commit, head=head)
        return
    world.met("branch had moved")
    yield from (ev.LandingInterrupted(task=merge.task, attempt=merge.attempt) for merge in prepared)
    yield runner.about_moved_branch()
