"""Finished work that cannot be judged without a person: it waits, and is verified again without being done again."""

from __future__ import annotations

import pytest

from holdfast.core import events as ev
from holdfast.core.commands import CheckTask, RecordEvent
from holdfast.core.decide import decide
from holdfast.core.facts import BranchFacts, Facts
from holdfast.core.plan import Limits
from holdfast.core.projection import Score
from holdfast.core.reconcile import reconcile
from holdfast.core.state import RunState
from holdfast.core.status import FailureKind, TaskStatus
from holdfast.core.task_transitions import IllegalEventError
from tests.core.builders import begin, plan, settle, task, walk

_BLOCKED = ev.VerificationBlocked(
    task="a", attempt=1, failure=FailureKind.ENVIRONMENT, error="pytset: not found", detail="sh: 1: pytset"
)


def _waiting(*more: str, jobs: int = 4) -> RunState:
    """Return a run in which the finished work of task `a` waits for a person; `more` tasks are behind it."""
    tasks = (task("a", verify=("pytset",)), *(task(name) for name in more))
    state = begin(plan(tasks, limits=Limits(jobs=jobs)))
    walk(state, "a", "verifying")
    state.apply(_BLOCKED)
    return state


def _resumed(state: RunState) -> RunState:
    state.apply(ev.RunnerAttached(epoch=state.row.epoch + 1, pid=1, host="host", boot_id="boot"))
    return state


def _events(state: RunState) -> list[ev.Event]:
    return [one.event for one in decide(state, 0.0) if isinstance(one, RecordEvent)]


def test_waiting_work_charges_nothing_and_is_kept() -> None:
    """The task waits with its commit, without a workspace, and says why."""
    row = _waiting().tasks["a"]
    assert (row.status, row.charged, row.latest.head, row.latest.workspace_number) == (
        TaskStatus.BLOCKED,
        0,
        "a-head1",
        -1,
    )
    assert row.error == "pytset: not found"


def test_waiting_work_waits_for_a_person() -> None:
    """The same runner does not try again: the run rests with the reason."""
    assert _events(_waiting()) == [ev.RunBlocked(reason="a: pytset: not found")]


def test_resume_verifies_the_waiting_work_again_without_an_agent() -> None:
    """Its checks run on the very commit; no attempt is started."""
    state = _resumed(_waiting())
    restarted = ev.VerificationRestarted(task="a", attempt=1, workspace_number=0)
    assert _events(state) == [restarted]
    state.apply(restarted)
    assert decide(state, 0.0) == [CheckTask("a", 1)]
    assert state.tasks["a"].latest.head == "a-head1"


def test_retry_under_a_live_runner_verifies_the_waiting_work_again() -> None:
    """The user need not end the runner."""
    state = _waiting()
    state.apply(ev.TaskRetried(task="a"))
    assert _events(state) == [ev.VerificationRestarted(task="a", attempt=1, workspace_number=0)]
    assert settle(state) == []
    assert state.tasks["a"].latest.checking


def test_waiting_work_takes_a_workspace_like_any_active_task() -> None:
    """With one job, nothing else starts while it is verified again; it comes before new work."""
    state = _resumed(_waiting("b", jobs=1))
    assert settle(state) == []
    assert [*state.active] == ["a"]


def test_waiting_work_shares_no_workspace_with_what_starts_beside_it() -> None:
    """Numbers are given out once."""
    state = _resumed(_waiting("b", "c"))
    assert settle(state) == ["b", "c"]
    assert sorted(row.latest.workspace_number for row in state.active.values()) == [0, 1, 2]


def test_scores_that_exist_are_kept() -> None:
    """A validator that has judged this work is not asked again."""
    state = begin(plan((task("a"),)))
    walk(state, "a", "verifying")
    state.apply(ev.ValidatorScored(task="a", attempt=1, validator="v", score=0.9))
    state.apply(_BLOCKED)
    settle(_resumed(state))
    assert state.tasks["a"].latest.scores == {"v": Score(score=0.9)}


def test_a_reset_does_the_work_again() -> None:
    """`reset` starts from the beginning; nothing waits any more."""
    state = _resumed(_waiting())
    state.apply(ev.TaskRewound(task="a"))
    assert settle(state) == ["a"]


def test_a_skipped_task_is_verified_again_once_it_is_retried() -> None:
    """Its work is still there."""
    state = _resumed(_waiting())
    state.apply(ev.TaskSkipped(task="a"))
    assert not state.awaiting_restart
    state.apply(ev.TaskRetried(task="a"))
    assert [*state.awaiting_restart] == ["a"]


def test_waiting_work_whose_commit_is_gone_is_done_again() -> None:
    """What cannot be verified any more counts as lost; recovery says so once."""
    state = _resumed(_waiting())
    facts = Facts(branch=BranchFacts("base"), missing_commits=frozenset({"a-head1"}))
    found = reconcile(state, facts)
    assert found == [ev.AttemptLost(task="a", attempt=1)]
    state.apply_all(found)
    assert reconcile(state, facts) == []
    assert settle(state) == ["a"]


def test_nothing_is_verified_again_that_does_not_wait() -> None:
    """Neither a new task nor one that was cut short has finished work, and no loss counts twice."""
    state = begin(plan((task("a"),)))
    walk(state, "a", "running")
    state.apply(ev.AttemptLost(task="a", attempt=1))
    for event in (
        ev.VerificationRestarted(task="a", attempt=1, workspace_number=0),
        ev.AttemptLost(task="a", attempt=1),
    ):
        with pytest.raises(IllegalEventError, match="no finished work"):
            state.apply(event)
