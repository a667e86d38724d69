"""What every journal promises."""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from queue import Queue

import pytest

from holdfast.core import events as ev
from holdfast.core.plan import Plan, Stage, Task
from holdfast.core.projection import AttemptCommit, Failure, TaskRow
from holdfast.core.status import AttemptKind, FailureKind, TaskStatus
from holdfast.errors import JournalError, LeaseLostError, RunExistsError
from holdfast.journal import JOURNALS
from holdfast.journal.protocol import Journal
from tests.contract.journals import (
    DURABLE,
    KINDS,
    PLAN,
    RUN,
    begin,
    one_of_each,
    open_in,
    run_row,
    started,
    write_for_ever,
)
from tests.support.preloaded_command import ForkedProcess, preloaded_command

ROOT = Path(__file__).parents[2]


@pytest.fixture(params=KINDS)
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Journal]:
    """Each journal in turn, empty."""
    opened = open_in(tmp_path, request.param)
    yield opened
    opened.close()


def writer(kind: str, folder: Path, run: str, batches: int) -> ForkedProcess:
    """Start a process that appends to a run and prints what is durable. It is forked: a test kills many of them."""
    words = [kind, str(folder), run, str(batches)]
    return preloaded_command().start(
        ROOT, words, os.environ, "from tests.contract.journals import main; main()", told=True
    )


def check_rows_match_events(journal: Journal, run: str = RUN) -> int:
    """Check that numbers have no gap and that the projection is the fold of the events; return the last number."""
    stored, recorded = journal.load(run), list(journal.events(run))
    assert [item.seq for item in recorded] == list(range(1, stored.last_seq + 1))
    folded = {
        item.event.task: item.event.attempt for item in recorded if isinstance(item.event, ev.AttemptStarted)
    }
    assert {task.id: task.attempt for task in stored.tasks} == folded
    assert stored.row.queue_number == (stored.last_seq if folded else 0)
    return stored.last_seq


def test_every_journal_of_the_product_is_under_contract() -> None:
    """Schemes that mean the same class are one journal."""
    classes = {JOURNALS[kind] for kind in KINDS}
    assert classes == set(JOURNALS.values())


def test_every_kind_of_event_comes_back_as_it_was(journal: Journal) -> None:
    """What is read is what was written, for every event class and every field."""
    epoch, events = begin(journal), one_of_each()
    last = journal.append(RUN, epoch, events, run_row(), [], 101.5)
    assert last == len(events) + 1
    assert [item.event for item in journal.events(RUN)] == [started(), *events]
    assert [item.at for item in journal.events(RUN, upto=2)] == [100.0, 101.5]


def test_an_amended_plan_replaces_the_runs_and_the_places_of_its_tasks(journal: Journal) -> None:
    """Rows follow the new order, those of dropped tasks are gone, and the plan that the run began with is kept."""
    epoch = begin(journal)
    journal.append(RUN, epoch, [], run_row(), [TaskRow(id="b", attempt=1), TaskRow(id="a", attempt=2)], 101.0)
    amended = Plan(goal="add auth", stages=(Stage(id="s", tasks=(Task(id="n"), Task(id="a"), Task(id="m"))),))
    row = run_row(plan_hash="h2", first_plan="h1")
    rows = [TaskRow(id="a", attempt=2), TaskRow(id="n", attempt=3)]
    journal.append(RUN, epoch, [ev.PlanAmended(plan=amended, plan_hash="h2")], row, rows, 102.0)
    stored = journal.load(RUN)
    assert (stored.plan, stored.first_plan, stored.row) == (amended, PLAN, row)
    assert [(task.id, task.attempt) for task in stored.tasks] == [("n", 3), ("a", 2)]
    journal.append(RUN, epoch, [], row, [TaskRow(id="m", attempt=1)], 103.0)
    assert [task.id for task in journal.load(RUN).tasks] == ["n", "a", "m"]


