"""Journals of version 1, whose rows of tasks had no record of the attempt: they are read, and migrated, without loss."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.core import events as ev
from holdfast.core.event_codec import encode_events
from holdfast.core.run_transitions import first_row
from holdfast.core.state import RunState, replay
from holdfast.errors import JournalError
from holdfast.journal import open_journal, open_reader
from tests.contract.journals import PLAN, RUN, started

HISTORY: list[ev.Event] = [
    ev.RunnerAttached(epoch=1, pid=1, host="h", boot_id="b"),
    ev.StageOpening(stage="s"),
    ev.StageOpened(stage="s"),
    ev.AttemptStarted(task="b", attempt=1, token="b1", workspace_number=0, start="c0", provider="anthropic"),
    ev.AgentObserved(task="b", attempt=1, tokens=5, session="S", activity="edits"),
    ev.AttemptDone(task="b", attempt=1, token="b1", head="c1", tree="t1", duration_s=2.0),
    ev.TaskVerified(task="b", attempt=1),
    ev.LandingStarted(task="b", attempt=1),
    ev.MergePrepared(task="b", attempt=1, commit="m1", onto="c0"),
    ev.TaskLanded(task="b", attempt=1, commit="m1", head="c1"),
    ev.AttemptStarted(task="a", attempt=1, token="a1", workspace_number=1, start="c0"),
    ev.ProgressReported(task="a", attempt=1, progress=40.0, heard=7),
    ev.SnapshotSaved(task="a", attempt=1, commit="w1"),
    ev.AttemptLost(task="a", attempt=1, carry="w1"),
]
OLD_ROWS = (
    (
        '{"id":"b","status":"completed","attempt":1,"token":"b1","base":"c0","start":"c0","head":"c1","tree":"t1",'
        '"tokens":5,"spent":{"tokens":5},"provider":"anthropic","session":"S","session_slot":0,"session_left":"c1",'
        '"activity":"edits","queued":1,"merge_commit":"m1","worked_s":2.0}'
    ),
    (
        '{"id":"a","attempt":1,"lost":1,"token":"a1","base":"c0","start":"c0","carry":"w1","wip":"w1",'
        '"report":{"progress":40.0},"heard":7,"session_left":"w1"}'
    ),
)
"""Rows as version 1 wrote them."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A journal of version 1 with one run."""
    path = tmp_path / "journal.db"
    journal = open_journal(path)
    state = RunState(PLAN, first_row(started()))
    journal.create_run(PLAN, state.row, started(), 100.0)
    epoch = journal.take_epoch(RUN)
    for event in HISTORY:
        state.apply(event)
        journal.append(RUN, epoch, [event], state.row, state.take_changed(), 101.0)
    journal.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        keys = [key for (key,) in db.execute("SELECT key FROM tasks ORDER BY key")]
        for key, row in zip(keys, OLD_ROWS, strict=True):
            db.execute("UPDATE tasks SET row = ? WHERE key = ?", (row.encode(), key))
        db.execute("PRAGMA user_version = 1")
    return path


def _version(path: Path) -> int:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        version: int = db.execute("PRAGMA user_version").fetchone()[0]
        return version


def test_an_old_journal_is_read_without_being_changed(path: Path) -> None:
    """Whoever only looks sees every task as its events tell, and the file keeps its version."""
    folded = replay(PLAN, [started(), *HISTORY])
    stored = open_reader(path).load(RUN)
    assert list(stored.tasks) == [folded.tasks["b"], folded.tasks["a"]]
    assert stored.tasks[1].latest.snapshot == "w1"
    assert _version(path) == 1


def _write(path: Path) -> None:
    with closing(open_journal(path)) as journal:
        journal.confirm_plan("a plan", 102.0)


def test_a_command_that_writes_nothing_does_not_migrate_an_old_journal(path: Path) -> None:
    """Until something is written, an older Holdfast can still use the file. What is there is read all the same."""
    folded = replay(PLAN, [started(), *HISTORY])
    with closing(open_journal(path)) as journal:
        assert list(journal.load(RUN).tasks) == [folded.tasks["b"], folded.tasks["a"]]
    assert _version(path) == 1


def test_an_old_journal_is_migrated_by_the_first_write(path: Path) -> None:
    """From then on the rows are read as they are stored, and equal the fold of the events."""
    _write(path)
    assert _version(path) == 2
    folded = replay(PLAN, [started(), *HISTORY])
    assert list(open_reader(path).load(RUN).tasks) == [folded.tasks["b"], folded.tasks["a"]]


def test_a_runner_of_version_1_may_live_on_in_a_migrated_journal(path: Path) -> None:
    """An upgrade in the middle of a run: the rows that the old runner still writes are folded anew, too."""
    _write(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        last = db.execute("SELECT max(key) FROM tasks").fetchone()[0]
        db.execute("UPDATE tasks SET row = ? WHERE key = ?", (OLD_ROWS[1].encode(), last))
    folded = replay(PLAN, [started(), *HISTORY])
    assert list(open_reader(path).load(RUN).tasks) == [folded.tasks["b"], folded.tasks["a"]]


def test_an_old_journal_whose_events_contradict_each_other_is_refused_and_kept(path: Path) -> None:
    """What cannot be folded is not guessed."""
    twice = [ev.TaskLanded(task="b", attempt=1, commit="m2", head="c1")]
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        last = db.execute("SELECT max(key) FROM events").fetchone()[0]
        db.execute("INSERT INTO events VALUES (?, ?, ?)", (last + 1, 102.0, encode_events(twice)))
    with pytest.raises(JournalError, match="contradict each other"):
        _write(path)
    assert _version(path) == 1
