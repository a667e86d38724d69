"""What happens next: the order of work, its bounds, and how a run comes to rest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.core import events as ev
from holdfast.core.commands import CheckTask, CloseStage, LandTasks, OpenStage, RecordEvent, StartAttempt
from holdfast.core.decide import LANDING_BATCH_MAX, decide, next_wake
from holdfast.core.plan import Limits, Task
from holdfast.core.state import RunState, replay
from holdfast.core.status import AttemptKind, FailureKind, RunStatus, TaskStatus
from tests.core.builders import ATTACHED, STARTED, begin, done, failed, plan, settle, start, task, walk

NOW = 0.0


def _tasks(count: int) -> tuple[Any, ...]:
    return tuple(task(f"t{n:03d}") for n in range(count))


def _landing(state: RunState) -> tuple[str, ...]:
    landings = [command for command in decide(state, NOW) if isinstance(command, LandTasks)]
    return tuple(name for landing in landings for name, _ in landing.tasks)


# -- starting ------------------------------------------------------------------------------------------------


def test_a_run_begins_with_the_gate_of_its_first_stage() -> None:
    """Nothing starts in a stage before its entry check held."""
    state = replay(plan((task("a"),), (task("b"),)), [STARTED, ATTACHED])
    assert decide(state, NOW) == [OpenStage("s1")]


def test_attempts_start_in_plan_order_up_to_the_jobs_limit() -> None:
    """Never more agents at once than the user allowed."""
    state = begin(plan(_tasks(5), limits=Limits(jobs=2)))
    assert settle(state) == ["t000", "t001"]


def test_a_task_waits_for_what_it_needs() -> None:
    """A task may stand before what it needs in the file; it starts after it all the same."""
    state = begin(plan((task("b", "a"), task("a"))))
    assert settle(state) == ["a"]
    for event in (done("a", 1), ev.TaskVerified(task="a", attempt=1), ev.LandingStarted(task="a", attempt=1)):
        state.apply(event)
    state.apply(ev.TaskLanded(task="a", attempt=1, commit="m", head="a-head1"))
    assert settle(state) == ["b"]


def test_running_agents_never_share_a_workspace() -> None:
    """Each attempt gets the lowest free number of a workspace."""
    state = begin(plan(_tasks(4), limits=Limits(jobs=3)))
    settle(state)
    state.apply(failed("t001", 1))
    (again,) = [command for command in decide(state, NOW) if isinstance(command, StartAttempt)]
    assert (again.task, again.workspace_number) == ("t001", 1)


def test_a_fix_comes_before_new_work() -> None:
    """What failed is tried again at once, while everything it did is still true."""
    state = begin(plan(_tasks(3), limits=Limits(jobs=1)))
    settle(state)
    state.apply(failed("t000", 1))
    assert settle(state) == ["t000"]


def test_a_new_attempt_starts_from_the_newest_landing() -> None:
    """Later work sees what landed before it."""
    state = begin(plan((task("a"), task("b", "a"))))
    walk(state, "a", "completed")
    (command,) = decide(state, NOW)
    assert isinstance(command, StartAttempt)
    assert command.start == "a-merge1"


def test_a_second_attempt_starts_from_what_the_first_left() -> None:
    """A fresh agent mends; it does not begin from nothing."""
    state = begin(plan((task("a"),), verify=("check",)))
    walk(state, "a", "verifying")
    state.apply(ev.ChecksStarted(task="a", attempt=1))
    state.apply(ev.ChecksFailed(task="a", attempt=1, check="check", error="red"))
    (command,) = decide(state, NOW)
    assert command == StartAttempt("a", 2, 0, "a-head1", AttemptKind.FIX)


def test_only_the_tasks_asked_for_are_started() -> None:
    """`--only` leaves the rest of the run as it is, and the run pauses when they are done."""
    state = begin(plan(_tasks(3)))
    state.select(frozenset({"t001"}))
    assert settle(state) == ["t001"]
    for event in (done("t001", 1), ev.TaskVerified(task="t001", attempt=1)):
        state.apply(event)
    state.apply(ev.TaskLanded(task="t001", attempt=1, commit="m", head="t001-head1"))
    settle(state)
    assert state.row.status is RunStatus.PAUSED


def test_only_mends_the_tasks_asked_for() -> None:
    """A task that failed and was not asked for stays as it is."""
    state = begin(plan(_tasks(2)))
    settle(state)
    state.apply(failed("t000", 1))
    state.apply(failed("t001", 1))
    state.select(frozenset({"t001"}))
    assert settle(state) == ["t001"]


def test_only_does_not_start_what_becomes_ready_later() -> None:
    """A task that waited for one of those asked for goes on waiting."""
    state = begin(plan((task("a"), task("b", "a"), task("c", "a"))))
    state.select(frozenset({"a", "c"}))
    walk(state, "a", "completed")
    assert settle(state) == ["c"]


def test_only_keeps_the_order_of_the_plan() -> None:
    """Also when they became ready in another order."""
    state = begin(plan((task("z"), task("b", "z"), task("a"))))
    walk(state, "z", "completed")
    state.select(frozenset({"a", "b"}))
    assert settle(state) == ["b", "a"]


def test_a_task_whose_need_was_taken_back_waits_for_it() -> None:
    """It is neither tried again nor landed before what it needs."""
    state = begin(plan((task("a"), task("b", "a"), task("c", "a"))))
    state.apply(ev.TaskSkipped(task="a"))
    walk(state, "b", "verified")
    walk(state, "c", "running")
    state.apply(failed("c", 1))
    state.apply(ev.TaskRetried(task="a"))
    assert settle(state) == ["a"]
    assert state.tasks["b"].status is TaskStatus.VERIFIED


# -- checking and landing ------------------------------------------------------------------------------------


def test_finished_work_is_checked_before_it_is_queued() -> None:
    """No check is skipped because others are landing."""
    state = begin(plan((task("a", verify=("check",)),)))
    walk(state, "a", "verifying")
    assert decide(state, NOW) == [CheckTask("a", 1)]


def test_work_without_checks_goes_straight_to_the_queue() -> None:
    """There is nothing to run, so nothing is run."""
    state = begin(plan((task("a"),)))
    walk(state, "a", "verifying")
    assert decide(state, NOW) == [RecordEvent(ev.TaskVerified(task="a", attempt=1))]


def test_tasks_land_in_the_order_in_which_they_were_verified() -> None:
    """First come, first landed; the order of the plan has no say in it."""
    state = begin(plan(_tasks(3), verify=("check",)))
    for name in ("t002", "t000", "t001"):
        walk(state, name, "verified")
    assert _landing(state) == ("t002",)


def test_one_landing_at_a_time() -> None:
    """What lands next must be checked on top of what is landing now."""
    state = begin(plan(_tasks(2), verify=("check",)))
    for name in ("t000", "t001"):
        walk(state, name, "verified")
    state.apply(ev.LandingStarted(task="t000", attempt=1))
    assert _landing(state) == ()


def test_an_interrupted_landing_keeps_its_place() -> None:
    """A crash or a moved branch does not send a task to the back of the queue."""
    state = begin(plan(_tasks(2), verify=("check",)))
    walk(state, "t001", "verified")
    walk(state, "t000", "verified")
    state.apply(ev.LandingStarted(task="t001", attempt=1))
    state.apply(ev.LandingInterrupted(task="t001", attempt=1))
    assert _landing(state) == ("t001",)


def test_tasks_without_checks_land_together() -> None:
    """One move of the branch for many merges, up to a bound."""
    state = begin(plan(_tasks(LANDING_BATCH_MAX + 2)))
    for name in state.names:
        walk(state, name, "verified")
    assert _landing(state) == tuple(state.names[:LANDING_BATCH_MAX])


def test_a_task_with_checks_never_lands_in_a_batch() -> None:
    """The tree that lands is the tree that was checked, so a batch ends before such a task."""
    state = begin(plan((task("a"), task("b", verify=("check",)), task("c"))))
    for name in ("a", "b", "c"):
        walk(state, name, "verified")
    assert _landing(state) == ("a",)
    state.apply(ev.TaskLanded(task="a", attempt=1, commit="m", head="a-head1"))
    assert _landing(state) == ("b",)


# -- giving up -----------------------------------------------------------------------------------------------


def test_an_abandoned_task_stops_its_stage_and_what_runs_still_lands() -> None:
    """Nothing new starts, not even in the turn that gives the task up; work under way is not thrown away."""
    state = begin(plan(_tasks(4), limits=Limits(jobs=2, attempts=1)))
    settle(state)
    state.apply(failed("t000", 1))
    assert settle(state) == []
    assert state.tasks["t000"].status is TaskStatus.ABANDONED
    state.apply(done("t001", 1))
    settle(state)
    assert state.tasks["t001"].status is TaskStatus.MERGING


def test_a_task_has_its_own_number_of_attempts() -> None:
    """`attempts` of a task goes before the run's: an iteration cap of one phase is not everybody's."""
    capped = Task(id="a", prompt="do it", attempts=2)
    state = begin(plan((capped, task("b")), limits=Limits(jobs=1, keep_going=True)))
    for number in (1, 2):
        assert settle(state) == ["a"]
        state.apply(failed("a", number))
    assert settle(state) == ["b"]
    assert state.tasks["a"].status is TaskStatus.ABANDONED


def test_keep_going_works_on_beside_an_abandoned_task() -> None:
    """With `keep_going` only what needs the abandoned task is left out."""
    limits = Limits(jobs=1, attempts=1, keep_going=True)
    state = begin(plan((task("a"), task("b", "a"), task("c")), limits=limits))
    settle(state)
    state.apply(failed("a", 1))
    assert settle(state) == ["c"]


def test_a_blocked_run_says_which_task_stopped_it() -> None:
    """The reason names stage and task."""
    state = begin(plan((task("a"),), limits=Limits(attempts=1)))
    settle(state)
    state.apply(failed("a", 1))
    settle(state)
    assert state.row.status is RunStatus.BLOCKED
    assert "s1" in state.row.reason
    assert "a abandoned" in state.row.reason


def test_a_blocked_run_says_which_gate_failed() -> None:
    """The reason carries the check's own words."""
    state = replay(plan((task("a"),)), [STARTED, ATTACHED])
    state.apply(ev.StageOpening(stage="s1"))
    state.apply(ev.StageGateFailed(stage="s1", gate="entry", error="no such file"))
    settle(state)
    assert state.row.reason == "the entry check of stage s1 failed: no such file"