def test_removing_a_run_keeps_the_plan_that_another_began_with(journal: Journal) -> None:
    """The history of the other one is folded from it."""
    epoch = begin(journal)
    begin(journal, "02-other")
    row = run_row(plan_hash="h2", first_plan="h1")
    amended = Plan(goal="add auth", stages=(Stage(id="s", tasks=(Task(id="a"),)),))
    journal.append(RUN, epoch, [ev.PlanAmended(plan=amended, plan_hash="h2")], row, [], 101.0)
    journal.remove_run("02-other", journal.take_epoch("02-other"))
    assert journal.load(RUN).first_plan == PLAN


def test_the_projection_is_what_was_written_last(journal: Journal) -> None:
    """`load` returns the newest row of the run and of each task that has one, in plan order."""
    epoch = begin(journal)
    failure = Failure(attempt=1, kind=FailureKind.CHECK, error="no", detail="é" * 5000)
    commit = AttemptCommit(attempt=1, commit="c" * 40, kind=AttemptKind.FIX)
    first = [TaskRow(id="b", attempt=1), TaskRow(id="a", attempt=1)]
    second = TaskRow(id="b", status=TaskStatus.FAILED, attempt=2, failures=[failure], commits=[commit])
    journal.append(RUN, epoch, [], run_row(tip="t1"), first, 101.0)
    journal.append(RUN, epoch, [ev.RunPaused()], run_row(tip="t2"), [second], 102.0)
    stored = journal.load(RUN)
    assert (stored.plan, stored.row, stored.tasks) == (PLAN, run_row(tip="t2"), [second, first[1]])
    assert (stored.started_at, stored.updated_at, stored.last_seq) == (100.0, 102.0, 2)


def test_the_progress_of_many_runs_is_counted_without_loading_them(journal: Journal) -> None:
    """Each run has its own count: landed ones of those in its present plan, also of tasks that never began."""
    landed = [TaskRow(id=name, status=TaskStatus.COMPLETED) for name in ("b", "a")]
    journal.append(RUN, begin(journal), [], run_row(), [*landed, TaskRow(id="t1", attempt=1)], 101.0)
    begin(journal, "02-fresh")
    epoch = begin(journal, "03-amended")
    amended = Plan(goal="add auth", stages=(Stage(id="s", tasks=(Task(id="a"),)),))
    row = run_row("03-amended", plan_hash="h2", first_plan="h1")
    event = ev.PlanAmended(plan=amended, plan_hash="h2")
    journal.append("03-amended", epoch, [event], row, [TaskRow(id="a", status=TaskStatus.FAILED)], 102.0)
    assert journal.progress(journal.runs()) == {RUN: (2, 11), "02-fresh": (0, 11), "03-amended": (0, 1)}


def test_a_row_changed_after_the_append_is_not_changed_in_the_journal(journal: Journal) -> None:
    """The journal keeps its own copy."""
    epoch, task = begin(journal), TaskRow(id="a", attempt=1)
    journal.append(RUN, epoch, [], run_row(), [task], 101.0)
    task.attempt = 9
    assert journal.load(RUN).tasks[0].attempt == 1


def test_another_thread_reads_what_is_written_meanwhile(journal: Journal) -> None:
    """A reader of a journal belongs to any thread, and sees each append as soon as it is durable."""
    epoch, reader = begin(journal), journal.reader()
    with ThreadPoolExecutor(max_workers=1) as other:
        before = other.submit(reader.load, RUN).result().last_seq
        journal.append(RUN, epoch, [ev.StopRequested()], run_row(), [], 101.0)
        assert other.submit(reader.load, RUN).result().last_seq == before + 1


def test_a_task_that_is_not_in_the_plan_is_refused(journal: Journal) -> None:
    """A row that no plan accounts for would never be read, so nothing of the append is kept."""
    epoch = begin(journal)
    with pytest.raises(JournalError, match="no task stray"):
        journal.append(RUN, epoch, [ev.RunPaused()], run_row(tip="t1"), [TaskRow(id="stray")], 101.0)
    stored = journal.load(RUN)
    assert (stored.last_seq, stored.row, stored.tasks) == (1, run_row(), [])


