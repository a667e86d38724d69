"""A run in curves: the last point is what the run's rows say, and no curve has more points than a screen shows."""

from __future__ import annotations

import pytest

from holdfast.core import events as ev
from holdfast.core.event_codec import Recorded
from holdfast.core.state import replay
from holdfast.core.status import AttemptKind, TaskStatus
from holdfast.reporting.charts import POINTS_MAX, Charts, Series, charts
from tests.core.builders import ATTACHED, STARTED, done, start
from tests.core.simulation.simulation import Simulation


def _recorded(*timed: tuple[float, ev.Event]) -> list[Recorded]:
    first = ((0.0, STARTED), (1.0, ATTACHED))
    return [Recorded(seq, at, event) for seq, (at, event) in enumerate((*first, *timed), start=1)]


def _series(view: Charts) -> dict[str, Series]:
    return {series.name: series for series in view.series}


def _observed(tokens: int, cost: float = 0.0, attempt: int = 1) -> ev.AgentObserved:
    return ev.AgentObserved(task="a", attempt=attempt, tokens=tokens, cost_usd=cost)


@pytest.mark.parametrize("seed", range(40))
def test_the_last_points_are_what_the_rows_of_the_run_say(seed: int) -> None:
    """Under faults and people's decisions, too: the curves are another view of the same events."""
    simulation = Simulation(seed, meddle=seed % 2 == 1)
    simulation.run()
    events = simulation.journal.events()
    state = replay(simulation.journal.first_plan, events)
    recorded = [Recorded(seq, float(seq), event) for seq, event in enumerate(events, start=1)]
    view = charts(recorded, 1e6, state.plan.limits.restart_below)
    last = {series.name: series.points[-1][1] if series.points else 0.0 for series in view.series}
    assert last["landed"] == sum(row.status is TaskStatus.COMPLETED for row in state.tasks.values())
    assert last["tokens"] == state.row.tokens
    assert last["cost_usd"] == pytest.approx(state.row.cost_usd, abs=1e-5)
    working = [row for row in state.tasks.values() if row.status is TaskStatus.RUNNING]
    assert last["agents"] == sum(row.latest.kind is not AttemptKind.PERSON for row in working)
    if not any(isinstance(event, ev.PlanAmended) for event in events):  # dropped tasks have no row
        assert last["redone"] == sum(row.wasted for row in state.tasks.values())


def test_each_curve_is_a_stair_from_the_beginning_until_now() -> None:
    """Only its steps are points, with where it stands now as the last."""
    view = charts(_recorded((10.0, start("a", 1)), (20.0, _observed(5)), (30.0, _observed(5))), 90.0)
    series = _series(view)
    assert series["tokens"].points == ((0.0, 0.0), (20.0, 5.0), (90.0, 5.0))
    assert series["agents"].points == ((0.0, 0.0), (10.0, 1.0), (90.0, 1.0))
    assert [(one.name, one.unit) for one in view.series] == [
        ("landed", "tasks"),
        ("tokens", "tokens"),
        ("cost_usd", "USD"),
        ("agents", "agents"),
        ("redone", "attempts"),
    ]


def test_money_that_no_agent_told_is_unknown_and_not_zero() -> None:
    """An agent that names tokens need not name money."""
    series = _series(charts(_recorded((10.0, start("a", 1)), (20.0, _observed(5))), 90.0))
    assert series["cost_usd"].points == ()


def test_what_an_agent_tells_in_two_ways_counts_once() -> None:
    """Its stream and its reports are of the same work."""
    report = ev.ProgressReported(task="a", attempt=1, tokens=7)
    series = _series(charts(_recorded((1.0, start("a", 1)), (2.0, _observed(5)), (3.0, report)), 9.0))
    assert series["tokens"].points[-1] == (9.0, 7.0)


def test_a_landing_that_vanished_is_taken_back() -> None:
    """The curve says what is on the branch, not what ever was."""
    landed = ev.TaskLanded(task="a", attempt=1, commit="commit", head="head")
    gone = ev.LandingVanished(task="a", commit="commit")
    series = _series(charts(_recorded((5.0, landed), (6.0, gone)), 9.0))
    assert [value for _, value in series["landed"].points] == [0.0, 1.0, 0.0, 0.0]


def test_a_person_at_work_is_no_agent() -> None:
    """Agents at work are what costs."""
    by_hand = start("a", 1, attempt_kind=AttemptKind.PERSON)
    assert _series(charts(_recorded((5.0, by_hand)), 9.0))["agents"].points[-1] == (9.0, 0.0)


def test_a_long_run_is_thinned_and_keeps_its_peaks_and_its_end() -> None:
    """Ten thousand attempts are three hundred points, the highest among them."""
    timed: list[tuple[float, ev.Event]] = []
    for number in range(1, 5_001):
        timed += [(number * 10.0, start("a", number)), (number * 10.0 + 3, done("a", number))]
    timed += [(25_004.0, start("b", 1)), (25_004.5, start("c", 1))]
    timed = sorted(timed, key=lambda pair: pair[0])
    view = charts(_recorded(*timed), 60_000.0)
    agents = _series(view)["agents"]
    assert len(agents.points) <= POINTS_MAX
    assert max(value for _, value in agents.points) == 3.0
    assert agents.points[-1] == (60_000.0, 2.0)
    assert [at for at, _ in agents.points] == sorted(at for at, _ in agents.points)
    assert view == charts(_recorded(*timed), 60_000.0)


def test_a_run_without_events_has_curves_without_steps() -> None:
    """Nothing happened yet."""
    assert _series(charts([], 5.0))["landed"].points == ((5.0, 0.0), (5.0, 0.0))
