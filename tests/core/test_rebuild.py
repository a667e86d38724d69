"""A history written anew from git: what landed is done, and nothing is made up."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core import events as ev
from holdfast.core.facts import BranchFacts, Landing
from holdfast.core.plan import Plan, Stage
from holdfast.core.rebuild import passed_over, rebuild_events
from holdfast.core.run_transitions import first_row
from holdfast.core.state import RunState, replay
from holdfast.core.status import RunStatus, StageStatus, TaskStatus
from tests.core.builders import STARTED, plan, task

TWO = plan((task("a"), task("b", "a")), (task("c"),))


def _branch(*landed: str) -> BranchFacts:
    landings = tuple(Landing(name, 2, f"m{name}", f"h{name}", "t") for name in landed)
    return BranchFacts(tip=landings[-1].commit if landings else "base", landings=landings)


def _restored(
    of: Plan, branch: BranchFacts, *skipped: str, begun: Sequence[ev.TaskRestored] = ()
) -> RunState:
    """Restore, and check that the history folds to the state that it led to."""
    state = RunState(of, first_row(STARTED))
    events = rebuild_events(state, branch, begun, skipped)
    again = replay(of, [STARTED, *events])
    assert (again.row, again.tasks) == (state.row, state.tasks)
    return state


def test_what_landed_is_done_and_the_rest_is_not() -> None:
    """Git's word, task by task; the run rests at the branch's tip."""
    state = _restored(TWO, _branch("a"))
    assert [state.tasks[name].status for name in "abc"] == ["completed", "pending", "pending"]
    assert (state.row.tip, state.row.status) == ("ma", RunStatus.STOPPED)
    assert state.stage("s1").status is StageStatus.RUNNING


def test_an_unfinished_task_goes_on_from_its_newest_work_under_a_new_number() -> None:
    """Attempt numbers name folders and refs that exist."""
    begun = [
        ev.TaskRestored(task="a", attempts=3),
        ev.TaskRestored(task="b", attempts=4, carry="work", base="ma"),
    ]
    state = _restored(TWO, _branch("a"), begun=begun)
    assert (state.tasks["a"].attempt, state.tasks["b"].attempt) == (3, 4)
    assert (state.tasks["b"].carry, state.tasks["b"].base) == ("work", "ma")


def test_a_stage_that_others_built_on_was_closed() -> None:
    """Its exit checks must have held; those of the last stage are checked again."""
    one = Stage(id="s1", exit=("x",), tasks=(task("a"),))
    two = Stage(id="s2", needs=("s1",), exit=("x",), tasks=(task("b"),))
    of = Plan(goal="g", stages=(one, two))
    assert _restored(of, _branch("a")).stage("s1").status is StageStatus.RUNNING
    state = _restored(of, _branch("a", "b"))
    assert [state.stage(name).status for name in ("s1", "s2")] == ["completed", "running"]


def test_a_run_of_which_everything_landed_has_nothing_left() -> None:
    """Without exit checks there is nothing more to prove."""
    assert not _restored(TWO, _branch("a", "b", "c")).current_stages


def test_what_never_landed_below_something_that_did_is_noticed() -> None:
    """Skipped, or taken off the branch: a person knows."""
    assert passed_over(TWO, _branch("b")) == {"a": "b"}
    assert passed_over(TWO, _branch("c")) == {"a": "c", "b": "c"}
    assert _restored(TWO, _branch("b"), "a").tasks["a"].status is TaskStatus.SKIPPED


def test_a_task_that_was_skipped_twice_over_is_skipped_once() -> None:
    """Adopted as skipped, and passed over by what landed since: both say the same."""
    assert _restored(TWO, _branch("b"), "a", "a").tasks["a"].status is TaskStatus.SKIPPED


def test_a_commit_by_hand_on_top_is_the_ground_to_build_on() -> None:
    """The tip is where the branch is, not where the last landing was."""
    branch = BranchFacts(tip="hand", landings=_branch("a").landings)
    assert _restored(TWO, branch).row.tip == "hand"
    assert isinstance(rebuild_events(RunState(TWO, first_row(STARTED)), branch, {}, ())[1], ev.BranchMoved)