def test_a_task_that_takes_the_machine_down_every_time_is_abandoned() -> None:
    """Losses cost no attempt, yet they are bounded."""
    state = begin(plan((task("a"),), limits=Limits(attempts=1)))
    losses = 0
    while settle(state) == ["a"]:
        losses += 1
        state.apply(ev.AttemptLost(task="a", attempt=losses))
    assert losses == 3
    assert state.tasks["a"].status is TaskStatus.ABANDONED


def test_a_task_that_was_not_selected_is_not_abandoned() -> None:
    """`--only` leaves also a task without attempts left for another time."""
    state = begin(plan(_tasks(2), limits=Limits(attempts=1)))
    for number in (1, 2, 3):
        state.apply(start("t000", number))
        state.apply(ev.AttemptLost(task="t000", attempt=number))
    state.select(frozenset({"t001"}))
    assert settle(state) == ["t001"]
    assert state.tasks["t000"].status is TaskStatus.PENDING


# -- stages and rest -----------------------------------------------------------------------------------------


def test_a_stage_closes_when_all_its_tasks_are_settled() -> None:
    """Completed or skipped: both let the stage go on."""
    state = begin(plan(_tasks(2)))
    walk(state, "t000", "completed")
    state.apply(ev.TaskSkipped(task="t001"))
    assert decide(state, NOW) == [CloseStage("s1")]


