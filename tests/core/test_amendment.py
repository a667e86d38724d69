"""Amending the plan of a run that has begun: what landed stands, what failed on a wrong check is checked again."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core import events as ev
from holdfast.core.amendment import amended_plan, amendment, fates_of
from holdfast.core.plan import (
    AgentSpec,
    Limits,
    ListKind,
    Plan,
    Stage,
    Task,
    TaskList,
    Validator,
    plan_hash,
)
from holdfast.core.projection import TaskRow, decode_run_row, decode_task_row, encode_row
from holdfast.core.state import RunState, replay
from holdfast.core.status import FailureKind, TaskStatus
from holdfast.core.task_transitions import IllegalEventError
from holdfast.errors import HoldfastError
from tests.core.builders import ATTACHED, STARTED, begin, failed, plan, queues, settle, task, walk

_FAILED = ev.ChecksFailed(task="a", attempt=1, check="old", error="`old` exited with 1")


def _amend(state: RunState, wanted: Plan, *, restart: bool = False) -> ev.PlanAmended:
    event = amendment(state, wanted, restart=restart)
    state.apply(event)
    return event


def _fate(state: RunState, wanted: Plan, name: str) -> str:
    return fates_of(state, wanted, [name], restart=False)[name]


def _changed(of: Plan, name: str, **fields: Any) -> Plan:
    """Return a plan with other fields of one task."""
    stages = tuple(
        replace(stage, tasks=tuple(replace(t, **fields) if t.id == name else t for t in stage.tasks))
        for stage in of.stages
    )
    return replace(of, stages=stages)


def _resumed(state: RunState) -> RunState:
    state.apply(replace(ATTACHED, epoch=state.row.epoch + 1))
    return state


def _failed_check(**row: Any) -> RunState:
    """Return a run whose task `a` failed on the check `old`."""
    state = begin(plan((task("a"), task("b")), verify=("old",), limits=Limits(**row)))
    walk(state, "a", "verifying")
    state.apply(_FAILED)
    return state


def test_a_new_task_starts_and_a_dropped_one_does_not() -> None:
    """What has not begun takes the new plan at once."""
    state = begin(plan((task("a"), task("b"))))
    _amend(state, plan((task("c"), task("a"))))
    assert settle(state) == ["c", "a"]
    assert "b" not in state.tasks


def test_what_landed_stays_as_it_landed() -> None:
    """A landed task that the plan changes or drops keeps its place and what it was."""
    of = plan((task("a"), task("b"), task("c")))
    state = begin(of)
    walk(state, "a", "completed")
    walk(state, "b", "completed")
    changed = _amend(state, _changed(plan((task("a"), task("c"))), "a", prompt="another thing")).plan
    assert [(t.id, t.prompt) for _, t in changed.tasks()] == [("a", "do it"), ("c", "do it"), ("b", "do it")]
    assert state.tasks["a"].status is TaskStatus.COMPLETED
    assert settle(state) == ["c"]


def test_a_landed_task_brings_its_stage_along_if_the_plan_drops_that() -> None:
    """The history of the branch stays in the plan; the rest is as the plan says."""
    state = begin(plan((task("a"),), (task("b"),)))
    walk(state, "a", "completed")
    renamed = Plan(goal="goal", stages=(Stage(id="build", tasks=(task("b"), task("c"))),))
    changed = _amend(state, renamed).plan
    assert [stage.id for stage in changed.stages] == ["s1", "build"]
    assert set(state.row.stages) == {"s1", "build"}


def test_work_that_failed_only_on_a_check_that_is_gone_is_checked_again() -> None:
    """Its failure is forgiven, no agent starts, and its commit is the same."""
    state = _failed_check()
    _amend(state, replace(state.plan, verify=("new",)))
    row = state.tasks["a"]
    assert (row.status, row.charged, row.recheck) == (TaskStatus.PENDING, 0, True)
    assert settle(state) == ["b"]
    assert (row.status, row.attempt, row.latest.head) == (TaskStatus.VERIFYING, 1, "a-head1")


def test_an_abandoned_task_is_checked_again_too() -> None:
    """The plan's fault used up its attempts."""
    state = _failed_check(attempts=1)
    settle(state)
    assert state.tasks["a"].error.startswith("failed once")
    _amend(state, replace(state.plan, verify=("new",)))
    settle(_resumed(state))
    assert state.tasks["a"].status is TaskStatus.VERIFYING


