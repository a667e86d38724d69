"""What people are shown where it differs from what is stored."""

from __future__ import annotations

import pytest

from holdfast.core import events as ev
from holdfast.core.facts import Presence
from holdfast.core.plan import Limits
from holdfast.core.projection import AttemptRow, Report, TaskRow
from holdfast.core.status import FailureKind, RunStatus, TaskStatus
from holdfast.reporting.displayed_status import (
    AgentSign,
    Liveness,
    QueuePlace,
    displayed_run_status,
    displayed_task_statuses,
    is_resumable,
    liveness,
    merge_queue,
    progress_of,
)
from tests.core.builders import begin, done, plan, start, task, walk


def test_what_waits_for_an_abandoned_task_however_far_up_is_blocked() -> None:
    """The stored status stays pending, so that a retry frees them all."""
    state = begin(plan((task("a"), task("b", "a"), task("c", "b"), task("d")), limits=Limits(attempts=1)))
    state.apply(start("a", 1))
    state.apply(ev.AttemptFailed(task="a", attempt=1, token="a-token1", failure=FailureKind.AGENT, error="x"))
    state.apply(ev.TaskAbandoned(task="a", error="x"))
    shown = displayed_task_statuses(state)
    assert [shown[name].value for name in "abcd"] == ["abandoned", "blocked", "blocked", "pending"]
    assert state.tasks["c"].status is TaskStatus.PENDING


def test_a_running_run_that_nobody_holds_was_interrupted() -> None:
    """No heartbeat and no time-out is needed to know it."""
    row = begin(plan((task("a"),))).row
    assert displayed_run_status(row, held=True) is RunStatus.RUNNING
    assert displayed_run_status(row, held=False) is RunStatus.INTERRUPTED


def test_a_run_is_resumable_while_it_is_unfinished_and_free() -> None:
    """A held one is somebody's, a finished one is over."""
    state = begin(plan((task("a"),)))
    assert is_resumable(state.row, held=False)
    assert not is_resumable(state.row, held=True)
    state.apply(ev.RunAbandoned())
    assert not is_resumable(state.row, held=False)


def test_the_merge_queue_is_in_the_order_of_verification() -> None:
    """Those still being checked come last, whatever their place in the plan."""
    state = begin(plan((task("a"), task("b"), task("c"), task("d"))))
    walk(state, "a", "verifying")
    walk(state, "c", "completed")
    walk(state, "b", "verified")
    walk(state, "d", "merging")
    assert [(row.id, place) for row, place in merge_queue(state)] == [
        ("c", QueuePlace.MERGED),
        ("b", QueuePlace.READY),
        ("d", QueuePlace.MERGING),
        ("a", QueuePlace.PENDING),
    ]


def test_progress_says_which_steps_are_behind_a_task() -> None:
    """It rises with the task's life and ends at 100 when it landed."""
    seen = []
    state = begin(plan((task("a"),)))
    for event in (start("a", 1), done("a", 1), ev.TaskVerified(task="a", attempt=1)):
        seen.append(progress_of(state.tasks["a"]))
        state.apply(event)
    state.apply(ev.TaskLanded(task="a", attempt=1, commit="m", head="h"))
    assert [*seen, progress_of(state.tasks["a"])] == [0, 25, 50, 100]


def test_an_attempt_that_left_nothing_counts_as_redone() -> None:
    """One whose work the next attempt builds on does not."""
    state = begin(plan((task("a"),)))
    for number, carry in enumerate(("", "kept"), start=1):
        state.apply(start("a", number))
        state.apply(ev.AttemptLost(task="a", attempt=number, carry=carry))
    assert state.tasks["a"].wasted == 1


@pytest.mark.parametrize(
    ("status", "reported", "shown"),
    [
        ("running", 10, 10),
        ("running", 100, 100),
        ("verifying", 10, 50),
        ("merging", 100, 99),
        ("completed", 40, 100),
    ],
)
def test_reported_progress_is_shown_until_the_tasks_own_steps_say_more(
    status: str, reported: float, shown: int
) -> None:
    """C5: an agent's word counts while it works; only a landing is all of it, and nothing goes backwards after."""
    row = TaskRow(id="a", status=TaskStatus(status), latest=AttemptRow(report=Report(progress=reported)))
    assert progress_of(row) == shown


NOW = 1_000_000.0


@pytest.mark.parametrize(
    ("presence", "silent", "trouble", "in_tool", "expected"),
    [
        (Presence.ALIVE, 5, "", False, Liveness.WORKING),
        (Presence.ALIVE, 90, "", False, Liveness.SLOW),
        (Presence.ALIVE, 90, "", True, Liveness.WORKING),
        (Presence.ALIVE, 400, "", True, Liveness.SLOW),
        (Presence.ALIVE, 5, "limit", False, Liveness.LIMITED),
        (Presence.ALIVE, 900, "limit", False, Liveness.LIMITED),
        (Presence.ALIVE, 5, "permission", False, Liveness.WAITING),
        (Presence.ALIVE, 5, "error", False, Liveness.WORKING),
        (Presence.LOST, 5, "", False, Liveness.DEAD),
        (Presence.ENDED, 5, "limit", False, Liveness.FINISHED),
        (Presence.UNKNOWN, 5, "", False, Liveness.DEAD),
    ],
)
def test_how_it_goes_with_an_agent_is_told_without_asking_it(
    presence: Presence, silent: float, trouble: str, in_tool: bool, expected: Liveness
) -> None:
    """C2: each of the five is seen from outside, and a tool may be silent for longer than a model."""
    task = TaskRow(id="t", latest=AttemptRow(trouble=trouble, in_tool=in_tool))
    assert liveness(task, AgentSign(presence, NOW - silent), NOW) is expected


def test_the_newer_of_log_and_heartbeat_counts() -> None:
    """What the runner wrote down may be newer than what the disk shows, and the other way round."""
    task = TaskRow(id="t", latest=AttemptRow(active_at=NOW - 1))
    assert liveness(task, AgentSign(Presence.ALIVE, NOW - 500), NOW) is Liveness.WORKING