def test_a_run_without_open_stages_is_completed() -> None:
    """The last gate ends the run."""
    state = begin(plan((task("a"),)))
    walk(state, "a", "completed")
    for event in (ev.StageClosing(stage="s1"), ev.StageClosed(stage="s1")):
        state.apply(event)
    assert decide(state, NOW) == [RecordEvent(ev.RunCompleted())]


def test_a_paused_run_starts_nothing_and_lands_what_is_under_way() -> None:
    """Pause is for agents, not for finished work."""
    state = begin(plan(_tasks(3), limits=Limits(jobs=1)))
    settle(state)
    state.apply(ev.PauseRequested())
    state.apply(done("t000", 1))
    assert settle(state) == []
    assert state.tasks["t000"].status is TaskStatus.MERGING
    state.apply(ev.TaskLanded(task="t000", attempt=1, commit="m", head="t000-head1"))
    settle(state)
    assert state.row.status is RunStatus.PAUSED


def test_a_paused_run_does_not_wait_for_a_retry() -> None:
    """It rests at once; the retry is due when the run is resumed."""
    state = begin(plan((task("a"),)))
    settle(state)
    state.apply(failed("a", 1, FailureKind.ENVIRONMENT))
    state.apply(ev.PauseRequested())
    settle(state)
    assert state.row.status is RunStatus.PAUSED


