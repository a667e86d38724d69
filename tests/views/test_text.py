"""The words and layouts of the views, without a run."""

from __future__ import annotations

import time
from datetime import datetime
from io import StringIO
from string import Formatter

import msgspec
import pytest
from rich.console import Console

from holdfast.core import events as ev
from holdfast.core.provider_limits import probe_of
from holdfast.core.state import replay
from holdfast.core.status import FailureKind, ParkReason, TaskStatus
from holdfast.views.event_text import _SENTENCES, event_sentence
from holdfast.views.live import LiveTable
from holdfast.views.live_picture import Estimate, estimate_of, picture_lines, picture_of
from holdfast.views.providers import outage_words
from holdfast.views.text import (
    block,
    duration,
    one_line,
    shortened,
    table,
    time_of_day,
    timestamp,
    titled_table,
    when,
    with_local_times,
    wrapped_table,
)
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
        fields = {*getattr(ev, name).__struct_fields__, "how", "retried"}
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
    assert "%" not in _drawn(silent)
    assert "40 %" in _drawn([*silent, told])


def _drawn(events: list[ev.Event], *tasks: str, width: int = 100, height: int = 24) -> str:
    """Return the picture of a run after these events."""
    live, out = LiveTable(), StringIO()
    live([], replay(plan(tuple(task(name) for name in tasks or ("A",))), events))
    Console(file=out, width=width, height=height).print(
        *picture_lines(live._picture, width, height, time.monotonic()), sep="\n"
    )
    return out.getvalue()


OPENED = (ATTACHED, ev.StageOpening(stage="s1"), ev.StageOpened(stage="s1"))
MANY = [f"backend-users-endpoint-{number:02d}-create" for number in range(20)]


@pytest.mark.parametrize(("width", "height"), [(80, 24), (40, 24), (40, 10), (200, 60)])
def test_the_picture_leaves_half_of_the_screen_to_the_log(width: int, height: int) -> None:
    """However many tasks are at work, no line is too long, and what is not shown is counted."""
    begun = [STARTED, *OPENED, *(start(name, 1) for name in MANY)]
    lines = _drawn(begun, *MANY, width=width, height=height).splitlines()
    shown = [line for line in lines if "backend" in line or "bac" in line]
    assert len(lines) <= height // 2 or len(lines) == 3
    assert max(map(len, lines)) <= width
    assert len(shown) == 20 or f"+ {20 - len(shown)} more at work" in lines[-1]
    assert all("create" in line or width == 40 for line in shown)


def test_the_picture_has_a_bar_and_the_time_left() -> None:
    """Once a task has finished, its time tells how long the others may take."""
    state = replay(plan((task("A"), task("B"))), [STARTED, *OPENED, start("B", 1)])
    state.tasks["A"].status = TaskStatus.COMPLETED
    state.tasks["A"].merge_commit, state.tasks["A"].worked_s = "c" * 40, 120.0
    estimate = estimate_of(state, 0.0)
    assert (estimate.task_s, estimate.left_s) == (120.0, 120.0)
    drawn = [line.plain for line in picture_lines(picture_of(state, {"B": 0.0}, estimate, 0.0), 80, 24, 60.0)]
    assert "about 1m 00s left" in drawn[1]
    assert "━━━━━╌╌╌╌╌" in drawn[2]


def test_the_picture_shows_what_an_agent_does_and_what_it_cost() -> None:
    """As `status` has it, without asking for it."""
    state = replay(plan((task("A"),)), [STARTED, *OPENED, start("A", 1)])
    state.tasks["A"].latest.activity = "pytest -q"
    state.row.tokens, state.row.cost_usd = 12_345, 0.42
    text = "\n".join(
        line.plain for line in picture_lines(picture_of(state, {}, Estimate(), 0.0), 80, 24, 1.0)
    )
    assert "12.3k tokens, $0.42" in text
    assert "pytest -q" in text


def test_the_picture_and_the_timeline_name_an_outage_and_who_tries() -> None:
    """Since when, how long, its last words, and the next try, which goes on while nothing happens."""
    parked = ev.ProviderParked(
        provider="p",
        until=1120.0,
        wait_s=120.0,
        clock=0.0,
        reason=ParkReason.OUTAGE,
        probe=True,
        since=400.0,
        error="connect: refused",
    )
    state = replay(plan((task("A"), task("B"))), [STARTED, *OPENED, parked])
    picture = picture_of(state, {}, Estimate(), now=10.0, wall=1000.0)
    drawn = [line.plain for line in picture_lines(picture, 100, 24, 70.0)]
    assert (
        f"p unreachable since {time_of_day(400.0)[:5]} (11 min), next try at {time_of_day(1120.0)}"
        in drawn[2]
    )
    assert drawn[2].endswith(": connect: refused")
    probe = msgspec.structs.replace(start("A", 1), agent="x", provider="p", probes=True)
    assert event_sentence(probe).endswith("to see whether p answers again")
    state.apply(probe)
    assert "A tries it now" in outage_words("p", state.row.parked["p"], 1000.0, probe_of(state, "p"))


