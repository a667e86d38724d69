"""The check of the base: nothing starts before it, and who may start agents without it."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.core import events as ev
from holdfast.core.base_check import base_obstacle, deserves_check
from holdfast.core.commands import CheckBase, OpenStage, RecordEvent
from holdfast.core.decide import decide
from holdfast.core.plan import AgentSpec, Plan, PlanWorkspace, Stage, Task
from holdfast.core.run_transitions import first_row
from holdfast.core.state import RunState
from holdfast.core.status import BaseStatus
from tests.core.builders import ATTACHED, STARTED, plan, task

RED = ev.BaseChecked(check="make test", error="`make test` exited with 2", detail="one failed")


def state_of(*events: ev.Event) -> RunState:
    """Return the state of a run that wants its base checked, after these events."""
    state = RunState(plan((task("a"),)), first_row(replace(STARTED, check_base=True)))
    state.apply_all([ATTACHED, *events])
    return state


def test_nothing_starts_before_the_base_is_known() -> None:
    """Neither a stage nor a task; while the check runs, there is nothing else to decide."""
    assert decide(state_of(), 0.0) == [CheckBase()]
    assert decide(state_of(ev.BaseCheckStarted()), 0.0) == []
    assert decide(state_of(ev.BaseCheckStarted(), ev.BaseChecked()), 0.0) == [OpenStage("s1")]


def test_a_check_that_was_cut_short_is_repeated() -> None:
    """By a stop, or by a kill: the next runner only attaches."""
    again = replace(ATTACHED, epoch=2)
    for cut in (ev.BaseCheckInterrupted(), again):
        assert decide(state_of(ev.BaseCheckStarted(), cut), 0.0) == [CheckBase()]


def test_a_red_base_blocks_until_the_user_goes_on() -> None:
    """The reason names check and output; accepted, it is not asked about again."""
    state = state_of(ev.BaseCheckStarted(), RED)
    [blocked] = decide(state, 0.0)
    assert isinstance(blocked, RecordEvent)
    assert isinstance(blocked.event, ev.RunBlocked)
    assert "one failed" in blocked.event.reason
    state.accepts_base = True
    assert decide(state, 0.0) == [RecordEvent(ev.BaseAccepted())]
    state.apply(ev.BaseAccepted())
    state.accepts_base = False
    assert decide(state, 0.0) == [OpenStage("s1")]
    assert state.row.base_check.status is BaseStatus.SETTLED


def test_a_resumed_run_checks_a_red_base_again() -> None:
    """Its cause may be gone: a server that was down, a program that is installed now."""
    state = state_of(ev.BaseCheckStarted(), RED, ev.RunBlocked(reason="red"), replace(ATTACHED, epoch=2))
    assert decide(state, 0.0) == [CheckBase()]


def test_nobody_accepts_a_check_that_cannot_be_executed() -> None:
    """No task changes that; but the user may start agents without any check of the base."""
    state = state_of(ev.BaseCheckStarted(), replace(RED, unrunnable=True))
    state.accepts_base = True
    assert "cannot be executed" in base_obstacle(state)
    broken = state_of(ev.BaseCheckStarted(), replace(RED, setup=True))
    broken.accepts_base = True
    assert isinstance(decide(broken, 0.0)[0], RecordEvent)
    assert "set-up fails on the base" in base_obstacle(broken)
    assert isinstance(decide(state, 0.0)[0], RecordEvent)
    state.skips_base_check = True
    assert decide(state, 0.0) == [RecordEvent(ev.BaseAccepted())]


def test_once_an_agent_has_worked_it_is_too_late_to_check() -> None:
    """A run whose journal was rebuilt from git goes on with its tasks."""
    state = state_of(ev.TaskRestored(task="a", attempts=1))
    assert decide(state, 0.0) == [OpenStage("s1")]


def test_only_plans_that_pay_somebody_are_checked_beforehand() -> None:
    """And only if there is something to run."""
    paid = Stage(id="s", tasks=(Task(id="a", prompt="x"),))
    free = Stage(id="s", tasks=(Task(id="a", run=("true",)),))
    agents = {"mine": AgentSpec(command=("true",))}
    setup = PlanWorkspace(setup=("make",))
    assert deserves_check(Plan(goal="g", agent="mine", agents=agents, stages=(paid,), verify=("true",)))
    assert deserves_check(Plan(goal="g", agent="mine", agents=agents, stages=(paid,), workspace=setup))
    assert not deserves_check(Plan(goal="g", agent="mine", agents=agents, stages=(paid,)))
    assert not deserves_check(Plan(goal="g", stages=(free,), verify=("true",)))