@pytest.mark.parametrize("upto", ["running", "merging"])
def test_a_stopping_run_decides_nothing_while_something_is_under_way(upto: str) -> None:
    """It rests when the last agent and the last landing are through."""
    state = begin(plan(_tasks(2)))
    walk(state, "t000", upto)
    state.apply(ev.StopRequested())
    assert decide(state, NOW) == []


def test_work_that_waits_for_its_checks_does_not_keep_a_run_from_stopping() -> None:
    """An agent that ended just before the stop, or a check that the stop cut short, is checked on resume."""
    state = begin(plan((task("a"),), verify=("check",)))
    walk(state, "a", "verifying")
    state.apply(ev.StopRequested())
    assert decide(state, NOW) == [RecordEvent(ev.RunStopped())]


def test_a_resumed_run_forgets_that_it_was_stopped() -> None:
    """A new runner carries on from where the last one rested."""
    state = begin(plan((task("a"),), verify=("check",)))
    walk(state, "a", "verifying")
    for event in (ev.StopRequested(), ev.RunStopped(), ATTACHED):
        state.apply(event)
    assert decide(state, NOW) == [CheckTask("a", 1)]


@pytest.mark.parametrize("event", [ev.RunCompleted(), ev.RunPaused(), ev.RunStopped(), ev.RunAbandoned()])
def test_a_run_at_rest_decides_nothing(event: ev.Event) -> None:
    """Only a runner that attaches wakes it."""
    state = begin(plan((task("a"),)))
    state.apply(event)
    assert decide(state, NOW) == []
    assert next_wake(state, NOW) is None


def test_a_stop_waits_for_the_gate_of_a_stage_that_is_not_current_any_more() -> None:
    """A stage below it was reopened, yet its check runs: a run that rested now would leave that process behind."""
    state = begin(plan((task("a"),), (task("b"),)))
    state.apply_all([ev.TaskSkipped(task="a"), ev.StageClosing(stage="s1"), ev.StageClosed(stage="s1")])
    state.apply_all([ev.StageOpening(stage="s2"), ev.TaskRetried(task="a"), ev.StopRequested()])
    assert decide(state, NOW) == []
    state.apply(ev.StageGateReset(stage="s2", gate="entry"))
    assert decide(state, NOW) == [RecordEvent(ev.RunStopped())]


