"""Copies of runs between journals: whole, compared, and safe to repeat."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from holdfast.core import events as ev
from holdfast.core.plan import Plan, Stage, Task, plan_hash
from holdfast.core.projection import RunRow
from holdfast.core.run_transitions import first_row
from holdfast.core.state import RunState
from holdfast.errors import NeedsDecisionError
from holdfast.journal.protocol import Journal
from holdfast.journal.sqlite import SqliteJournal
from holdfast.journal.transfer import copy_run
from tests.contract.journals import DURABLE, open_in

RUN = "01-add-auth"
PLAN = Plan(
    goal="add auth", stages=(Stage(id="s", tasks=(Task(id="a", prompt="x"), Task(id="b", prompt="y"))),)
)
AMENDED = Plan(
    goal="add auth", stages=(Stage(id="s", tasks=(Task(id="a", prompt="x"), Task(id="c", prompt="z"))),)
)


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Journal]:
    """A journal with a run that was begun, amended, and stopped."""
    journal = SqliteJournal.open(tmp_path / "source.db")
    started = ev.RunStarted(
        run=RUN,
        goal="add auth",
        plan_hash=plan_hash(PLAN),
        base="b" * 40,
        branch=f"refs/heads/holdfast/{RUN}",
    )
    state = RunState(PLAN, first_row(started))
    journal.create_run(PLAN, state.row, started, 100.0)
    epoch = journal.take_epoch(RUN)
    for at, events in (
        (101.0, [ev.RunnerAttached(epoch=epoch, pid=1, host="h", boot_id="x")]),
        (102.5, [ev.PlanAmended(plan=AMENDED, plan_hash=plan_hash(AMENDED))]),
        (103.0, [ev.TaskSkipped(task="c"), ev.StopRequested()]),
    ):
        state.apply_all(events)
        journal.append(RUN, epoch, events, state.row, state.take_changed(), at)
    yield journal
    journal.close()


@pytest.fixture(params=DURABLE)
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Journal]:
    """Each journal in turn, empty."""
    (tmp_path / "target").mkdir()
    journal = open_in(tmp_path / "target", request.param)
    yield journal
    journal.close()


def test_a_copied_run_is_the_same_in_every_point(source: Journal, target: Journal) -> None:
    """Its events with their times, its rows, the plan that it has and the one that it began with."""
    assert copy_run(source, target, RUN) == source.load(RUN).last_seq
    assert list(target.events(RUN)) == list(source.events(RUN))
    assert target.load(RUN) == source.load(RUN)


def test_a_copy_that_was_cut_short_is_completed(source: Journal, target: Journal) -> None:
    """It continues where it ended. Until then the row says where the rest is, so that nobody executes half a run."""
    stored = source.load(RUN)
    first, second, *_ = source.events(RUN)
    row = RunState(PLAN, first_row(_started(first.event))).row
    row.moving = source.name
    target.create_run(stored.first_plan, row, first.event, first.at)
    target.append(RUN, target.take_epoch(RUN), [second.event], row, [], second.at)
    assert target.load(RUN).row.moving == source.name
    copy_run(source, target, RUN)
    assert target.load(RUN) == stored


def test_a_copy_that_is_repeated_changes_nothing(source: Journal, target: Journal) -> None:
    """The second one finds all of it there."""
    copy_run(source, target, RUN)
    copy_run(source, target, RUN)
    assert list(target.events(RUN)) == list(source.events(RUN))


def test_another_run_of_the_same_name_is_left_alone(source: Journal, target: Journal) -> None:
    """Nothing is written, and the way out is said."""
    other = _started(next(iter(source.events(RUN))).event)
    row: RunRow = RunState(PLAN, first_row(other)).row
    target.create_run(PLAN, row, other, 999.0)
    with pytest.raises(NeedsDecisionError, match="another run 01-add-auth"):
        copy_run(source, target, RUN)
    assert len(list(islice(target.events(RUN), 2))) == 1


def _started(event: ev.Event) -> ev.RunStarted:
    assert isinstance(event, ev.RunStarted)
    return event