def test_part_of_what_was_appended_together_can_be_read(journal: Journal) -> None:
    """`after` and `upto` count events, however they were grouped when they were written."""
    epoch = begin(journal)
    for _ in range(3):
        journal.append(RUN, epoch, [ev.StageOpened(stage=str(n)) for n in range(4)], run_row(), [], 1.0)
    spans = [(after, upto) for after in range(14) for upto in range(after, 14)]
    for after, upto in spans:
        read = [item.seq for item in journal.events(RUN, after=after, upto=upto)]
        assert read == list(range(after + 1, min(upto, 13) + 1))


def test_events_can_be_read_from_and_up_to_a_number(journal: Journal) -> None:
    """`after` is exclusive, `upto` inclusive, and beyond the end there is nothing."""
    begin(journal)
    list(write_for_ever(journal, batches=20))
    assert [item.seq for item in journal.events(RUN, after=3, upto=6)] == [4, 5, 6]
    assert list(journal.events(RUN, after=10_000)) == []


def test_thousands_of_events_are_read_in_order(journal: Journal) -> None:
    """Reading in pages skips and repeats nothing."""
    epoch = begin(journal)
    journal.append(RUN, epoch, [ev.StageOpened(stage=str(n)) for n in range(2500)], run_row(), [], 1.0)
    for _ in range(499):
        journal.append(RUN, epoch, [ev.RunPaused()], run_row(), [], 1.0)
    assert [item.seq for item in journal.events(RUN)] == list(range(1, 3001))


def test_reading_events_is_lazy(journal: Journal) -> None:
    """A reader may append while it iterates."""
    epoch = begin(journal)
    reading = journal.events(RUN)
    assert next(reading).seq == 1
    assert journal.append(RUN, epoch, [ev.RunPaused()], run_row(), [], 1.0) == 2


def test_an_older_epoch_is_refused_and_writes_nothing(journal: Journal) -> None:
    """Whoever lost the run can no longer change it."""
    old = begin(journal)
    journal.take_epoch(RUN)
    with pytest.raises(LeaseLostError):
        journal.append(RUN, old, [ev.RunPaused()], run_row(tip="stolen"), [TaskRow(id="a")], 101.0)
    stored = journal.load(RUN)
    assert (stored.last_seq, stored.row, stored.tasks) == (1, run_row(), [])


def test_a_refused_append_leaves_the_journal_usable(journal: Journal) -> None:
    """After a fenced write the present owner goes on as if nothing had been."""
    epoch = begin(journal)
    with pytest.raises(LeaseLostError):
        journal.append(RUN, epoch + 1, [ev.RunPaused()], run_row(), [], 101.0)
    assert journal.append(RUN, epoch, [ev.RunPaused()], run_row(), [], 102.0) == 2


def test_epochs_only_rise(journal: Journal) -> None:
    """Each taking fences off all before it; runs do not share epochs."""
    assert [begin(journal), journal.take_epoch(RUN), journal.take_epoch(RUN)] == [1, 2, 3]
    assert begin(journal, "02-other") == 1


def test_a_run_id_is_taken_once(journal: Journal) -> None:
    """A second run of the same id is refused, and the first is untouched."""
    begin(journal)
    with pytest.raises(RunExistsError, match="already exists"):
        journal.create_run(PLAN, run_row(goal="other"), started(), 500.0)
    assert journal.load(RUN).row.goal == "add auth"
    assert len(list(journal.events(RUN))) == 1


@pytest.mark.parametrize("question", ["load", "events", "take_epoch", "append"])
def test_an_unknown_run_is_an_error_with_a_way_out(journal: Journal, question: str) -> None:
    """Asking for a run that is not there says so."""
    asked: dict[str, Callable[[], object]] = {
        "load": lambda: journal.load("99-none"),
        "events": lambda: list(journal.events("99-none")),
        "take_epoch": lambda: journal.take_epoch("99-none"),
        "append": lambda: journal.append("99-none", 1, [], run_row("99-none"), [], 1.0),
    }
    with pytest.raises(JournalError, match="99-none") as caught:
        asked[question]()
    assert caught.value.hint


