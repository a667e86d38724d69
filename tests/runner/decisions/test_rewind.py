"""Beginning again at a stage or a task, in place where nothing landed, else in a new run; a reset task, and the backup before."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.core.status import RunStatus, TaskStatus
from holdfast.errors import HoldfastError
from holdfast.journal import open_reader
from holdfast.runner.decisions.rewind import Rewind, back_up_state, plan_rewind, reset_task, rewind_run
from tests.runner.decisions.resting_runs import blocked_run
from tests.support.repositories import Project
from tests.support.runs import Trial, open_project_journal, sh, stage


def _ignore(*_: object) -> None:
    """Watch nothing."""


def _rewind(trial: Trial, at: str) -> Trial:
    """Begin again at a stage or a task; return the run to carry on."""
    repo = trial.project.open()
    with open_project_journal(repo) as journal:
        run = rewind_run(repo, journal, plan_rewind(repo, journal, trial.run, at), _ignore)
    return Trial(trial.project, run)


def _consider(trial: Trial, at: str) -> Rewind:
    repo = trial.project.open()
    with open_project_journal(repo) as journal:
        return plan_rewind(repo, journal, trial.run, at)


def _three(tmp_path: Path, last: str) -> Trial:
    """Return a run of three stages with a task each; every task notes that it ran."""
    count = tmp_path / "count"
    return Trial.of(
        Project.create(tmp_path / "p"),
        stage("one", sh("A", f"echo A >> {count}; echo a > A.txt"), entry=["test ! -f A.txt"]),
        stage("two", sh("B", f"echo B >> {count}; cp A.txt B.txt"), exit=["test -f B.txt"]),
        stage("three", sh("C", f"echo C >> {count}; {last}")),
        limits={"attempts": 1},
    )


def test_a_task_of_which_nothing_landed_begins_again_from_a_clean_start(tmp_path: Path) -> None:
    """A8, S2: the same run; what the task had done is forgotten but kept at its refs."""
    flag = tmp_path / "flag"
    trial = _three(
        tmp_path, f"test ! -f wrong.txt; echo x > wrong.txt; test -f {flag} && rm wrong.txt && echo c > C.txt"
    )
    assert trial.execute() is RunStatus.BLOCKED
    wrong = trial.state().tasks["C"].carry
    flag.touch()
    again = _rewind(trial, "C")
    assert (again.run, again.state().tasks["C"].carry) == (trial.run, "")
    assert again.execute() is RunStatus.COMPLETED
    assert (trial.landed(), trial.violations()) == (["A", "B", "C"], [])
    assert trial.project.git("for-each-ref", "--contains", wrong, "refs/holdfast") != ""


def test_a_stage_that_landed_begins_again_in_a_new_run(tmp_path: Path) -> None:
    """A8: the branch never goes back; the new run starts before the first landing and has only what is left."""
    trial = _three(tmp_path, "exit 1")
    trial.execute()
    tip, landed = trial.facts().tip, trial.facts().landings
    new = _rewind(trial, "two")
    assert new.run == "02-try-it"
    assert (new.stored().row.base, list(new.state().tasks)) == (landed[0].commit, ["B", "C"])
    assert trial.stored().row.status is RunStatus.ABANDONED
    assert new.run in trial.stored().row.reason
    assert trial.facts().tip == tip


def test_the_new_run_does_only_what_is_left(tmp_path: Path) -> None:
    """X4: what stands is not done again, and the result is whole."""
    flag = tmp_path / "flag"
    trial = _three(tmp_path, f"test -f {flag} && echo c > C.txt")
    trial.execute()
    flag.touch()
    new = _rewind(trial, "B")
    assert new.execute() is RunStatus.COMPLETED
    assert (tmp_path / "count").read_text().split() == ["A", "B", "C", "B", "C"]
    assert (new.show("A.txt"), new.show("B.txt"), new.show("C.txt")) == ("a", "a", "c")
    assert (new.landed(), new.violations()) == (["B", "C"], [])


def test_a_completed_run_can_begin_again_and_stays_completed(tmp_path: Path) -> None:
    """A8: a phase that is named is run again; the old result stays as it is."""
    trial = _three(tmp_path, "echo c > C.txt")
    assert trial.execute() is RunStatus.COMPLETED
    new = _rewind(trial, "three")
    assert new.execute() is RunStatus.COMPLETED
    assert trial.stored().row.status is RunStatus.COMPLETED
    assert new.landed() == ["C"]


def test_beginning_again_twice_makes_one_run(tmp_path: Path) -> None:
    """A kill between making the new run and giving up the old one is mended by doing it again."""
    trial = _three(tmp_path, "exit 1")
    trial.execute()
    repo = trial.project.open()
    with open_project_journal(repo) as journal:
        rewind = plan_rewind(repo, journal, trial.run, "two")
        assert {rewind_run(repo, journal, rewind, _ignore) for _ in range(2)} == {"02-try-it"}
        assert len(journal.runs()) == 2


def test_independent_work_that_landed_later_is_part_of_what_is_left(tmp_path: Path) -> None:
    """The new base does not have it, so it is done again, and that is said before."""
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage(
            "one",
            sh("A", "echo a > A.txt"),
            sh("B", "echo b > B.txt", needs=["A"]),
            sh("C", "echo c > C.txt"),
        ),
        limits={"jobs": 1},
    )
    trial.execute()
    order = trial.landed()
    rewind = _consider(trial, order[0])
    assert set(rewind.redone) == set(rewind.landed) == set(order)


def test_what_the_plan_does_not_have_cannot_begin_again(tmp_path: Path) -> None:
    """The nearest name is offered."""
    trial = _three(tmp_path, "true")
    with pytest.raises(HoldfastError, match='did you mean "three"'):
        _consider(trial, "thre")


def test_a_backup_is_a_whole_journal_and_a_list_of_refs(tmp_path: Path) -> None:
    """E8: from it everything can be put back by hand."""
    trial = blocked_run(tmp_path)
    copy = back_up_state(trial.project.open())
    reader = open_reader(copy)
    assert reader.load(trial.run) == trial.stored()
    refs = copy.with_name(copy.name.replace("journal.db", "refs.txt")).read_text()
    assert f"refs/heads/holdfast/{trial.run}" in refs
    assert f"refs/holdfast/{trial.run}/task/B/1" in refs


def test_a_backup_beside_a_live_writer_is_consistent(tmp_path: Path) -> None:
    """What is in the log and not yet in the main file is in the copy."""
    trial = blocked_run(tmp_path)
    repo = trial.project.open()
    with open_project_journal(repo) as journal:
        journal.confirm_plan("fresh", 1.0)
        copy = back_up_state(repo)
    with closing(sqlite3.connect(copy)) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert db.execute("SELECT hash FROM confirmed_plans").fetchall().count(("fresh",)) == 1


def test_a_reset_task_begins_from_nothing_and_keeps_its_refs(tmp_path: Path) -> None:
    """E8: no carry, no failures charged, a new attempt number; the old work is where it was."""
    trial = blocked_run(tmp_path)
    repo = trial.project.open()
    with open_project_journal(repo) as journal:
        reset_task(repo, journal, trial.run, "B", _ignore)
    row = trial.state().tasks["B"]
    assert (row.status, row.carry, row.charged, row.attempt) == (TaskStatus.PENDING, "", 0, 1)
    assert trial.project.git("show", f"refs/holdfast/{trial.run}/task/B/1:B.txt") == "b"
    assert trial.execute() is RunStatus.BLOCKED
    assert trial.state().tasks["B"].attempt == 2


def test_what_has_landed_is_not_reset(tmp_path: Path) -> None:
    """The way to do it again is named."""
    trial = blocked_run(tmp_path)
    repo = trial.project.open()
    with open_project_journal(repo) as journal, pytest.raises(HoldfastError) as refused:
        reset_task(repo, journal, trial.run, "A", _ignore)
    assert "--from A" in refused.value.hint
