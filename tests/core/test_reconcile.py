"""What recovery concludes from git and the process table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.core import events as ev
from holdfast.core.facts import BranchFacts, Equivalent, Facts, Landing, Presence, Sighting
from holdfast.core.plan import Task
from holdfast.core.reconcile import reconcile
from holdfast.core.state import RunState
from holdfast.core.status import StageStatus, TaskStatus
from tests.core.builders import begin, plan, start, task, walk


def _landing(name: str, attempt: int = 1) -> Landing:
    merge, head = f"{name}-merge{attempt}", f"{name}-head{attempt}"
    return Landing(task=name, attempt=attempt, commit=merge, head=head, tree=merge)


def _facts(*landed: str, tip: str = "", missing: str = "", **seen: Presence) -> Facts:
    landings = tuple(map(_landing, landed))
    return Facts(
        branch=BranchFacts(tip=tip or (landings[-1].commit if landings else "base"), landings=landings),
        sightings={name: Sighting(presence) for name, presence in seen.items()},
        missing_commits=frozenset({missing} - {""}),
    )


def _recover(state: RunState, facts: Facts) -> list[ev.Event]:
    """Reconcile and apply; a second look must find nothing more."""
    events = reconcile(state, facts)
    for event in events:
        state.apply(event)
    assert reconcile(state, facts) == []
    return events


def test_where_journal_and_facts_agree_there_is_nothing_to_do() -> None:
    """Recovery of a healthy run writes nothing."""
    state = begin(plan((task("a"), task("b"))))
    walk(state, "a", "completed")
    walk(state, "b", "running")
    assert _recover(state, _facts("a", b=Presence.ALIVE)) == []


@pytest.mark.parametrize("upto", ["running", "verifying", "verified", "merging"])
def test_a_landing_that_git_shows_is_believed_whatever_the_journal_says(upto: str) -> None:
    """The branch moved and the crash came before the record of it."""
    state = begin(plan((task("a"),)))
    walk(state, "a", upto)
    _recover(state, _facts("a"))
    assert state.tasks["a"].status is TaskStatus.COMPLETED
    assert state.row.tip == "a-merge1"


def test_a_landing_that_only_the_user_vouches_for_is_recorded_as_such() -> None:
    """The journal lost that it was prepared, and the user took the branch as it is: later that can be told."""
    state = begin(plan((task("a"), task("b"))))
    events = _recover(state, replace(_facts("a", "b"), foreign=("b-merge1",)))
    kinds = [(type(event).__name__, getattr(event, "commit", "")) for event in events]
    assert kinds == [("TaskLanded", "a-merge1"), ("BranchMoved", "b-merge1"), ("TaskLanded", "b-merge1")]


def test_a_whole_run_is_rebuilt_from_git() -> None:
    """An empty journal and a branch full of landings: nothing of it is done again."""
    state = begin(plan((task("a"), task("b", "a")), (task("c"),)))
    _recover(state, _facts("a", "b"))
    assert [state.tasks[name].status for name in "abc"] == ["completed", "completed", "pending"]


def test_a_landing_that_git_does_not_show_is_not_believed() -> None:
    """Somebody took it off the branch: the task counts as not done, and its stage is open again."""
    state = begin(plan((task("a"),)))
    walk(state, "a", "completed")
    for event in (ev.StageClosing(stage="s1"), ev.StageClosed(stage="s1")):
        state.apply(event)
    _recover(state, _facts(tip="base"))
    assert state.tasks["a"].status is TaskStatus.PENDING
    assert state.stage("s1").status is StageStatus.RUNNING
    assert state.row.tip == "base"


def test_a_landing_vanished_while_its_stage_was_closing() -> None:
    """Both are noticed in one recovery without getting in each other's way."""
    state = begin(plan((task("a"),)))
    walk(state, "a", "completed")
    state.apply(ev.StageClosing(stage="s1"))
    _recover(state, _facts(tip="base"))
    assert state.stage("s1").status is StageStatus.RUNNING


