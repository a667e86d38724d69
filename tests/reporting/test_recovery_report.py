"""The recovery report: what is safe, what is redone, how long it takes, from measured facts alone."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core import events as ev
from holdfast.core.event_codec import Recorded
from holdfast.core.plan import Limits, Plan, Task
from holdfast.core.state import RunState, replay
from holdfast.reporting.estimates import attempt_spans, redone_work
from holdfast.reporting.recovery_report import (
    RecoveryReport,
    ResumeAction,
    TaskPreview,
    TaskRecovery,
    UnsavedWork,
    recovery_report,
)
from tests.core.builders import ATTACHED, STARTED, done, failed, plan, start, task

OPEN = (STARTED, ATTACHED, ev.StageOpening(stage="s1"), ev.StageOpened(stage="s1"))


def _recorded(*events: tuple[float, ev.Event]) -> list[Recorded]:
    """Return an open run's history with these events at their times."""
    timed = [*((0.0, event) for event in OPEN), *events]
    return [Recorded(seq, at, event) for seq, (at, event) in enumerate(timed, start=1)]


def _report(
    of: Plan, moves: dict[str, ResumeAction], *events: tuple[float, ev.Event], **seen: UnsavedWork
) -> RecoveryReport:
    recorded = _recorded(*events)
    state = _state(of, recorded)
    forecasts = [TaskPreview(name, moves.get(name, ResumeAction.RUN), "because") for name in state.names]
    return recovery_report(state, forecasts, seen, recorded)


def _state(of: Plan, recorded: Sequence[Recorded]) -> RunState:
    return replay(of, [record.event for record in recorded])


def _only(report: RecoveryReport) -> TaskRecovery:
    (found,) = report.tasks
    return found


def _landed(name: str, seconds: float) -> list[tuple[float, ev.Event]]:
    """Return the straight path of a task whose agent worked for `seconds`."""
    worked = ev.AttemptDone(
        task=name, attempt=1, token=f"{name}-token1", head="h", tree="t", duration_s=seconds
    )
    return [
        (0.0, start(name, 1)),
        (0.0, worked),
        (0.0, ev.TaskVerified(task=name, attempt=1)),
        (0.0, ev.LandingStarted(task=name, attempt=1)),
        (0.0, ev.TaskLanded(task=name, attempt=1, commit=f"{name}-merge", head="h")),
    ]


def test_a_lost_attempt_is_redone_from_its_last_snapshot_at_most() -> None:
    """C8: what came after the snapshot may be lost, nothing else."""
    saved = ev.SnapshotSaved(task="A", attempt=1, commit="wip")
    events = ((10.0, start("A", 1)), (40.0, saved))
    found = _only(
        _report(plan((task("A"),)), {"A": ResumeAction.REDO}, *events, A=UnsavedWork(0, heard=52.0))
    )
    assert (found.redo_s, found.snapshot, found.landed) == (12.0, "wip", None)
    assert "continues from wip" in found.why


def test_an_attempt_without_a_snapshot_may_lose_all_since_its_start() -> None:
    """No snapshot, no workspace: the honest figure is everything."""
    found = _only(
        _report(
            plan((task("A"),)),
            {"A": ResumeAction.REDO},
            (10.0, start("A", 1)),
            A=UnsavedWork(None, heard=25.0),
        )
    )
    assert found.redo_s == 15.0


def test_an_agent_that_lives_or_ended_loses_nothing() -> None:
    """It is re-attached or collected."""
    for move in (ResumeAction.REATTACH, ResumeAction.COLLECT):
        report = _report(plan((task("A"),)), {"A": move}, (10.0, start("A", 1)), A=UnsavedWork(2, heard=99.0))
        assert report.redo_s == 0.0


def test_progress_file_line_and_sections_are_those_that_were_reported() -> None:
    """C8: last file and line, as the agent said them."""
    said = ev.ProgressReported(
        task="A", attempt=1, progress=80.0, file="src/a.py", line=127, section_done="one", section_next="two"
    )
    found = _only(_report(plan((task("A"),)), {"A": ResumeAction.REDO}, (1.0, start("A", 1)), (2.0, said)))
    assert (found.progress, found.file, found.line) == (80.0, "src/a.py", 127)
    assert (found.section_done, found.section_next) == ("one", "two")


def test_an_attempt_below_the_threshold_starts_clean_and_is_redone_whole() -> None:
    """C7: too early to be worth going on from."""
    early = ev.ProgressReported(task="A", attempt=1, progress=5.0)
    saved = ev.SnapshotSaved(task="A", attempt=1, commit="wip")
    events = ((10.0, start("A", 1)), (20.0, early), (40.0, saved))
    found = _only(
        _report(plan((task("A"),)), {"A": ResumeAction.REDO}, *events, A=UnsavedWork(1, heard=50.0))
    )
    assert (found.redo_s, "starts clean" in found.why) == (40.0, True)