def test_a_failure_on_a_check_that_stays_is_not_forgiven() -> None:
    """Another check was changed: the agent has still to repair its work."""
    state = begin(plan((task("a"),), verify=("old", "other")))
    walk(state, "a", "verifying")
    state.apply(_FAILED)
    _amend(state, replace(state.plan, verify=("old", "third")))
    assert (state.tasks["a"].status, state.tasks["a"].charged) == (TaskStatus.FAILED, 1)
    assert settle(state) == ["a"]


def test_work_is_not_checked_again_if_something_else_is_asked_now() -> None:
    """What it did is not what is wanted any more: the next attempt is told."""
    state = _failed_check()
    _amend(state, _changed(replace(state.plan, verify=("new",)), "a", prompt="another thing"))
    assert settle(state) == ["a", "b"]


def test_work_that_waits_for_a_check_to_be_corrected_goes_on_at_once() -> None:
    """A live runner needs no resume."""
    state = begin(plan((task("a"),), verify=("pytset",)))
    walk(state, "a", "verifying")
    state.apply(
        ev.VerificationBlocked(task="a", attempt=1, failure=FailureKind.UNRUNNABLE, error="not found")
    )
    _amend(state, replace(state.plan, verify=("pytest",)))
    settle(state)
    assert (state.tasks["a"].status, state.tasks["a"].attempt) == (TaskStatus.VERIFYING, 1)


def test_scores_of_validators_that_stay_are_kept() -> None:
    """Only the one that changed is asked again."""
    judges = (Validator(id="v", run=("v",)), Validator(id="w", run=("w",)))
    state = begin(plan((replace(task("a"), validators=judges),)))
    walk(state, "a", "verifying")
    for name in ("v", "w"):
        state.apply(ev.ValidatorScored(task="a", attempt=1, validator=name, score=0.1))
    state.apply(ev.ValidationFailed(task="a", attempt=1, error="0.1 is below 0.8"))
    _amend(state, _changed(state.plan, "a", validators=(judges[0], Validator(id="w", run=("other",)))))
    assert [*state.tasks["a"].latest.scores] == ["v"]
    assert state.tasks["a"].recheck


def test_a_task_under_way_cannot_be_dropped() -> None:
    """Its agent or its checks work on it; nothing changes."""
    state = begin(plan((task("a"), task("b"))))
    walk(state, "a", "running")
    with pytest.raises(HoldfastError, match="task a is running and cannot be dropped"):
        amendment(state, plan((task("b"),)))
    without = plan((task("b"),))
    before = encode_row(state.row)
    with pytest.raises(IllegalEventError):
        state.apply(ev.PlanAmended(plan=without, plan_hash=plan_hash(without)))
    assert encode_row(state.row) == before


def test_no_task_is_put_below_work_that_has_landed() -> None:
    """A stage lands after what it builds on: that cannot be changed afterwards."""
    state = begin(plan((task("a"),), (task("b"),)))
    walk(state, "a", "completed")
    state.apply_all([ev.StageClosing(stage="s1"), ev.StageClosed(stage="s1")])
    state.apply_all([ev.StageOpening(stage="s2"), ev.StageOpened(stage="s2")])
    walk(state, "b", "completed")
    with pytest.raises(HoldfastError, match="task c would come before stage s2, of which b has landed"):
        amendment(state, plan((task("a"), task("c")), (task("b"),)))
    _amend(state, plan((task("a"),), (task("b"), task("c"))))
    assert settle(state) == ["c"]


def test_a_closed_stage_opens_again_for_a_new_task() -> None:
    """Nothing built on it has landed."""
    state = begin(plan((task("a"),), (task("b"),)))
    walk(state, "a", "completed")
    for event in (ev.StageClosing(stage="s1"), ev.StageClosed(stage="s1")):
        state.apply(event)
    _amend(state, plan((task("a"), task("c")), (task("b"),)))
    assert settle(state) == ["c"]


def test_attempt_numbers_of_a_task_that_comes_back_go_on() -> None:
    """They name launches, folders and refs: none is given out twice."""
    state = begin(plan((task("a"), task("b"))))
    walk(state, "a", "running")
    state.apply(failed("a", 1))
    _amend(state, plan((task("b"),)))
    _amend(state, plan((task("a"), task("b"))))
    assert state.tasks["a"].attempt == 1
    assert state.row.dropped == {}


