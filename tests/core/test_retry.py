"""When a failed task is tried again, and when it is given up."""

from __future__ import annotations

import pytest

from holdfast.core.plan import Limits
from holdfast.core.projection import AttemptRow, Failure, TaskRow
from holdfast.core.retry import (
    LOSSES_PER_ATTEMPT,
    FailureClass,
    class_of,
    delay_after,
    kind_of_next_attempt,
    losses_allowed,
    makes_no_progress,
    reason_to_give_up,
)
from holdfast.core.status import AttemptKind, FailureKind


def test_a_task_is_tried_again_while_attempts_are_left() -> None:
    """One failure less than the limit is not the end."""
    assert reason_to_give_up(TaskRow(id="a", charged=2), Limits(attempts=3)) == ""


def test_a_task_is_abandoned_when_its_attempts_are_used() -> None:
    """The reason says how often it failed and what the last failure was."""
    reason = reason_to_give_up(TaskRow(id="a", charged=3, error="tests are red"), Limits(attempts=3))
    assert reason == "failed 3 times; last: tests are red"


def test_losses_are_bounded_more_generously_than_failures() -> None:
    """A crash is rarely the task's fault, yet not for ever."""
    limits = Limits(attempts=2)
    most = losses_allowed(limits)
    assert most == 2 * LOSSES_PER_ATTEMPT
    assert not reason_to_give_up(TaskRow(id="a", crash_count=most - 1), limits)
    assert reason_to_give_up(TaskRow(id="a", crash_count=most), limits)


@pytest.mark.parametrize("kind", [kind for kind in FailureKind if class_of(kind) is FailureClass.CODE])
def test_a_failure_of_the_work_is_retried_at_once(kind: FailureKind) -> None:
    """Waiting makes no wrong code right."""
    assert delay_after(kind, charged=3, base_s=1.0) == 0.0


def test_trouble_of_the_machine_is_waited_out_twice_as_long_each_time() -> None:
    """The waiting time doubles from its base."""
    waits = [delay_after(FailureKind.ENVIRONMENT, charged, base_s=1.5) for charged in (1, 2, 3)]
    assert waits == [1.5, 3.0, 6.0]


def test_no_waiting_time_exceeds_a_minute() -> None:
    """A user watching should never wonder whether it hangs."""
    assert delay_after(FailureKind.ENVIRONMENT, charged=50, base_s=1.0) == 60.0


def _after(failure: FailureKind, then: AttemptKind | None = None, head: str = "") -> TaskRow:
    """Return a task whose first attempt failed, and whose second, if there was one, did not."""
    failures = [Failure(attempt=1, kind=failure, error="it broke")]
    latest = AttemptRow(kind=then or AttemptKind.IMPLEMENTATION, head=head)
    return TaskRow(id="a", carry="commit", attempt=2 if then else 1, failures=failures, latest=latest)


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        (TaskRow(id="a"), AttemptKind.IMPLEMENTATION),
        (TaskRow(id="a", carry="commit"), AttemptKind.CONTINUATION),
        (_after(FailureKind.CHECK), AttemptKind.FIX),
        (_after(FailureKind.TIMEOUT), AttemptKind.FIX),
        (_after(FailureKind.PERMISSION), AttemptKind.CONTINUATION),
        (_after(FailureKind.CHECK, then=AttemptKind.FIX), AttemptKind.FIX),
        (_after(FailureKind.CHECK, then=AttemptKind.PERSON), AttemptKind.CONTINUATION),
        (_after(FailureKind.CHECK, then=AttemptKind.FIX, head="commit"), AttemptKind.CONTINUATION),
        (TaskRow(id="a", carry="commit", conflict="commit"), AttemptKind.CONFLICT),
    ],
)
def test_the_next_agent_is_asked_for_what_is_missing(row: TaskRow, kind: AttemptKind) -> None:
    """New work, more of the same, a repair of what failed, or both sides of a conflict."""
    assert kind_of_next_attempt(row) is kind


def _failed_twice(kind: FailureKind, *trees: str, forgiven: int = 0) -> TaskRow:
    failures = [Failure(attempt=n, kind=kind, error="it broke", tree=tree) for n, tree in enumerate(trees, 1)]
    return TaskRow(id="a", charged=len(trees), failures=failures, forgiven=forgiven)


def test_the_same_failure_on_the_same_tree_twice_is_no_progress() -> None:
    """A third attempt would only cost money: a person looks at it."""
    task = _failed_twice(FailureKind.CHECK, "tree", "tree")
    assert makes_no_progress(task)
    assert "no progress" in reason_to_give_up(task, Limits(attempts=5))


def test_another_tree_is_progress() -> None:
    """The agent tried something else, so it may go on."""
    assert not makes_no_progress(_failed_twice(FailureKind.CHECK, "tree", "other"))


@pytest.mark.parametrize("kind", [FailureKind.ENVIRONMENT, FailureKind.KILLED])
def test_trouble_of_the_machine_is_never_taken_for_lack_of_progress(kind: FailureKind) -> None:
    """A command that cannot start says nothing about the work."""
    assert not makes_no_progress(_failed_twice(kind, "tree", "tree"))


def test_what_the_user_forgave_is_forgotten() -> None:
    """After a reset the task has all its chances again."""
    assert not makes_no_progress(_failed_twice(FailureKind.CHECK, "tree", "tree", forgiven=2))