def test_a_clock_set_back_never_makes_negative_work() -> None:
    """Wall-clock times are shown, so nonsense must not be."""
    found = _only(
        _report(
            plan((task("A"),)),
            {"A": ResumeAction.REDO},
            (10.0, start("A", 1)),
            A=UnsavedWork(0, heard=-86_400.0),
        )
    )
    assert found.redo_s == 0.0


def test_the_time_to_finish_is_unknown_before_anything_finished() -> None:
    """C8: no data, no figure."""
    assert _report(plan((task("A"),)), {}).finish_s is None


def test_the_time_to_finish_follows_chains_jobs_and_stages() -> None:
    """Two jobs, ten seconds a task: three side by side are 15 s, then a chain of two in the next stage 20 s."""
    first = tuple(task(name) for name in "ABCD")
    of = plan(first, (task("E"), task("F", "E")), limits=Limits(jobs=2))
    report = _report(of, {"A": ResumeAction.SKIP}, *_landed("A", 10.0))
    assert (report.finish_s, report.measured) == (35.0, 1)


def test_reported_progress_shortens_what_is_left() -> None:
    """An agent at 75 % needs a quarter of the time."""
    of = plan((task("A"), task("B")))
    said = ev.ProgressReported(task="B", attempt=1, progress=75.0)
    history = [*_landed("A", 40.0), (1.0, start("B", 1, workspace=1)), (2.0, said)]
    assert _report(of, {"A": ResumeAction.SKIP, "B": ResumeAction.REATTACH}, *history).finish_s == 10.0


def test_failed_and_abandoned_tasks_are_named_for_a_restart() -> None:
    """C8: "restart failed only" has to know which."""
    of = plan((task("A"), task("B"), task("C")))
    history = (
        (1.0, start("A", 1)),
        (2.0, failed("A", 1)),
        (3.0, start("B", 1)),
        (4.0, failed("B", 1)),
        (5.0, ev.TaskAbandoned(task="B", error="x")),
    )
    report = _report(of, {"B": ResumeAction.SKIP}, *history)
    assert (report.failed, report.undecided) == (("A", "B"), 1)


def test_redone_work_is_what_left_nothing_behind() -> None:
    """The recap counts attempts thrown away, their seconds and their money; kept work is not redone."""
    cost = ev.ProgressReported(task="A", attempt=1, cost_usd=0.25)
    recorded = _recorded(
        (10.0, start("A", 1)),
        (12.0, cost),
        (16.0, ev.AttemptLost(task="A", attempt=1, cause="stop")),
        (20.0, start("A", 2)),
        (29.0, ev.AttemptLost(task="A", attempt=2, carry="kept", cause="stop")),
    )
    found = redone_work(attempt_spans(recorded, restart_below=10.0))
    assert (found.attempts, found.seconds, found.cost_usd) == (1, 6.0, 0.25)
    assert found.attempts == _state(plan((task("A"),)), recorded).tasks["A"].wasted


def test_an_attempt_lost_to_a_crash_lasted_until_the_last_record_before_it() -> None:
    """Nobody worked while the machine was down."""
    recorded = _recorded(
        (10.0, start("A", 1)),
        (15.0, ev.ProgressReported(task="A", attempt=1, summary="on it")),
        (900.0, ATTACHED),
        (900.0, ev.AttemptLost(task="A", attempt=1)),
    )
    (span,) = attempt_spans(recorded, restart_below=10.0)
    assert (span.seconds, span.thrown_away) == (5.0, True)


def test_money_nobody_spoke_of_is_unknown_not_nothing() -> None:
    """Null is honest; zero would be a claim."""
    recorded = _recorded((1.0, start("A", 1)), (2.0, ev.AttemptLost(task="A", attempt=1, cause="stop")))
    assert redone_work(attempt_spans(recorded, 10.0)).cost_usd is None
    assert (
        redone_work(attempt_spans(_recorded((1.0, start("A", 1)), (2.0, done("A", 1))), 10.0)).attempts == 0
    )


def test_a_lost_command_is_redone_whole_and_says_so() -> None:
    """A snapshot of a command is kept, and saves nothing of the work."""
    saved = ev.SnapshotSaved(task="A", attempt=1, commit="wip")
    said = ev.ProgressReported(task="A", attempt=1, progress=80.0)
    events = (*_landed("B", 100.0), (10.0, start("A", 1)), (30.0, said), (40.0, saved))
    of = plan((task("B"), Task(id="A", run=("make",))))
    report = _report(
        of, {"A": ResumeAction.REDO, "B": ResumeAction.SKIP}, *events, A=UnsavedWork(0, heard=52.0)
    )
    found = report.tasks[1]
    assert (found.redo_s, report.finish_s) == (42.0, 100.0)
    assert (
        found.why == "attempt 1 was cut short; it starts again from the run branch; what it had done is kept"
    )
