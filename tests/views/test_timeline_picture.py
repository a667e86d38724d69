"""A run over time as a picture: in its frame, in words, and readable after a weekend of rest."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest

from holdfast.core.event_codec import Recorded
from holdfast.core.state import replay
from holdfast.reporting.timeline import (
    STEPS,
    Timeline,
    TimelineBand,
    TimelineBar,
    TimelineLane,
    TimelineMark,
    timeline,
)
from holdfast.views.timeline_picture import WIDTH, legend, timeline_picture, timeline_table
from tests.core.simulation.simulation import Simulation

DAY = 86_400.0


def _bar(begin: float, end: float | None, outcome: str = "landed") -> TimelineBar:
    return TimelineBar(
        begin=begin, end=end, attempt=1, kind="implementation", label="attempt 1", outcome=outcome
    )


def _view(*bars: TimelineBar, end: float, bands: tuple[TimelineBand, ...] = ()) -> Timeline:
    lane = TimelineLane(task="a", bars=list(bars), marks=[])
    return Timeline(begin=0.0, end=end, lanes=(lane,), bands=bands)


def _rects(view: Timeline, shape: str) -> list[ET.Element]:
    root = ET.fromstring(timeline_picture(view).text)
    return [rect for rect in root.iter("rect") if rect.get("class", "").split()[0] == shape]


@pytest.mark.parametrize("seed", range(12))
def test_every_bar_is_drawn_within_the_picture_and_told_in_the_table(seed: int) -> None:
    """Whatever happened in a run, nothing leaves the frame and nothing is left out."""
    simulation = Simulation(seed)
    simulation.run()
    events = simulation.journal.events()
    recorded = [Recorded(seq, 1e9 + 30.0 * seq, event) for seq, event in enumerate(events, start=1)]
    view = timeline(recorded, replay(simulation.journal.first_plan, events), 2e9, held=False)
    bars = [bar for lane in view.lanes for bar in lane.bars]
    drawn = _rects(view, "bar")
    assert len(drawn) == sum(bar.kind not in STEPS for bar in bars)
    for rect in (*drawn, *_rects(view, "band")):
        left, width = float(rect.get("x", "")), float(rect.get("width", ""))
        assert 0 <= left <= left + width <= WIDTH
    marks = sum(len(lane.marks) for lane in view.lanes) + len(view.marks)
    rows = timeline_table(view).text.count("<tr>") - 1
    assert rows == len(bars) + marks + len(view.bands)


def test_a_weekend_in_which_nothing_happened_is_folded_and_told() -> None:
    """Two hours of work are not two pixels beside two days of rest."""
    rest = TimelineBand(begin=3600.0, end=2 * DAY, kind="pause", label="paused")
    view = _view(_bar(0.0, 3600.0), _bar(2 * DAY, 2 * DAY + 3600.0), end=2 * DAY + 3600.0, bands=(rest,))
    widths = [float(rect.get("width", "")) for rect in _rects(view, "bar")]
    assert min(widths) > WIDTH / 3
    assert "⋯ 1d 23h" in timeline_picture(view).text


def test_what_is_under_way_reaches_the_end_and_says_so() -> None:
    """Also in words, for who does not see colours."""
    view = _view(_bar(0.0, None, "under way"), end=60.0)
    (rect,) = _rects(view, "bar")
    assert float(rect.get("x", "")) + float(rect.get("width", "")) == pytest.approx(WIDTH - 10)
    assert "(under way, 1m 00s)" in "".join(rect.itertext())


def test_the_legend_names_only_what_is_there() -> None:
    """A colour that does not occur is one more to learn."""
    band = TimelineBand(begin=1.0, end=2.0, kind="crash", label="gone")
    told = re.sub(r"<[^>]+>", " ", legend(_view(_bar(0.0, 9.0, "failed"), end=9.0, bands=(band,))).text)
    assert told.split() == ["failed", "no", "runner"]


def test_tasks_one_after_the_other_share_a_line_if_there_are_many() -> None:
    """A thousand tasks by eight agents are eight lines, and every bar is there, in the way of no other."""
    lanes = tuple(
        TimelineLane(task=f"t{n}", bars=[_bar(n // 8 * 10.0, n // 8 * 10.0 + 9.0)], marks=[])
        for n in range(1_000)
    )
    view = Timeline(begin=0.0, end=1_250.0, lanes=lanes, bands=())
    drawn = _rects(view, "bar")
    assert len(drawn) == 1_000
    assert len({rect.get("y") for rect in drawn}) == 8
    assert len({(rect.get("x"), rect.get("y")) for rect in drawn}) == 1_000


def test_many_lines_become_thin() -> None:
    """Five hundred tasks at once are a picture of some thousand pixels, not of fifteen thousand."""
    lanes = tuple(TimelineLane(task=f"t{n}", bars=[_bar(0.0, 9.0)], marks=[]) for n in range(500))
    view = Timeline(begin=0.0, end=9.0, lanes=lanes, bands=())
    height = int(timeline_picture(view).text.partition('viewBox="0 0 1000 ')[2].partition('"')[0])
    assert len(_rects(view, "bar")) == 500
    assert height < 3_000


def test_a_moment_of_the_run_goes_through_all_lanes() -> None:
    """An amendment is about all of them."""
    mark = TimelineMark(at=5.0, seq=7, kind="amendment", label="the plan was amended")
    view = Timeline(begin=0.0, end=9.0, lanes=(), bands=(), marks=(mark,))
    assert "<title>the plan was amended</title></line>" in timeline_picture(view).text


def test_a_time_at_the_right_end_is_within_the_picture() -> None:
    """There it stands before its line; elsewhere behind it."""
    picture = timeline_picture(_view(_bar(0.0, 600.0), end=600.0)).text
    times = {time: anchor for anchor, time in re.findall(r'text-anchor="(\w+)"[^>]*>(\d\d:\d\d)<', picture)}
    assert times["00:10"] == "end"
    assert times["00:05"] == "start"