def test_a_failure_is_told_with_the_last_line_of_its_log() -> None:
    """It mostly says why, so nobody has to look it up."""
    failed = ev.AttemptFailed(
        task="A",
        attempt=1,
        token="t",
        failure=FailureKind.AGENT,
        error="exited with 3",
        detail="x\nno luck\n\n",
    )
    assert event_sentence(failed).endswith("exited with 3; last line: no luck")


def test_why_a_run_is_blocked_is_told_whole() -> None:
    """The way out stands at its end. Of a reason with what a command said, only the first line comes here."""
    why = f"the budget is spent: {'the run used much, ' * 20}`holdfast resume 1 --cost-usd 4` goes on"
    assert event_sentence(ev.RunBlocked(reason=why)) == f"run blocked: {why}"
    said = f"the base fails a check: `false` exited with 1; it said:\n  {'no ' * 99}"
    assert event_sentence(ev.RunBlocked(reason=said)) == "run blocked: the base fails a check"


NOON = datetime(2026, 11, 17, 12, 0).astimezone().timestamp()
"""Noon of a day, where the reader is."""


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-5, "5 s ago"),
        (-190, "3 min ago"),
        (-2 * 3600, "10:00"),
        (-14 * 3600 - 22 * 60, "yesterday 21:38"),
        (3600, "13:00"),
        (21 * 3600, "tomorrow 09:00"),
        (-14 * 86400, "3 Nov 12:00"),
        (-400 * 86400, "2025-10-13"),
    ],
)
def test_people_read_when_something_was_in_their_own_time(seconds: float, words: str) -> None:
    """Near times are relative, others local; none has a zone or milliseconds to think about."""
    assert when(timestamp(NOON + seconds), NOON) == words


def test_times_in_a_sentence_become_local() -> None:
    """A sentence that programs get with an exact time is shown to people with theirs."""
    exact = timestamp(datetime(2020, 5, 6, 12).astimezone().timestamp())
    assert with_local_times(f"last sign of life {exact}; fine") == "last sign of life 2020-05-06; fine"


@pytest.mark.parametrize(
    ("width", "short"),
    [(30, "backend-users-create"), (11, "backe…reate"), (8, "back…ate"), (1, "…"), (0, "")],
)
def test_a_long_name_loses_its_middle(width: int, short: str) -> None:
    """Names that begin alike differ at their end."""
    assert shortened("backend-users-create", width) == short


def test_an_attempt_that_was_never_launched_is_not_called_stopped() -> None:
    """Nobody stopped it, and there is no work to keep."""
    lost = ev.AttemptLost(task="A", attempt=2, cause="not launched")
    assert event_sentence(lost) == "A: attempt 2 was never launched; the task waits for its next"


_WIDE_ROWS = [
    ("TASK", "STATUS", "UNSAVED", "REDO", "WHY"),
    ("login", "failed", "2 files", "-", "it was cut short by a kill"),
    ("mail", "landed", "-", "-", "landed"),
]


def test_a_table_leaves_out_what_nobody_has_before_anything_else() -> None:
    """The column is missed by nobody; with room for it, it is there."""
    assert "REDO" in titled_table(_WIDE_ROWS, 80)[0][0]
    (heading,), first, _ = titled_table(_WIDE_ROWS, 54)
    assert heading.split() == ["TASK", "STATUS", "UNSAVED", "WHY"]
    assert first[0].endswith("it was cut short by a kill")


def test_a_narrow_table_tells_the_rest_of_a_row_below_it() -> None:
    """By name, and only what the row has; nothing is cut."""
    heading, first, second = titled_table(_WIDE_ROWS, 20)
    assert heading == ["  TASK   STATUS", "    WHY"]
    assert first == ["  login  failed", "    unsaved 2 files", "    it was cut short", "    by a kill"]
    assert second == ["  mail   landed", "    landed"]


def test_colours_of_a_tool_are_left_out_and_other_controls_are_not() -> None:
    """A colour says nothing to a reader; what else would steer a terminal must be seen to be there."""
    said = "\x1b[1;31mE\x1b[0m\x1b[K failed\x1b[2J"
    assert one_line(said) == "E failed�[2J"
    assert block(said, "") == ["E failed�[2J"]