def test_a_lower_limit_of_attempts_leaves_none() -> None:
    """What failed more often than it now may counts as having used up all of them."""
    state = begin(plan((task("a"),), limits=Limits(attempts=3)))
    for number in (1, 2):
        walk(state, "a", "running")
        state.apply(failed("a", number))
    _amend(state, replace(state.plan, limits=Limits(attempts=1)))
    settle(state)
    assert (state.tasks["a"].status, state.tasks["a"].charged) == (TaskStatus.ABANDONED, 1)


def test_a_lower_limit_of_attempts_leaves_a_task_that_waits_for_a_person_the_one_it_waits_with() -> None:
    """It goes on once somebody helped, and its failure is within the limit."""
    state = begin(plan((task("a"),), limits=Limits(attempts=3)))
    walk(state, "a", "running")
    state.apply(failed("a", 1))
    walk(state, "a", "running")
    state.apply(
        ev.AttemptBlocked(task="a", attempt=2, token="a-token2", failure=FailureKind.PERMISSION, error="help")
    )
    _amend(state, replace(state.plan, limits=Limits(attempts=1)))
    assert settle(_resumed(state)) == ["a"]
    state.apply(failed("a", 3))
    settle(state)
    assert (state.tasks["a"].status, state.tasks["a"].charged) == (TaskStatus.ABANDONED, 1)


def test_a_higher_limit_of_attempts_gives_an_abandoned_task_those_that_are_left() -> None:
    """New limits apply from then on."""
    state = begin(plan((task("a"),), limits=Limits(attempts=1)))
    walk(state, "a", "running")
    state.apply(failed("a", 1))
    settle(state)
    _amend(state, replace(state.plan, limits=Limits(attempts=2)))
    assert settle(_resumed(state)) == ["a"]


def test_new_limits_apply_and_those_of_the_session_stay() -> None:
    """The number of jobs changes if the plan changes it; what the user chose for this session stays otherwise."""
    state = begin(plan((task("a"),), limits=Limits(jobs=4)))
    state.jobs = 7
    _amend(state, replace(state.plan, verify=("x",)))
    assert state.jobs == 7
    _amend(state, replace(state.plan, limits=Limits(jobs=2)))
    assert state.jobs == 2


def test_a_run_keeps_its_base() -> None:
    """What landed is on it."""
    state = begin(plan((task("a"),)))
    assert amended_plan(state, replace(state.plan, base="main")) == state.plan


def test_what_landed_keeps_the_agent_that_only_it_names() -> None:
    """The plan stays whole: no task names an agent that is not there."""
    mine = Plan(
        goal="g",
        agents={"mine": AgentSpec(command=("x",))},
        slots={"db": 1},
        stages=(
            Stage(
                id="s1", tasks=(Task(id="a", prompt="p", agent="mine", slot="db"), Task(id="b", prompt="p"))
            ),
        ),
    )
    state = begin(mine)
    walk(state, "a", "completed")
    changed = amended_plan(state, Plan(goal="g", stages=(Stage(id="s1", tasks=(Task(id="b", prompt="p"),)),)))
    assert (set(changed.agents), set(changed.slots)) == ({"mine"}, {"db"})


def test_only_a_restart_ends_an_agent_at_work() -> None:
    """Without it the agent finishes what it began; with it its attempt is marked to be ended."""
    state = begin(plan((task("a"),)))
    walk(state, "a", "running")
    wanted = _changed(state.plan, "a", prompt="another thing")
    assert _fate(state, wanted, "a") == "its agent finishes what it began; --restart stops it"
    assert not amendment(state, wanted).restarted
    assert _amend(state, wanted, restart=True).restarted == ("a",)
    assert state.tasks["a"].latest.restart
    state.apply(ev.AttemptLost(task="a", attempt=1, carry="wip", cause="stop"))
    assert (settle(state), state.tasks["a"].latest.restart, state.tasks["a"].charged) == (["a"], False, 0)


def test_work_that_waits_to_be_checked_is_not_said_to_begin_again_with_another_agent() -> None:
    """It is finished, whoever made it: nothing changes, and that is said."""
    state = begin(plan((task("a"),), verify=("pytset",)))
    walk(state, "a", "verifying")
    unrunnable = FailureKind.UNRUNNABLE
    state.apply(ev.VerificationBlocked(task="a", attempt=1, failure=unrunnable, error="pytset: not found"))
    wanted = _changed(state.plan, "a", agent="other")
    assert _fate(state, wanted, "a") == "its work waits to be checked, as before"
    _amend(state, wanted)
    assert (state.tasks["a"].status, state.tasks["a"].recheck) == (TaskStatus.BLOCKED, True)


