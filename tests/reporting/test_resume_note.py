"""The resume note: true for who comes back to it, and its commands lead on."""

from __future__ import annotations

from holdfast.core import events as ev
from holdfast.core.state import RunState, replay
from holdfast.core.status import FailureKind
from holdfast.reporting.resume_note import resume_note
from tests.core.builders import ATTACHED, STARTED, plan, start, task

OPENED = (STARTED, ATTACHED, ev.StageOpening(stage="s1"), ev.StageOpened(stage="s1"))


def _resting() -> RunState:
    lost = ev.AttemptLost(task="b", attempt=1, cause="stop")
    given_up = ev.TaskAbandoned(task="a", error="failed once; last: exited with 3")
    failed = ev.AttemptFailed(
        task="a", attempt=1, token="a-token1", failure=FailureKind.AGENT, error="exited with 3"
    )
    events = [
        *OPENED,
        start("a", 1),
        start("b", 1),
        failed,
        given_up,
        lost,
        ev.RunBlocked(reason="stage s1 stopped: a abandoned"),
    ]
    return replay(plan((task("a"), task("b"))), events)


def test_an_abandoned_task_is_not_under_way_and_stands_before_resume() -> None:
    """A `resume` alone would rest again at once."""
    note = resume_note(_resting(), {}, "today")
    abandoned, under_way = note.index("## Abandoned (1)"), note.index("## Under way (1)")
    assert abandoned < note.index("- a: ") < under_way < note.index("- b: ")
    assert note.index("holdfast retry 1 a") < note.index("holdfast resume 1")


def test_the_reason_of_the_rest_is_a_sentence() -> None:
    """What follows it begins a new one."""
    assert "stage s1 stopped: a abandoned. Written today." in resume_note(_resting(), {}, "today")
