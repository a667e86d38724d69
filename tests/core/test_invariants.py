"""Each invariant has a case in which it is broken, and is silent when all is well."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs

from holdfast.core import events as ev
from holdfast.core.event_codec import Recorded
from holdfast.core.facts import BranchFacts, Landing
from holdfast.core.invariants import (
    Evidence,
    LiveAttempt,
    commits_to_keep,
    fold_violations,
    violations,
)
from holdfast.core.plan import Limits
from holdfast.core.state import RunState, replay
from tests.core.builders import ATTACHED, STARTED, begin, failed, plan, start, task, walk


def _landing(name: str) -> Landing:
    return Landing(task=name, attempt=1, commit=f"{name}-merge1", head=f"{name}-head1", tree=f"{name}-tree1")


def _seen(*landed: str) -> Evidence:
    """Return the evidence of a branch on which these tasks landed, in this order."""
    landings = tuple(map(_landing, landed))
    tip = landings[-1].commit if landings else "base"
    prepared = frozenset(landing.commit for landing in landings)
    return Evidence(settled=True, branch=BranchFacts(tip=tip, landings=landings), prepared=prepared)


def _landed(*names: str) -> RunState:
    """Return a run with tasks a, b (needs a) and, in the next stage, c; of which these landed."""
    state = begin(plan((task("a"), task("b", "a")), (task("c"),), limits=Limits(attempts=2)))
    for name in names:
        if name == "c":
            _pass_to_the_next_stage(state)
        walk(state, name, "completed")
    return state


def _pass_to_the_next_stage(state: RunState) -> None:
    state.apply(ev.StageClosing(stage="s1"))
    state.apply(ev.StageClosed(stage="s1"))
    state.apply(ev.StageOpening(stage="s2"))
    state.apply(ev.StageOpened(stage="s2"))


def _numbers(state: RunState, evidence: Evidence) -> list[int]:
    return [violation.number for violation in violations(state, evidence)]


def test_a_healthy_run_breaks_nothing() -> None:
    """Also with everything landed."""
    assert violations(_landed("a", "b", "c"), _seen("a", "b", "c")) == []


def test_evidence_that_nobody_gathered_accuses_nobody() -> None:
    """Each caller fills in what it can see."""
    assert violations(_landed("a"), Evidence()) == []


def test_completed_without_a_merge_on_the_branch() -> None:
    """Invariant 1: git proves completion."""
    evidence = replace(_seen(), branch=BranchFacts(tip="a-merge1"))
    assert _numbers(_landed("a"), evidence) == [1]


def test_landed_with_another_head_than_the_verified_one() -> None:
    """Invariant 1: the second parent is what was verified."""
    other = replace(_landing("a"), head="unverified")
    evidence = replace(_seen("a"), branch=BranchFacts(tip=other.commit, landings=(other,)))
    assert _numbers(_landed("a"), evidence) == [1]


def test_landed_twice() -> None:
    """Invariant 2: one commit per task on the first-parent line."""
    assert _numbers(_landed("a"), _seen("a", "a")) == [2]


def test_landed_without_being_completed() -> None:
    """Invariant 2: once nothing is half done, what landed is completed."""
    state = _landed("a")
    walk(state, "b", "verified")
    assert 2 in _numbers(state, _seen("a", "b"))


def test_a_landing_may_be_one_step_ahead_of_its_record() -> None:
    """Between the move of the branch and its record the prepared merge explains what is seen."""
    state = _landed("a")
    walk(state, "b", "merging")
    state.apply(ev.MergePrepared(task="b", attempt=1, commit="b-merge1", onto="a-merge1"))
    assert violations(state, replace(_seen("a", "b"), settled=False)) == []
    assert 2 in _numbers(state, _seen("a", "b"))


def test_a_branch_that_does_not_descend_from_its_base() -> None:
    """Invariant 3."""
    evidence = Evidence(branch=BranchFacts(tip="base", descends_from_base=False))
    assert _numbers(_landed(), evidence) == [3]


def test_a_branch_that_went_back() -> None:
    """Invariant 3: whatever it once contained it contains for ever."""
    assert _numbers(_landed("a"), replace(_seen("a"), lost_tips=("theirs",))) == [3]


def test_a_branch_that_is_not_where_we_left_it() -> None:
    """Invariant 3."""
    evidence = replace(_seen("a"), branch=BranchFacts(tip="theirs", landings=(_landing("a"),)))
    assert _numbers(_landed("a"), evidence) == [3]


def test_landed_without_having_been_prepared() -> None:
    """Invariant 4: only a merge whose tree was checked may land."""
    assert _numbers(_landed("a"), replace(_seen("a"), prepared=frozenset())) == [4]


def test_landed_before_what_it_needs() -> None:
    """Invariant 5: the order on the branch."""
    state = _landed("a", "b")
    state.row.tip = "a-merge1"
    assert _numbers(state, _seen("b", "a")) == [5]


def test_landed_before_the_stage_it_builds_on() -> None:
    """Invariant 5: across stages."""
    state = _landed("a", "b", "c")
    state.row.tip = "b-merge1"
    assert _numbers(state, _seen("a", "c", "b")) == [5]


def test_a_task_that_was_skipped_may_land_after_what_needed_it() -> None:
    """The user took it back later; nothing is wrong with that."""
    state = _landed("a", "b")
    state.row.tip = "a-merge1"
    assert violations(state, replace(_seen("b", "a"), once_skipped=frozenset({"a"}))) == []


@pytest.mark.parametrize("commit", ["a-head1", "a-merge1", "b-wip", "b-carry"])
def test_a_recorded_commit_that_no_longer_exists(commit: str) -> None:
    """Invariant 6: heads, landings, snapshots and what failed attempts left."""
    state = _landed("a")
    walk(state, "b", "running")
    state.tasks["b"].carry = "b-carry"
    state.apply(ev.SnapshotSaved(task="b", attempt=1, commit="b-wip"))
    assert commit in commits_to_keep(state)
    assert _numbers(state, Evidence(missing_commits=frozenset({commit}))) == [6]


def test_more_failures_than_attempts() -> None:
    """Invariant 9: the limit is a limit."""
    state = _landed()
    state.tasks["a"].charged = 2
    assert violations(state, Evidence()) == []
    state.tasks["a"].charged = 3
    assert _numbers(state, Evidence()) == [9]


def test_more_losses_than_are_bearable() -> None:
    """Invariant 9: crashes are counted too."""
    state = _landed()
    state.tasks["a"].crash_count = 6
    assert violations(state, Evidence()) == []
    state.tasks["a"].crash_count = 7
    assert _numbers(state, Evidence()) == [9]


def test_an_agent_of_a_running_task_may_live() -> None:
    """Invariant 9: exactly the newest attempt."""
    state = _landed()
    walk(state, "a", "running")
    assert violations(state, Evidence(live=(LiveAttempt("a", 1),))) == []


@pytest.mark.parametrize("live", [LiveAttempt("a", 1), LiveAttempt("b", 1), LiveAttempt("z", 1)])
def test_an_agent_that_should_not_live(live: LiveAttempt) -> None:
    """Invariant 9: an old attempt, a task nobody works on, a task that does not exist."""
    state = _landed()
    walk(state, "a", "running")
    state.apply(failed("a", 1))
    walk(state, "a", "running")
    assert _numbers(state, Evidence(live=(live,))) == [9]


@pytest.mark.parametrize(
    ("evidence", "number"),
    [
        (Evidence(live_without_runner=("pid 7",)), 11),
        (Evidence(fsck_errors=("missing blob",)), 12),
        (Evidence(stale_locks=("packed-refs.new",)), 12),
        (Evidence(checkout_changes=("README.md",)), 16),
    ],
)
def test_what_the_shell_saw_is_said_with_its_number(evidence: Evidence, number: int) -> None:
    """Invariants 11, 12 and 16 come with their evidence."""
    assert _numbers(_landed(), evidence) == [number]


def _recorded(*events: ev.Event) -> list[Recorded]:
    return [Recorded(seq, 0.0, event) for seq, event in enumerate(events, start=1)]


def test_stored_rows_equal_the_fold_of_the_events() -> None:
    """Invariant 8 holds for what a runner writes."""
    of = plan((task("a"),))
    events = (STARTED, ATTACHED, ev.TaskSkipped(task="a"))
    state = replay(of, events)
    assert fold_violations(of, _recorded(*events), state.row, state.take_changed()) == []


def test_a_stored_task_that_its_events_do_not_explain() -> None:
    """Invariant 8: a row that was lost or tampered with."""
    of = plan((task("a"),))
    state = replay(of, (STARTED, ATTACHED))
    found = fold_violations(of, _recorded(STARTED, ATTACHED, ev.TaskSkipped(task="a")), state.row, [])
    assert [violation.sentence for violation in found] == [
        "the stored row of task a is not what its events add up to"
    ]


def test_a_stored_run_that_its_events_do_not_explain() -> None:
    """Invariant 8: the run's own row."""
    of = plan((task("a"),))
    state = replay(of, (STARTED, ATTACHED))
    state.row.epoch = 9
    assert [v.number for v in fold_violations(of, _recorded(STARTED, ATTACHED), state.row, [])] == [8]


