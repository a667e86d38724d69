"""The words and layouts of the views, without a run."""

from __future__ import annotations

from io import StringIO
from string import Formatter

import pytest
from rich.console import Console

from holdfast.core import events as ev
from holdfast.core.state import replay
from holdfast.views.event_text import _SENTENCES, event_sentence
from holdfast.views.live import LiveTable
from holdfast.views.text import block, duration, one_line, table, timestamp, wrapped_table
from tests.core.builders import ATTACHED, STARTED, plan, start, task


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-5, "0.0s"),
        (0.44, "0.4s"),
        (1.2, "1s"),
        (59.7, "1m 00s"),
        (185, "3m 05s"),
        (7800, "2h 10m"),
        (273_600, "3d 4h"),
    ],
)
def test_durations_have_their_two_largest_units(seconds: float, words: str) -> None:
    """Short enough to read, exact enough to use."""
    assert duration(seconds) == words


def test_times_for_programs_are_utc_with_a_z() -> None:
    """The same everywhere, whatever the time zone."""
    assert timestamp(0.0) == "1970-01-01T00:00:00.000Z"


def test_each_sentence_is_that_of_an_event_and_names_its_fields() -> None:
    """A renamed event or field takes its sentence along."""
    for name, sentence in _SENTENCES.items():
        fields = {*getattr(ev, name).__struct_fields__, "how"}
        assert {field for _, field, _, _ in Formatter().parse(sentence) if field} <= fields, name


def test_an_event_without_a_sentence_is_told_by_its_name() -> None:
    """Nothing that happens goes untold because the views were forgotten."""

    class ChecksSkipped(ev.TaskEvent, frozen=True):
        pass

    assert event_sentence(ChecksSkipped(task="a")) == "a: checks skipped"


def test_an_event_becomes_one_safe_line() -> None:
    """What an agent printed cannot move the cursor or add lines, nor be taken for a placeholder."""
    event = ev.TaskAbandoned(task="a", error="x\x1b[2J\n{task} y")
    assert event_sentence(event) == "a: abandoned, x�[2J {task} y"


def test_long_lines_are_cut_and_say_so() -> None:
    """A table stays a table."""
    assert one_line("x" * 50, 10) == "x" * 9 + "…"


def test_blocks_keep_lines_and_lose_control_characters() -> None:
    """Output of tools is shown as data."""
    assert block("a\n\x07b\n", "| ") == ["| a", "| �b"]


def test_columns_are_aligned() -> None:
    """Without trailing space."""
    assert table([("A", "B"), ("long", "")], indent="") == ["A     B", "long"]


def test_a_table_too_wide_wraps_its_last_column() -> None:
    """The columns stay columns, and no line is longer than the terminal."""
    (heading,), lines = wrapped_table([("TASK", "WHY"), ("a", "one two three four five six")], 34)
    assert heading == "  TASK  WHY"
    assert lines == ["  a     one two three four five", "        six"]


def test_a_table_without_room_puts_its_last_column_below() -> None:
    """Words in a column of three letters cannot be read; a cut name can."""
    heading, lines = wrapped_table([("TASK", "WHY"), ("a" * 30, "one two three")], 30)
    assert heading == ["  TASK", "    WHY"]
    assert lines == ["  " + "a" * 27 + "…", "    one two three"]


def test_the_moving_picture_shows_what_agents_report_of_their_progress() -> None:
    """Who watches sees how far each agent says it is, in a column that is there when one says so."""
    told = ev.ProgressReported(task="A", attempt=1, progress=40.0)
    silent: list[ev.Event] = [
        STARTED,
        ATTACHED,
        ev.StageOpening(stage="s1"),
        ev.StageOpened(stage="s1"),
        start("A", 1),
    ]
    assert "progress" not in _drawn(silent)
    assert "40 %" in _drawn([*silent, told])


def _drawn(events: list[ev.Event]) -> str:
    """Return the picture of a run after these events."""
    live, out = LiveTable(), StringIO()
    live([], replay(plan((task("A"),)), events))
    Console(file=out, width=100).print(live._draw())
    return out.getvalue()