def test_the_run_number_is_above_every_run(journal: Journal) -> None:
    """The counter starts at one and never meets a number in use, whatever is missing below it."""
    assert journal.next_run_number() == 1
    begin(journal, "07-rebuilt")
    assert journal.next_run_number() == 8


def test_runs_are_listed_oldest_first_and_kept_apart(journal: Journal) -> None:
    """Many runs share a journal, each with its own numbers and tasks."""
    names = [f"{n:02d}-x" for n in (3, 1, 2)]
    epochs = {name: begin(journal, name) for name in names}
    journal.append("01-x", epochs["01-x"], [ev.RunPaused()], run_row("01-x"), [TaskRow(id="a")], 150.0)
    assert [(item.row.run, item.last_seq, item.updated_at) for item in journal.runs()] == [
        ("03-x", 1, 100.0), ("01-x", 2, 150.0), ("02-x", 1, 100.0),
    ]  # fmt: skip
    assert [len(journal.load(name).tasks) for name in names] == [0, 1, 0]


def test_a_plan_is_confirmed_once_and_for_all(journal: Journal) -> None:
    """A confirmation is bound to one hash, and repeating it changes nothing."""
    assert not journal.is_confirmed("h1")
    journal.confirm_plan("h1", 1.0)
    journal.confirm_plan("h1", 2.0)
    assert journal.is_confirmed("h1")
    assert not journal.is_confirmed("h2")


def test_closing_twice_changes_nothing(journal: Journal) -> None:
    """`close` may be called on every way out."""
    journal.close()
    journal.close()


@pytest.mark.parametrize("kind", DURABLE)
def test_what_was_written_is_there_after_reopening(kind: str, tmp_path: Path) -> None:
    """A journal outlives the object that wrote it."""
    journal = open_in(tmp_path, kind)
    begin(journal)
    last = list(write_for_ever(journal, batches=10))[-1]
    journal.close()
    again = open_in(tmp_path, kind)
    assert check_rows_match_events(again) == last
    again.close()


def test_a_removed_run_is_forgotten_whole_and_alone(journal: Journal) -> None:
    """Nothing of it is left, the others are as they were, and its id is free."""
    epoch = begin(journal)
    begin(journal, "02-other")
    journal.append(RUN, epoch, [ev.RunPaused()], run_row(), [TaskRow(id="a")], 101.0)
    journal.remove_run(RUN, epoch)
    assert [listing.row.run for listing in journal.runs()] == ["02-other"]
    assert journal.load("02-other").plan == PLAN
    with pytest.raises(JournalError):
        journal.load(RUN)
    begin(journal)
    assert journal.load(RUN).tasks == []
    assert len(list(journal.events(RUN))) == 1


def test_only_the_present_owner_may_remove_a_run(journal: Journal) -> None:
    """Whoever was overtaken removes nothing."""
    epoch = begin(journal)
    journal.take_epoch(RUN)
    with pytest.raises(LeaseLostError):
        journal.remove_run(RUN, epoch)
    assert journal.load(RUN).row.run == RUN


@pytest.mark.crash
@pytest.mark.parametrize("kind", DURABLE)
def test_a_killed_writer_loses_nothing_that_was_acknowledged(kind: str, tmp_path: Path) -> None:
    """Kill it at twenty random moments: what `append` returned for is there, and no batch is there in part."""
    journal, dice = open_in(tmp_path, kind), random.Random(7)
    begin(journal)
    for _ in range(20):
        child = writer(kind, tmp_path, RUN, sys.maxsize)
        assert child.stdout is not None
        heard = [child.stdout.readline() for _ in range(dice.randrange(1, 60))]
        child.kill()
        acknowledged = int(([line for line in child.stdout if line.endswith(b"\n")] or heard)[-1])
        child.wait()
        child.stdout.close()
        # A server may still be at the last request of who is gone. Who takes the run comes after that.
        journal.take_epoch(RUN)
        assert check_rows_match_events(journal) >= acknowledged
    journal.close()