def test_a_landing_cut_short_goes_back_to_the_queue() -> None:
    """The branch did not move, so it is simply landed again."""
    state = begin(plan((task("a"),)))
    walk(state, "a", "merging")
    state.apply(ev.MergePrepared(task="a", attempt=1, commit="m", onto="base"))
    assert _recover(state, _facts()) == [ev.LandingInterrupted(task="a", attempt=1)]
    assert state.tasks["a"].latest.prepared == ""


def test_of_a_batch_cut_short_only_what_git_shows_has_landed() -> None:
    """One move of the branch carries the whole batch or nothing; git says which."""
    state = begin(plan((task("a"), task("b"), task("c"))))
    for name in ("a", "b", "c"):
        walk(state, name, "merging")
    _recover(state, _facts("a", "b"))
    assert [state.tasks[name].status for name in "abc"] == ["completed", "completed", "verified"]


@pytest.mark.parametrize("presence", [Presence.ALIVE, Presence.ENDED, Presence.UNKNOWN])
def test_an_agent_that_can_still_be_had_keeps_its_attempt(presence: Presence) -> None:
    """Alive it is joined again, ended it is collected, never launched it is launched: no attempt is wasted."""
    state = begin(plan((task("a"),)))
    walk(state, "a", "running")
    assert _recover(state, _facts(a=presence)) == []


def test_an_agent_that_is_gone_without_a_trace_leaves_its_snapshot() -> None:
    """The next attempt starts from the last work in progress that was saved."""
    state = begin(plan((task("a"),)))
    walk(state, "a", "running")
    state.apply(ev.SnapshotSaved(task="a", attempt=1, commit="wip"))
    _recover(state, _facts(a=Presence.LOST))
    row = state.tasks["a"]
    assert (row.status, row.carry, row.charged) == (TaskStatus.PENDING, "wip", 0)


def test_checks_cut_short_run_again() -> None:
    """Half a verification proves nothing."""
    state = begin(plan((task("a"),), verify=("check",)))
    walk(state, "a", "verifying")
    state.apply(ev.ChecksStarted(task="a", attempt=1))
    assert _recover(state, _facts()) == [ev.ChecksInterrupted(task="a", attempt=1)]
    assert "a" in state.awaiting_checks


def test_work_whose_commit_is_gone_is_done_again() -> None:
    """A power cut took the commit before it was verified; nothing pretends otherwise."""
    state = begin(plan((task("a"),)))
    walk(state, "a", "verifying")
    assert _recover(state, _facts(missing="a-head1")) == [ev.AttemptLost(task="a", attempt=1)]


def test_a_commit_by_somebody_else_becomes_the_ground_to_build_on() -> None:
    """The branch is ahead of our last landing, and the user accepted that: work goes on from where it is."""
    state = begin(plan((task("a"), task("b"))))
    walk(state, "a", "completed")
    assert _recover(state, _facts("a", tip="theirs")) == [ev.BranchMoved(commit="theirs")]
    assert state.row.tip == "theirs"


def test_a_commit_by_somebody_else_on_top_of_an_unrecorded_landing() -> None:
    """First the landing, then the move: the tip ends where the branch is."""
    state = begin(plan((task("a"),)))
    walk(state, "a", "merging")
    _recover(state, _facts("a", tip="theirs"))
    assert state.row.tip == "theirs"


def test_a_landing_of_a_task_that_the_plan_does_not_have_is_left_alone() -> None:
    """Trailers of other runs on the branch are history, not news."""
    state = begin(plan((task("a"),)))
    assert _recover(state, _facts("z", tip="base")) == []


def test_gates_cut_short_are_checked_again() -> None:
    """A gate's result that nobody recorded is no result."""
    state = begin(plan((task("a"),), (task("b"),)))
    walk(state, "a", "completed")
    state.apply(ev.StageClosing(stage="s1"))
    assert _recover(state, _facts("a")) == [ev.StageGateReset(stage="s1", gate="exit")]


