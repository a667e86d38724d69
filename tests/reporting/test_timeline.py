"""A run over time: every attempt has one bar, crashes and waits have bands, and no end is invented."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from holdfast.core import events as ev
from holdfast.core.event_codec import Recorded
from holdfast.core.plan import Plan
from holdfast.core.state import replay
from holdfast.core.status import ParkReason, TaskStatus
from holdfast.reporting.spending import attempts_of
from holdfast.reporting.timeline import STEPS, LostTime, Timeline, TimelineBar, lost_time, timeline
from holdfast.views.inspection import attempts_by_task
from tests.core.builders import ATTACHED, STARTED, done, failed, plan, start, task
from tests.core.simulation.simulation import Simulation

OPENED = (ev.StageOpening(stage="s1"), ev.StageOpened(stage="s1"))
ONE = plan((task("a"),))
TWO = plan((task("a"), task("b")))
AGAIN = ev.RunnerAttached(epoch=2, pid=2, host="host", boot_id="boot")
LIMIT = ev.ProviderParked(provider="p", until=500.0, wait_s=400.0, clock=1.0, words="p is at its limit")


def _recorded(*timed: tuple[float, ev.Event]) -> list[Recorded]:
    """Return a run that began at 0 with these events after it."""
    first = [(0.0, STARTED), (1.0, ATTACHED), *((2.0, event) for event in OPENED)]
    return [Recorded(seq, at, event) for seq, (at, event) in enumerate((*first, *timed), start=1)]


def _timeline(of: Plan, *timed: tuple[float, ev.Event], now: float = 1_000.0, held: bool = False) -> Timeline:
    recorded = _recorded(*timed)
    state = replay(of, (record.event for record in recorded))
    return timeline(recorded, state, now, held)


def _bars(view: Timeline, name: str = "a") -> list[TimelineBar]:
    return next(lane.bars for lane in view.lanes if lane.task == name)


def _landing(name: str, at: float, number: int = 1) -> Sequence[tuple[float, ev.Event]]:
    return (
        (at, ev.TaskVerified(task=name, attempt=number)),
        (at + 1, ev.LandingStarted(task=name, attempt=number)),
        (at + 2, ev.TaskLanded(task=name, attempt=number, commit="c0ffee" * 6, head=f"{name}-head{number}")),
    )


def test_a_lane_has_attempts_named_by_kind_with_what_became_of_them() -> None:
    """Names on bars: an attempt, its checks, its landing."""
    view = _timeline(
        ONE,
        (10.0, start("a", 1, agent="claude")),
        (20.0, failed("a", 1)),
        (30.0, start("a", 2, agent="claude")),
        (60.0, done("a", 2)),
        (61.0, ev.ChecksStarted(task="a", attempt=2)),
        *_landing("a", 70.0, 2),
    )
    told = [(bar.kind, bar.attempt, bar.begin, bar.end, bar.outcome) for bar in _bars(view)]
    assert told == [
        ("implementation", 1, 10.0, 20.0, "failed"),
        ("implementation", 2, 30.0, 60.0, "landed"),
        ("checks", 2, 61.0, 70.0, "passed"),
        ("landing", 2, 71.0, 72.0, "landed"),
    ]
    assert _bars(view)[0].label == "attempt 1 (implementation) by claude: it broke"


def test_what_is_under_way_has_no_end_while_a_runner_lives() -> None:
    """An end that nobody knows is not drawn."""
    view = _timeline(ONE, (10.0, start("a", 1)), now=50.0, held=True)
    assert [(bar.end, bar.outcome) for bar in _bars(view)] == [(None, "under way")]
    assert (view.begin, view.end) == (0.0, 50.0)


def test_without_a_runner_an_attempt_counts_until_the_last_sign_and_the_crash_goes_on() -> None:
    """What happened since is unknown, however long ago it was."""
    view = _timeline(ONE, (10.0, start("a", 1)), (15.0, ev.AgentObserved(task="a", attempt=1)), now=9_000.0)
    assert [(bar.end, bar.outcome) for bar in _bars(view)] == [(15.0, "interrupted")]
    assert [(band.kind, band.begin, band.end) for band in view.bands] == [("crash", 15.0, None)]
    assert view.end == 15.0


def test_a_crash_reaches_from_the_last_sign_of_a_runner_to_the_next_one() -> None:
    """What people decide in between is no sign of life."""
    view = _timeline(
        TWO,
        (10.0, start("a", 1)),
        (20.0, failed("a", 1)),
        (50.0, ev.TaskRetried(task="a")),
        (90.0, AGAIN),
    )
    assert [(band.kind, band.begin, band.end) for band in view.bands if band.end] == [("crash", 20.0, 90.0)]


def test_an_attempt_that_a_crash_cut_short_ends_with_the_runner_and_not_when_it_was_found() -> None:
    """The next runner may come a day later."""
    lost = ev.AttemptLost(task="a", attempt=1)
    view = _timeline(
        ONE,
        (10.0, start("a", 1)),
        (15.0, ev.AgentObserved(task="a", attempt=1)),
        (9_000.0, AGAIN),
        (9_001.0, lost),
    )
    assert [(bar.end, bar.outcome) for bar in _bars(view)] == [(15.0, "lost")]


def test_an_agent_that_ended_well_while_no_runner_lived_ended_when_it_did() -> None:
    """It worked for a minute and was found an hour later."""
    ended = ev.AttemptDone(task="a", attempt=1, token="a-token1", head="h", tree="t", duration_s=60.0)
    view = _timeline(ONE, (10.0, start("a", 1)), (3_600.0, AGAIN), (3_601.0, ended))
    assert [(bar.end, bar.outcome) for bar in _bars(view)] == [(70.0, "done")]


def test_a_reboot_is_told_from_a_crash() -> None:
    """The same band, in other words."""
    rebooted = ev.RunnerAttached(epoch=2, pid=2, host="host", boot_id="another")
    labels = [_timeline(ONE, (9.0, event)).bands[0].label for event in (AGAIN, rebooted)]
    assert labels == ["its runner was gone", "the machine restarted"]


def test_a_wait_for_a_limit_ends_with_the_first_agent_that_starts_through_the_provider() -> None:
    """Others that meet the same limit make the band no second time."""
    view = _timeline(
        TWO,
        (10.0, LIMIT),
        (11.0, LIMIT),
        (600.0, start("a", 1, provider="other")),
        (700.0, start("b", 1, workspace=1, provider="p")),
    )
    assert [(b.kind, b.begin, b.end) for b in view.bands if b.kind != "crash"] == [("limit", 10.0, 700.0)]


@pytest.mark.parametrize(("now", "end"), [(400.0, None), (800.0, 500.0)])
def test_a_wait_for_a_limit_that_nobody_tried_since_ends_when_the_provider_said(
    now: float, end: float | None
) -> None:
    """Its recorded end, once that has come; none before."""
    assert _timeline(ONE, (10.0, LIMIT), now=now, held=True).bands[0].end == end


def test_an_outage_begins_when_it_began_and_ends_with_the_answer() -> None:
    """It is noticed later than it begins."""
    parked = ev.ProviderParked(
        provider="p", until=90.0, wait_s=9.0, clock=1.0, reason=ParkReason.OUTAGE, since=40.0, words="away"
    )
    answered = ev.ProviderAnswered(provider="p")
    view = _timeline(ONE, (50.0, parked), (80.0, answered), now=99.0, held=True)
    assert [(b.kind, b.begin, b.end, b.label) for b in view.bands] == [("outage", 40.0, 80.0, "away")]


def test_a_pause_and_a_stop_last_until_the_next_runner() -> None:
    """One that goes on has no end."""
    view = _timeline(ONE, (10.0, ev.RunPaused()), (20.0, AGAIN), (30.0, ev.RunStopped()))
    told = [(band.kind, band.begin, band.end, band.label) for band in view.bands]
    assert told == [("pause", 10.0, 20.0, "paused"), ("pause", 30.0, None, "stopped")]


def test_a_run_that_stops_at_a_limit_waits_for_the_limit() -> None:
    """Nobody paused it."""
    view = _timeline(ONE, (10.0, LIMIT), (11.0, ev.RunBlocked(reason="p is at its limit")), (90.0, AGAIN))
    assert [(b.kind, b.end) for b in view.bands if b.begin == 11.0] == [("limit", 90.0)]


def test_questions_retries_skips_and_landings_are_marks_with_the_number_of_their_event() -> None:
    """A mark leads to the event that it stands for."""
    asked = ev.QuestionAsked(task="a", attempt=1, question="which\nport?")
    view = _timeline(TWO, (10.0, start("a", 1)), (11.0, asked), (12.0, ev.TaskSkipped(task="b")))
    marks = {lane.task: [(m.seq, m.at, m.kind, m.label) for m in lane.marks] for lane in view.lanes}
    assert marks == {
        "a": [(6, 11.0, "question", "asks: which port?")],
        "b": [(7, 12.0, "skip", "skipped by a person")],
    }


def test_an_amendment_is_a_mark_of_the_whole_run() -> None:
    """It is about no task by itself."""
    view = _timeline(ONE, (10.0, ev.PlanAmended(plan=TWO, plan_hash="other")))
    assert [(mark.kind, mark.at) for mark in view.marks] == [("amendment", 10.0)]


def test_time_is_lost_only_while_no_agent_works() -> None:
    """An agent that outlives its runner, or works through another provider, loses nothing."""
    ended = ev.AttemptDone(task="a", attempt=1, token="a-token1", head="h", tree="t", duration_s=30.0)
    view = _timeline(
        TWO,
        (10.0, start("a", 1, provider="other")),
        (20.0, ev.AgentObserved(task="a", attempt=1)),
        (100.0, AGAIN),
        (101.0, ended),
        (200.0, LIMIT),
        (500.0, start("b", 1, workspace=1, provider="p")),
        now=600.0,
        held=True,
    )
    assert lost_time(view) == LostTime(crashes_s=60.0, limits_s=300.0)


def test_a_clock_that_was_set_back_makes_no_bar_of_negative_length() -> None:
    """Wall times are told, never judged by."""
    view = _timeline(ONE, (100.0, start("a", 1)), (40.0, done("a", 1)), (30.0, AGAIN))
    assert all(bar.end is not None and bar.end >= bar.begin for bar in _bars(view))
    assert all(band.end is None or band.end >= band.begin for band in view.bands)


@pytest.mark.parametrize("seed", range(60))
def test_every_attempt_of_a_run_under_faults_has_one_bar_that_ends_as_inspect_says(seed: int) -> None:
    """Crashes, power cuts, limits and people: what the journal knows is in the picture, once."""
    simulation = Simulation(seed, meddle=seed % 2 == 1)
    simulation.run()
    events = simulation.journal.events()
    recorded = [Recorded(seq, 10.0 * seq, event) for seq, event in enumerate(events, start=1)]
    state = replay(simulation.journal.first_plan, events)
    view = timeline(recorded, state, 10.0 * len(events), held=False)
    bars = {
        (lane.task, bar.attempt): bar for lane in view.lanes for bar in lane.bars if bar.kind not in STEPS
    }
    begun = Counter((e.task, e.attempt) for e in events if isinstance(e, ev.AttemptStarted))
    drawn = Counter((lane.task, b.attempt) for lane in view.lanes for b in lane.bars if b.kind not in STEPS)
    assert begun == drawn
    assert {(row.id, one.attempt) for row in state.tasks.values() for one in attempts_of(row)} <= bars.keys()
    for name, attempts in attempts_by_task(recorded).items():
        for one in attempts:
            outcome = bars[name, one.attempt].outcome
            assert outcome == ("interrupted" if one.outcome == "under way" else one.outcome)
    landed = {lane.task for lane in view.lanes if any(mark.kind == "landed" for mark in lane.marks)}
    assert landed >= {n for n, row in state.tasks.items() if row.status is TaskStatus.COMPLETED}
    for lane in view.lanes:
        for bar in lane.bars:
            assert bar.end is not None
            assert view.begin <= bar.begin <= bar.end <= view.end
