"""Providers out of reach: how long one is waited for, who is told, and what an answer proves."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.core import events as ev
from holdfast.core.plan import AgentProvider, Limits
from holdfast.core.provider_limits import (
    LONG_OUTAGE_S,
    NEVER,
    available_agent,
    awaited_start,
    default_wait,
    park_unreachable,
    probe_answered,
    provider_answered,
)
from holdfast.core.state import RunState
from holdfast.reporting.notifications import notification_of
from holdfast.views.providers import outages, providers_in_trouble
from tests.core.builders import begin, done, failed, plan, start, task

WALL = 1_800_000_000.0


def _down(limits: Limits | None = None) -> RunState:
    """Return a run with two tasks of agent a, the first of which has started through provider p."""
    of = plan((task("t"), task("u")), limits=limits)
    state = begin(msgspec.structs.replace(of, agent="a"))
    state.providers = {"a": AgentProvider("p")}
    state.apply(start("t", 1, agent="a", provider="p"))
    return state


def _outage(state: RunState, clock: float, *, probed: bool, wall: float = WALL) -> ev.ProviderParked:
    parked = park_unreachable(state, "p", "token", "503", wall + clock, clock, probed=probed)
    state.apply(parked)
    return parked


def test_only_a_probe_makes_the_wait_in_an_outage_longer() -> None:
    """Agents that were at work when it began meet the same outage; ten minutes is the longest wait."""
    state, clock = _down(), 0.0
    assert [_outage(state, at, probed=False).hits for at in (0.0, 5.0, 40.0, 90.0)] == [1, 1, 1, 1]
    waits = []
    for _ in range(8):
        clock = state.row.parked["p"].not_before
        waits.append(_outage(state, clock, probed=True).wait_s)
    least = (30, 60, 120, 240, 480, 600, 600, 600)
    assert all(wait <= found <= 1.1 * wait for wait, found in zip(least, waits, strict=True))


def test_people_are_told_of_an_outage_once_it_lasts_and_when_it_is_over() -> None:
    """Not of one that may be over in a minute, and never twice of the same; the time of day has no say in it."""
    state = _down()
    told = []
    for turn in range(9):
        clock = state.row.parked["p"].not_before if turn else 0.0
        event = _outage(state, clock, probed=bool(turn), wall=WALL - 86400.0 * turn)
        told += [clock + event.wait_s] * event.tell
    assert len(told) == 1
    assert LONG_OUTAGE_S <= told[0] < 2 * LONG_OUTAGE_S
    [answered] = provider_answered(state, "p")
    state.apply(answered)
    assert isinstance(answered, ev.ProviderAnswered)
    assert (answered.tell, state.row.parked, provider_answered(state, "p")) == (True, {}, [])
    note = notification_of(answered, state)
    assert note is not None
    assert (note.event, note.reason) == ("outage", "p answers again")


def _answer(state: RunState, clock: float) -> None:
    state.apply_all(probe_answered(state, "p", clock))


def test_an_outage_that_only_answers_first_words_lasts_all_the_while() -> None:
    """Each probe is answered and then fails: the others may start, and still the wait grows and people are told."""
    state, clock, told = _down(Limits(on_limit="stop")), 0.0, list[int]()
    for hits in range(1, 9):
        event = _outage(state, clock, probed=hits > 1)
        assert (event.hits, event.since, event.began) == (hits, WALL, 0.0)
        assert default_wait(hits, 15.0, 600.0) <= event.wait_s
        told += [hits] * event.tell
        assert (awaited_start(state, state.tasks["u"]) == NEVER) == (hits in told)
        clock = state.row.parked["p"].not_before
        _answer(state, clock)
        assert available_agent(state, state.tasks["u"], clock) == "a"
    assert told == [6, 7, 8]


def test_an_agent_that_meets_the_outage_after_another_was_answered_makes_the_wait_longer() -> None:
    """It is no probe, but what it meets is no new outage."""
    state = _down()
    _outage(state, 0.0, probed=False)
    _answer(state, 20.0)
    again = _outage(state, 30.0, probed=False)
    assert (again.hits, again.began) == (2, 0.0)


def test_an_answer_ends_no_wait_that_began_after_the_question() -> None:
    """A probe that goes on well lets others in once their wait is over, not at once, again and again."""
    state = _down()
    _outage(state, 0.0, probed=False)
    _answer(state, 20.0)
    again = _outage(state, 30.0, probed=False)
    due = 30.0 + again.wait_s
    assert probe_answered(state, "p", due - 1) == []
    assert len(probe_answered(state, "p", due)) == 1


@pytest.mark.parametrize("end", ["done", "failed", "asked"])
def test_an_attempt_that_ends_otherwise_forgets_an_outage_that_was_answered(end: str) -> None:
    """It failed for reasons of its own, perhaps: the provider was there to the end."""
    state = _down()
    _outage(state, 0.0, probed=False)
    _answer(state, 20.0)
    ends: dict[str, ev.Event] = {
        "done": done("t", 1),
        "failed": failed("t", 1),
        "asked": ev.AttemptAsked(task="t", attempt=1, token="t-token1"),
    }
    state.apply(ends[end])
    assert state.row.parked == {}
    assert _outage(state, 1000.0, probed=False).began == 1000.0


def test_an_attempt_that_fails_says_nothing_of_an_outage_that_nothing_answered() -> None:
    """It began before, perhaps: the wait is kept, and one agent tries first."""
    state = _down()
    _outage(state, 0.0, probed=False)
    state.apply(failed("t", 1))
    assert state.row.parked["p"].probe


def test_a_validator_that_scored_ends_an_outage() -> None:
    """Its answer is whole: nothing is left to prove."""
    state = _down()
    _outage(state, 0.0, probed=False)
    state.apply_all(provider_answered(state, "p"))
    assert state.row.parked == {}


def test_an_outage_that_was_answered_is_shown_to_nobody() -> None:
    """For people the provider is reachable: no view names it, and no task waits for a time of it."""
    state = _down()
    _outage(state, 0.0, probed=False)
    _answer(state, 20.0)
    assert providers_in_trouble(state, WALL) == ()
    assert list(outages(state)) == []
