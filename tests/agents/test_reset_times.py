"""When a limit ends, in the words of agents."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from holdfast.agents.reset_times import reset_time

BERLIN = ZoneInfo("Europe/Berlin")
NOON = datetime(2026, 3, 10, 12, 0, tzinfo=BERLIN)


def _read(message: str, now: datetime = NOON) -> datetime | None:
    found = reset_time(message, now.timestamp(), now.tzinfo)
    return None if found is None else datetime.fromtimestamp(found, now.tzinfo)


@pytest.mark.parametrize(
    ("message", "after"),
    [
        ("You've hit your usage limit. … or try again at 7:00 PM.", timedelta(hours=7)),
        ("You've hit your session limit · resets 3:45pm", timedelta(hours=3, minutes=45)),
        ("try again at 9:30 AM", timedelta(hours=21, minutes=30)),
        ("resets at 23:15", timedelta(hours=11, minutes=15)),
        ("resets 3pm (UTC)", timedelta(hours=4)),
        ("resets 3am (America/New_York)", timedelta(hours=20)),
        ("try again at Mar 12th, 2026 1:00 PM.", timedelta(days=2, hours=1)),
        ("Your limit resets Mar 11, 3pm", timedelta(days=1, hours=3)),
        ("Please try again in 20s.", timedelta(seconds=20)),
        ("try again in 1 day 2 hours 3 minutes", timedelta(days=1, hours=2, minutes=3)),
        ("Retry after 1.5 seconds", timedelta(seconds=1.5)),
        ("Please retry in 250ms", timedelta(milliseconds=250)),
        ('"retryDelay": "34s"', timedelta(seconds=34)),
        ("reset at 2026-03-10T11:30:00Z", timedelta(minutes=30)),
        ("until 2026-03-10 14:00:00", timedelta(hours=2)),
        (f"Claude AI usage limit reached|{int(NOON.timestamp()) + 90}", timedelta(seconds=90)),
        (f"reset_at: {(int(NOON.timestamp()) + 90) * 1000}", timedelta(seconds=90)),
    ],
)
def test_a_named_time_is_understood(message: str, after: timedelta) -> None:
    """Clock times without a zone are local and the next of their kind; epochs, ISO and spans are what they say."""
    assert _read(message) == NOON + after


@pytest.mark.parametrize(
    "message",
    ["", "Rate limit reached.", "try again later", "429 Too Many Requests", "resets 99:99 PM", "at 7"],
)
def test_what_names_no_time_names_none(message: str) -> None:
    """A guess would be worse than the default wait."""
    assert _read(message) is None


def test_a_time_that_has_just_passed_is_not_tomorrows() -> None:
    """Messages have minutes where limits have seconds."""
    now = NOON.replace(hour=19, second=5)
    assert _read("try again at 7:00 PM", now) == NOON.replace(hour=19)


def test_a_day_without_a_year_is_the_next_one() -> None:
    """A limit told on New Year's Eve ends in January."""
    eve = datetime(2026, 12, 31, 20, 0, tzinfo=timezone(timedelta(0)))
    assert _read("resets Jan 2, 3pm", eve) == datetime(2027, 1, 2, 15, 0, tzinfo=UTC)


@pytest.mark.parametrize("day", [(2026, 3, 7), (2026, 10, 31)])
def test_a_local_time_after_the_clocks_change_is_that_local_time(day: tuple[int, int, int]) -> None:
    """The night of the change is an hour shorter or longer; seven o'clock stays seven o'clock."""
    evening = datetime(*day, 23, 0, tzinfo=ZoneInfo("America/New_York"))
    asked = f"from holdfast.agents.reset_times import reset_time; print(reset_time('resets 7am', {evening.timestamp()}))"
    env = {**os.environ, "TZ": "America/New_York"}
    told = subprocess.run([sys.executable, "-c", asked], env=env, capture_output=True, text=True, check=True)
    morning = evening.replace(hour=7) + timedelta(days=1)
    assert float(told.stdout) == morning.timestamp()
