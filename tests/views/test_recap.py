"""The recap in words: what is nothing is left out."""

from __future__ import annotations

import pytest

from holdfast.reporting.timeline import LostTime
from holdfast.views.recap import lost_time_words


@pytest.mark.parametrize(
    ("lost", "words"),
    [
        (LostTime(), ""),
        (LostTime(crashes_s=63.0), "1m 03s to crashes"),
        (LostTime(crashes_s=63.0, limits_s=3900.0), "1m 03s to crashes, 1h 05m to limits and outages"),
    ],
)
def test_lost_time_is_told_by_its_cause(lost: LostTime, words: str) -> None:
    """A cause that took nothing is not named."""
    assert lost_time_words(lost) == words