def test_a_run_of_an_earlier_version_lacks_times_and_nothing_else() -> None:
    """Rows did not add up how long agents worked. That is nobody's fault; a row with more than its events tell is."""
    of = plan((task("a"),))
    state = begin(of)
    events = [STARTED, ATTACHED, ev.StageOpening(stage="s1"), ev.StageOpened(stage="s1")]
    for event in (start("a", 1), structs.replace(failed("a", 1), duration_s=2.0), start("a", 2)):
        state.apply(event)
        events.append(event)
    row, (counted,) = state.row, state.take_changed()
    uncounted = structs.replace(counted, past=[])
    old = structs.replace(row, worked_s=0.0)
    assert (counted.past, row.worked_s) != (uncounted.past, old.worked_s)
    assert fold_violations(of, _recorded(*events), old, [uncounted]) == []
    assert len(fold_violations(of, _recorded(*events), structs.replace(row, worked_s=9.0), [uncounted])) == 1


def test_events_that_contradict_each_other() -> None:
    """Invariant 8: a history that cannot have happened is reported, not raised."""
    of = plan((task("a"),))
    state = replay(of, (STARTED,))
    impossible = ev.TaskVerified(task="a", attempt=1)
    assert [v.number for v in fold_violations(of, _recorded(STARTED, impossible), state.row, [])] == [8]


def _replaced() -> RunState:
    state = _landed("a", "b")
    for name in ("a", "b"):
        state.apply(ev.LandingReplaced(task=name, commit="squash", proof="tree"))
    state.apply(ev.BranchMoved(commit="squash"))
    return state


def test_a_squashed_landing_is_proved_by_the_commit_it_lives_on_in() -> None:
    """Invariants 1, 2 and 5: the merges are gone from the branch, the change is not."""
    evidence = Evidence(settled=True, branch=BranchFacts(tip="squash"), prepared=frozenset())
    assert violations(_replaced(), evidence) == []
    assert commits_to_keep(_replaced()) == {"squash", "a-head1", "b-head1"}


def test_a_squashed_landing_whose_new_commit_is_off_the_branch_is_not_done() -> None:
    """Invariant 1: also a replacement has to be there."""
    evidence = Evidence(branch=BranchFacts(tip="elsewhere"), off_branch=frozenset({"squash"}))
    assert _numbers(_replaced(), evidence) == [1, 1]
