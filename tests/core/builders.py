"""Small plans and short histories: the words that the tests of the core are written in."""

from __future__ import annotations

from typing import Any

from holdfast.core import events as ev
from holdfast.core.commands import StartAttempt, intents
from holdfast.core.decide import decide
from holdfast.core.plan import Limits, Plan, Stage, Task
from holdfast.core.state import RunState, replay
from holdfast.core.status import FailureKind

STARTED = ev.RunStarted(
    run="01-run", goal="goal", plan_hash="hash", base="base", branch="refs/heads/holdfast/01-run"
)
ATTACHED = ev.RunnerAttached(epoch=1, pid=1, host="host", boot_id="boot")


def task(name: str, *needs: str, verify: tuple[str, ...] = ()) -> Task:
    """Return a task that any agent could do."""
    return Task(id=name, prompt="do it", needs=needs, verify=verify)


def plan(*stages: tuple[Task, ...], verify: tuple[str, ...] = (), limits: Limits | None = None) -> Plan:
    """Return a plan of stages `s1`, `s2` …, each needing the one before."""
    made = tuple(
        Stage(id=f"s{n}", needs=(f"s{n - 1}",) if n > 1 else (), tasks=tasks)
        for n, tasks in enumerate(stages, start=1)
    )
    return Plan(goal="goal", stages=made, verify=verify, limits=limits or Limits())


def begin(of: Plan) -> RunState:
    """Return a run whose runner is attached and whose first stage is open."""
    state = replay(of, [STARTED, ATTACHED])
    for event in (ev.StageOpening(stage="s1"), ev.StageOpened(stage="s1")):
        state.apply(event)
    return state


def walk(state: RunState, name: str, upto: str) -> None:
    """Take a task along the straight path until it is `upto`, as its next attempt."""
    number = state.tasks[name].attempt + 1
    merge = f"{name}-merge{number}"
    path: list[tuple[str, ev.Event]] = [
        ("running", start(name, number)),
        ("verifying", done(name, number)),
        ("verified", ev.TaskVerified(task=name, attempt=number)),
        ("merging", ev.LandingStarted(task=name, attempt=number)),
        ("completed", ev.TaskLanded(task=name, attempt=number, commit=merge, head=f"{name}-head{number}")),
    ]
    for status, event in path:
        state.apply(event)
        if status == upto:
            return


def start(name: str, number: int, workspace: int = 0, **more: Any) -> ev.AttemptStarted:
    """Return the intent of an attempt."""
    token = f"{name}-token{number}"
    return ev.AttemptStarted(
        task=name, attempt=number, token=token, workspace_number=workspace, start="base", **more
    )


def done(name: str, number: int) -> ev.AttemptDone:
    """Return the good end of an attempt."""
    token, head = f"{name}-token{number}", f"{name}-head{number}"
    return ev.AttemptDone(task=name, attempt=number, token=token, head=head, tree=f"{name}-tree{number}")


def failed(
    name: str, number: int, kind: FailureKind = FailureKind.AGENT, clock: float = 0.0
) -> ev.AttemptFailed:
    """Return the bad end of an attempt."""
    token = f"{name}-token{number}"
    return ev.AttemptFailed(
        task=name, attempt=number, token=token, failure=kind, error="it broke", clock=clock
    )


def settle(state: RunState, now: float = 0.0) -> list[str]:
    """Decide and apply intents until there is nothing more to decide; return the tasks that were started."""
    started: list[str] = []
    while commands := decide(state, now):
        for command in commands:
            if isinstance(command, StartAttempt):
                started.append(command.task)
            token = f"{command.task}-token{command.attempt}" if isinstance(command, StartAttempt) else ""
            for event in intents(command, token):
                state.apply(event)
    return started


def queues(state: RunState) -> dict[str, object]:
    """Return what decisions are made from, without the entries that are known to be stale."""
    everything = len(state.names)
    return {
        "ready": {stage: [row.id for row in state.ready_tasks(stage, everything)] for stage in state.ready},
        "merge": [row.id for row in state.next_to_land(everything)],
        "active": state.active,
        "awaiting_checks": state.awaiting_checks,
        "failed": state.failed,
        "on_hold": state.on_hold,
        "tried_before": state.tried_before,
        "awaiting_restart": state.awaiting_restart,
        "landing": state.landing,
        "open_needs": state.open_needs,
        "unsettled": state.unsettled,
        "abandoned": state.abandoned,
        "settled": state.settled_count,
        "stages": state.current_stages,
    }