@pytest.mark.parametrize("kind", DURABLE)
def test_two_processes_write_two_runs_at_once(kind: str, tmp_path: Path) -> None:
    """Runs of one repository do not disturb each other; a reader beside them always sees whole batches."""
    journal = open_in(tmp_path, kind)
    runs = ["01-one", "02-two"]
    for run in runs:
        begin(journal, run)
    children = [writer(kind, tmp_path, run, 150) for run in runs]
    while any(child.poll() is None for child in children):
        for stored in map(journal.load, runs):
            assert stored.row.queue_number in (0, stored.last_seq)
    said = [child.communicate()[0].split() for child in children]
    assert [child.returncode for child in children] == [0, 0]
    assert [check_rows_match_events(journal, run) for run in runs] == [int(lines[-1]) for lines in said]
    journal.close()


def test_who_follows_a_run_gets_what_is_there_and_then_each_event_once(journal: Journal) -> None:
    """Nothing is missed between the first look and the first wait, and nothing comes twice."""
    epoch = begin(journal)
    with closing(journal.follow(RUN)) as followed:
        assert [item.seq for item in next(followed)] == [1]
        for last in range(2, 6):
            journal.append(RUN, epoch, [ev.StopRequested()], run_row(), [], 101.0)
            assert [item.seq for item in next(batch for batch in followed if batch)] == [last]


def test_who_follows_again_after_the_last_number_misses_nothing(journal: Journal) -> None:
    """Whatever happened between the two is told first."""
    epoch = begin(journal)
    journal.append(RUN, epoch, [ev.StopRequested()] * 3, run_row(), [], 101.0)
    with closing(journal.follow(RUN, after=2)) as followed:
        assert [item.seq for item in next(followed)] == [3, 4]


def test_who_watches_all_runs_is_told_of_a_new_one_and_of_each_event(journal: Journal) -> None:
    """What changed is looked up: the journal only says that something did."""
    with closing(journal.reader()) as reader, closing(reader.changes()) as changes:
        next(changes)
        assert reader.runs() == []
        epoch = begin(journal)
        next(_ for _ in changes if reader.runs())
        journal.append(RUN, epoch, [ev.StopRequested()], run_row(), [], 101.0)
        next(_ for _ in changes if reader.runs()[0].last_seq == 2)


def test_who_follows_a_run_is_told_at_once_and_not_at_its_next_look(journal: Journal) -> None:
    """Each event is waited for before the next is written; looking only now and then would take a second for each."""
    epoch, seen, times = begin(journal), Queue[int](), 20

    def follow() -> None:
        with closing(journal.reader()) as reader, closing(reader.follow(RUN, after=1)) as followed:
            for batch in followed:
                for item in batch:
                    seen.put(item.seq)
                if batch and batch[-1].seq > times:
                    return

    with ThreadPoolExecutor(max_workers=1) as other:
        following, began = other.submit(follow), time.monotonic()
        for _ in range(times):
            assert journal.append(RUN, epoch, [ev.StopRequested()], run_row(), [], 101.0) == seen.get()
        following.result()
    assert time.monotonic() - began < times / 4


@pytest.mark.parametrize("kind", DURABLE)
def test_who_follows_a_run_is_woken_by_a_writer_elsewhere(kind: str, tmp_path: Path) -> None:
    """The writer is another process: all that it acknowledged is told."""
    journal = open_in(tmp_path, kind)
    begin(journal)
    with closing(journal.reader().follow(RUN)) as followed:
        next(followed)
        with writer(kind, tmp_path, RUN, batches=20) as process:
            acknowledged = [int(line) for line in process.stdout or ()]
        seen = [1]
        while seen[-1] < acknowledged[-1]:
            seen += [item.seq for item in next(followed)]
    assert seen == list(range(1, acknowledged[-1] + 1))
    journal.close()