@pytest.mark.parametrize(
    "result", [ev.StageClosed(stage="s1"), ev.StageGateFailed(stage="s1", gate="exit", error="red")]
)
def test_an_exit_gate_proves_nothing_about_a_task_that_was_retried_meanwhile(result: ev.Event) -> None:
    """Its check ends first, on the old tree; then the task is done, and the gate is checked on the new one."""
    state = begin(plan((task("a"),)))
    state.apply_all([ev.TaskSkipped(task="a"), ev.StageClosing(stage="s1"), ev.TaskRetried(task="a")])
    assert decide(state, NOW) == []
    state.apply(result)
    assert settle(state) == ["a"]
    walk_on = [done("a", 1), ev.TaskVerified(task="a", attempt=1), ev.LandingStarted(task="a", attempt=1)]
    state.apply_all([*walk_on, ev.TaskLanded(task="a", attempt=1, commit="m", head="a-head1")])
    assert decide(state, NOW) == [CloseStage("s1")]


# -- time and cost -------------------------------------------------------------------------------------------


def test_waiting_is_measured_on_the_runs_own_clock() -> None:
    """The run wakes when its clock says so. No wall-clock time is ever seen, so no jump of it can matter."""
    state = begin(plan((task("a"),)))
    settle(state)
    state.apply(failed("a", 1, FailureKind.ENVIRONMENT, clock=100.0))
    wake = next_wake(state, 100.0)
    assert wake == 101.0
    assert decide(state, 100.5) == []
    assert [type(command) for command in decide(state, wake)] == [StartAttempt]


@pytest.mark.parametrize("jump", [-86_400.0, 86_400.0])
def test_a_jump_of_the_clock_changes_no_decision_about_work_under_way(jump: float) -> None:
    """Even the run's own clock is asked only when a waiting time is over."""
    state = begin(plan(_tasks(6), limits=Limits(jobs=4)))
    walk(state, "t000", "verified")
    walk(state, "t001", "running")
    assert decide(state, jump) == decide(state, NOW)


def test_the_same_state_gives_the_same_decision() -> None:
    """Deciding changes nothing: without the intents applied it would say the same again."""
    state = begin(plan(_tasks(6), limits=Limits(jobs=4)))
    for name in ("t000", "t003"):
        walk(state, name, "verified")
    assert decide(state, NOW) == decide(state, NOW)


class _CountedRows(dict[str, Any]):
    """Rows that count how often one of them is touched."""

    touched = 0

    def __getitem__(self, name: str) -> Any:
        self.touched += 1
        return super().__getitem__(name)

    def __iter__(self) -> Iterator[str]:
        self.touched += len(self)
        return super().__iter__()

    def values(self) -> Any:
        self.touched += len(self)
        return super().values()

    def items(self) -> Any:
        self.touched += len(self)
        return super().items()


def _rows_touched(finished: int) -> int:
    state = begin(plan(_tasks(finished + 10), limits=Limits(jobs=2)))
    for name in state.names[:finished]:
        walk(state, name, "completed")
    settle(state)
    name = state.names[finished]
    state.apply(done(name, 1))
    counted = state.tasks = _CountedRows(state.tasks)
    settle(state)
    return counted.touched


def test_a_decision_costs_the_same_however_much_is_finished() -> None:
    """The rows that a turn looks at do not depend on how many tasks lie behind it."""
    assert _rows_touched(300) == _rows_touched(3)


def test_a_lost_attempt_goes_back_to_its_place_in_the_plan() -> None:
    """A crash does not change the order of work."""
    state = begin(plan(_tasks(3), limits=Limits(jobs=1)))
    state.apply(start("t000", 1))
    state.apply(ev.AttemptLost(task="t000", attempt=1))
    assert settle(state) == ["t000"]