def test_another_agent_of_the_plan_changes_nothing_about_a_command() -> None:
    """No agent works on it: it is not restarted, and has no new attempts."""
    state = begin(plan((Task(id="a", run=("make",)), Task(id="b", run=("make",))), limits=Limits(attempts=1)))
    walk(state, "a", "running")
    walk(state, "b", "running")
    state.apply(failed("b", 1))
    settle(state)
    wanted = replace(state.plan, agent="other", agents={"other": AgentSpec(command=("other",))})
    assert amendment(state, wanted, restart=True).restarted == ()
    assert _fate(state, wanted, "b") == "stays abandoned"
    _amend(state, wanted)
    assert state.tasks["b"].status is TaskStatus.ABANDONED


def test_another_agent_of_the_plan_leaves_the_scores_of_commands() -> None:
    """A validator that is a command gave its score whoever the agent of the plan is."""
    judged = Task(id="a", prompt="do it", validators=(Validator(id="lint", run=("lint",)),))
    state = begin(plan((judged,)))
    walk(state, "a", "verifying")
    state.apply(ev.ChecksSucceeded(task="a", attempt=1))
    state.apply(ev.ValidatorScored(task="a", attempt=1, validator="lint", score=1.0))
    _amend(state, replace(state.plan, agent="other"))
    assert list(state.tasks["a"].latest.scores) == ["lint"]


def test_other_points_of_a_list_are_nothing_that_an_agent_is_asked() -> None:
    """What a task ticks when it lands can be corrected while an agent works on it."""
    state = begin(plan((task("a"),)))
    walk(state, "a", "running")
    listed = replace(state.plan, task_list=TaskList(path="TODO.md", kind=ListKind.CHECKLIST))
    wanted = _changed(listed, "a", points=("Begin",))
    assert amendment(state, wanted, restart=True).restarted == ()
    assert _fate(state, wanted, "a") == "under way, goes on"


def test_an_agent_whose_task_is_the_same_is_not_restarted() -> None:
    """Only what changed begins again."""
    state = begin(plan((task("a"), task("b"))))
    walk(state, "a", "running")
    assert amendment(state, _changed(state.plan, "b", prompt="other"), restart=True).restarted == ()


def test_the_state_after_an_amendment_is_the_fold_of_its_events_and_of_its_rows() -> None:
    """Rows and queues are the same live, replayed from the plan that the run began with, and read back."""
    of = plan((task("a"), task("b"), task("c")))
    state = begin(of)
    walk(state, "a", "completed")
    walk(state, "b", "verifying")
    state.apply(replace(_FAILED, task="b"))
    event = _amend(state, plan((task("x"), task("b", verify=("new",))), (task("y"),)))
    history = [
        STARTED, ATTACHED, ev.StageOpening(stage="s1"), ev.StageOpened(stage="s1"),
    ]  # fmt: skip
    folded = replay(of, history)
    for name, upto in (("a", "completed"), ("b", "verifying")):
        walk(folded, name, upto)
    folded.apply_all([replace(_FAILED, task="b"), event])
    assert (folded.row, folded.tasks, folded.plan) == (state.row, state.tasks, state.plan)
    rows = [decode_task_row(encode_row(row)) for row in state.take_changed()]
    restored = RunState(state.plan, decode_run_row(encode_row(state.row)), rows)
    assert (restored.tasks, queues(restored)) == (state.tasks, queues(state))
    assert state.row.first_plan == STARTED.plan_hash
    assert TaskRow(id="y") == state.tasks["y"]


def _calls_for(tasks: int) -> int:
    """Return how many functions are called to tell what becomes of so many tasks, each of which is changed."""
    names = [f"t{number}" for number in range(tasks)]
    state = begin(plan(tuple(map(task, names))))
    wanted = replace(state.plan, verify=("new",))
    calls = 0

    def count_call(_frame: object, event: str, _arg: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count_call)
    try:
        fates_of(state, wanted, names, restart=False)
    finally:
        sys.setprofile(None)
    return calls


def test_twice_the_tasks_take_twice_the_steps() -> None:
    """A plan of thousands is amended in a moment."""
    assert _calls_for(400) < 2.5 * _calls_for(200)