def test_a_gate_that_failed_is_checked_again_on_resume() -> None:
    """The user resumes because something was put right."""
    state = begin(plan((task("a"),)))
    walk(state, "a", "completed")
    state.apply(ev.StageClosing(stage="s1"))
    state.apply(ev.StageGateFailed(stage="s1", gate="exit", error="red"))
    assert _recover(state, _facts("a")) == [ev.StageGateReset(stage="s1", gate="exit")]


def test_a_gate_is_reset_also_when_an_earlier_stage_was_reopened() -> None:
    """Else the stage would wait for ever for a check that nobody runs."""
    state = begin(plan((task("a"),), (task("b"),)))
    for event in (ev.TaskSkipped(task="a"), ev.StageClosing(stage="s1"), ev.StageClosed(stage="s1")):
        state.apply(event)
    state.apply(ev.StageOpening(stage="s2"))
    state.apply(ev.TaskRetried(task="a"))
    assert _recover(state, _facts()) == [ev.StageGateReset(stage="s2", gate="entry")]


def test_recovery_of_a_recovery_changes_nothing() -> None:
    """A crash right after recovery, or in the middle of it, is recovered from as if it were the first."""
    state = begin(plan((task("a"), task("b"), task("c"), task("d"))))
    walk(state, "a", "merging")
    walk(state, "b", "merging")
    state.apply(start("c", 1))
    walk(state, "d", "completed")
    assert len(_recover(state, _facts("a", c=Presence.LOST))) == 4


def test_a_landing_that_lives_on_in_another_commit_stays_done() -> None:
    """Squashed or rebased: the proof is recorded once, and nothing is done again."""
    state = begin(plan((task("a"),)))
    walk(state, "a", "completed")
    facts = replace(_facts(tip="squash"), equivalents={"a": Equivalent("squash", "tree")})
    assert _recover(state, facts) == [
        ev.LandingReplaced(task="a", commit="squash", proof="tree"),
        ev.BranchMoved(commit="squash"),
    ]
    assert state.tasks["a"].status is TaskStatus.COMPLETED


def test_a_merge_that_was_made_anew_without_proof_is_taken_for_what_git_shows() -> None:
    """Rebased with other content, and the user accepted that: the recorded landing is gone, another one is there."""
    state = begin(plan((task("a"),)))
    walk(state, "a", "completed")
    other = Landing(task="a", attempt=1, commit="rebased", head="new-head", tree="t")
    _recover(state, Facts(branch=BranchFacts(tip="rebased", landings=(other,))))
    assert (state.tasks["a"].status, state.tasks["a"].merge_commit) == (TaskStatus.COMPLETED, "rebased")


def test_completed_without_a_recorded_commit_is_not_believed() -> None:
    """S5: whatever says so, git does not; the task is open again."""
    state = begin(plan((task("a"),)))
    walk(state, "a", "completed")
    state.tasks["a"].merge_commit = ""
    assert _recover(state, _facts(tip="a-merge1")) == [ev.LandingVanished(task="a", commit="")]


def test_a_command_that_is_gone_without_a_trace_starts_without_its_snapshot() -> None:
    """Its half-done work is named, and the next attempt begins where the lost one began."""
    state = begin(plan((Task(id="a", run=("make",)),)))
    walk(state, "a", "running")
    state.apply(ev.SnapshotSaved(task="a", attempt=1, commit="wip"))
    assert _recover(state, _facts(a=Presence.LOST)) == [ev.AttemptLost(task="a", attempt=1, set_aside="wip")]
    row = state.tasks["a"]
    assert (row.status, row.carry, row.set_aside) == (TaskStatus.PENDING, "", "wip")


def test_a_command_whose_landing_vanished_starts_without_its_own_work() -> None:
    """With that work in place it would have its effect twice."""
    state = begin(plan((Task(id="a", run=("make",)),)))
    walk(state, "a", "completed")
    _recover(state, _facts(tip="base"))
    row = state.tasks["a"]
    assert (row.status, row.carry, row.set_aside) == (TaskStatus.PENDING, "", "a-head1")
