"""How a run ended: known from the stored row, the lease and the boot id; no clock has a say."""

from __future__ import annotations

import pytest

from holdfast.core import events as ev
from holdfast.core.projection import RunRow
from holdfast.core.status import ParkReason
from holdfast.reporting.run_ending import Ending, how_it_ended, rest_of
from tests.core.builders import begin, plan, task

DAY = 86_400.0


def _row(*events: ev.Event) -> RunRow:
    """Return the row of a run that a runner of boot `boot` carried, after these events."""
    state = begin(plan((task("A"),)))
    for event in events:
        state.apply(event)
    return state.row


def _ending(*events: ev.Event, held: bool = False, boot_id: str = "boot") -> Ending:
    return how_it_ended(_row(*events), held=held, boot_id=boot_id)


def test_a_run_whose_lease_is_held_is_running() -> None:
    """C2: no false alarm: who holds the lease is alive, stopped or suspended as he may be."""
    assert _ending(held=True) is Ending.RUNNING
    assert _ending(held=True, boot_id="") is Ending.RUNNING


def test_a_running_run_without_a_holder_crashed() -> None:
    """A10: in progress, and nobody alive is running it."""
    assert _ending() is Ending.CRASH


def test_another_boot_id_tells_a_reboot_from_a_crash() -> None:
    """The last runner attached in another life of the machine."""
    assert _ending(boot_id="another") is Ending.REBOOT


def test_an_unknown_boot_id_proves_no_reboot() -> None:
    """What cannot be known is not claimed."""
    assert _ending(boot_id="") is Ending.CRASH


@pytest.mark.parametrize(
    ("event", "ending"),
    [
        (ev.RunStopped(), Ending.STOP),
        (ev.RunPaused(), Ending.PAUSE),
        (ev.RunBlocked(reason="why"), Ending.BLOCKED),
        (ev.RunCompleted(), Ending.COMPLETED),
        (ev.RunAbandoned(), Ending.ABANDONED),
    ],
)
def test_an_ending_that_was_recorded_is_believed_whatever_the_machine_did_since(
    event: ev.Event, ending: Ending
) -> None:
    """C2: a reboot after a pause is no interruption."""
    assert _ending(event) is _ending(event, boot_id="another") is ending


def test_a_spent_budget_is_told_from_other_blocks() -> None:
    """A limit needs money, not a repair."""
    row = _row(ev.RunBlocked(reason="the budget is spent"))
    row.cost_usd = 5.0
    assert how_it_ended(row, held=False, boot_id="boot", budget=5.0) is Ending.LIMIT
    assert how_it_ended(row, held=False, boot_id="boot", budget=6.0) is Ending.BLOCKED


@pytest.mark.parametrize(
    ("reason", "ending"), [(ParkReason.LIMIT, Ending.LIMIT), (ParkReason.OUTAGE, Ending.OUTAGE)]
)
def test_an_outage_that_stopped_a_run_is_told_from_a_limit(reason: ParkReason, ending: Ending) -> None:
    """Both are waited for, but only one of them says when it ends."""
    parked = ev.ProviderParked(
        provider="p", until=9.0, wait_s=9.0, clock=0.0, hits=1, reason=reason, words="p is away"
    )
    assert _ending(parked, ev.RunBlocked(reason="p is away")) is ending
    assert _ending(parked, ev.RunBlocked(reason="something else")) is Ending.BLOCKED


@pytest.mark.parametrize("jump", [-DAY, 0.0, DAY])
def test_a_clock_that_jumped_a_day_changes_no_conclusion(jump: float) -> None:
    """C2: times are told, never judged by."""
    now = 1_000_000.0
    assert rest_of(_ending(held=True), now + jump).ending is Ending.RUNNING
    assert rest_of(_ending(), now + jump, now).ending is Ending.CRASH


def test_the_last_sign_of_life_is_the_last_event_or_a_later_trace_of_an_agent() -> None:
    """After a crash agents work on, and what they leave is a sign of life too."""
    assert rest_of(Ending.CRASH, 10.0, 25.0).last_sign == 25.0
    assert rest_of(Ending.CRASH, 10.0, 5.0).last_sign == 10.0
    assert rest_of(Ending.PAUSE, 10.0, 25.0).last_sign == 10.0


def test_a_pause_at_once_ends_as_a_pause_and_a_stop_after_it_as_a_stop() -> None:
    """S7: `pause --now` stops the agents, yet the run is paused; the user's last word counts."""
    assert _row(ev.PauseRequested(now=True)).stopping
    later = _row(ev.PauseRequested(now=True), ev.StopRequested())
    assert (later.stopping, later.pausing) == (True, False)
    earlier = _row(ev.StopRequested(), ev.PauseRequested())
    assert (earlier.stopping, earlier.pausing) == (True, False)
