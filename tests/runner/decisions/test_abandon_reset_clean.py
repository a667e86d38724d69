"""Giving up, taking back and clearing away: a backup first, every commit kept, never an unfinished run."""

from __future__ import annotations

import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.core.status import RunStatus, TaskStatus
from holdfast.errors import HoldfastError
from holdfast.journal import open_reader
from holdfast.runner.decisions.clean import clean_run, remove_forgotten_folders, run_size
from holdfast.runner.decisions.rewind import back_up_state, reset_task
from holdfast.runner.decisions.user_decisions import abandon, discard
from tests.support.repositories import Project
from tests.support.runs import DEADLINE_S, Fifo, Trial, open_project_journal, sh, stage, start_runner

OUTPUTS = {"recap.json": "{}\n"}


def _ignore(*_: object) -> None:
    """Watch nothing."""


def _completed(tmp_path: Path) -> Trial:
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", "echo a > A.txt")))
    assert trial.execute() is RunStatus.COMPLETED
    return trial


def _blocked(tmp_path: Path) -> Trial:
    """Return a run that rests: A landed, B was tried and left work behind."""
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage("one", sh("A", "echo a > A.txt"), sh("B", "echo b > B.txt; exit 1", needs=["A"])),
        limits={"attempts": 1},
    )
    assert trial.execute() is RunStatus.BLOCKED
    return trial


def test_an_abandoned_run_keeps_its_work(tmp_path: Path) -> None:
    """C9: agents that a dead runner left end; branch, refs and the unfinished work stay."""
    here, never = Fifo(tmp_path / "here"), Fifo(tmp_path / "never")
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage("one", sh("A", f"echo half > half.txt; {here.give}; {never.take}")),
    )
    runner = start_runner(trial)
    agent = os.pidfd_open(int(here.wait()))
    os.killpg(runner.pid, signal.SIGKILL)
    runner.communicate(timeout=DEADLINE_S)
    repo = trial.project.open()
    with open_project_journal(repo) as journal:
        abandon(repo, journal, trial.run, _ignore)
    with pytest.raises(ProcessLookupError):
        signal.pidfd_send_signal(agent, 0)
    os.close(agent)
    assert trial.stored().row.status is RunStatus.ABANDONED
    assert trial.project.git("show", f"refs/holdfast/{trial.run}/wip/A:half.txt") == "half"
    assert trial.facts().tip


def test_a_backup_is_a_whole_journal_and_a_list_of_refs(tmp_path: Path) -> None:
    """E8: from it everything can be put back by hand."""
    trial = _blocked(tmp_path)
    copy = back_up_state(trial.project.open())
    reader = open_reader(copy)
    assert reader.load(trial.run) == trial.stored()
    refs = copy.with_name(copy.name.replace("journal.db", "refs.txt")).read_text()
    assert f"refs/heads/holdfast/{trial.run}" in refs
    assert f"refs/holdfast/{trial.run}/task/B/1" in refs


def test_a_backup_beside_a_live_writer_is_consistent(tmp_path: Path) -> None:
    """What is in the log and not yet in the main file is in the copy."""
    trial = _blocked(tmp_path)
    repo = trial.project.open()
    with open_project_journal(repo) as journal:
        journal.confirm_plan("fresh", 1.0)
        copy = back_up_state(repo)
    with closing(sqlite3.connect(copy)) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert db.execute("SELECT hash FROM confirmed_plans").fetchall() == [("fresh",)]


def test_a_reset_task_begins_from_nothing_and_keeps_its_refs(tmp_path: Path) -> None:
    """E8: no carry, no failures charged, a new attempt number; the old work is where it was."""
    trial = _blocked(tmp_path)
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
    trial = _blocked(tmp_path)
    repo = trial.project.open()
    with open_project_journal(repo) as journal, pytest.raises(HoldfastError) as refused:
        reset_task(repo, journal, trial.run, "A", _ignore)
    assert "--from A" in refused.value.hint


def test_a_cleaned_run_leaves_its_branch_and_its_outputs(tmp_path: Path) -> None:
    """A12: logs, refs and rows go; what landed stays, and what happened can be read."""
    trial = _completed(tmp_path)
    repo, tip = trial.project.open(), trial.facts().tip
    assert run_size(repo, trial.run).refs >= 2
    with open_project_journal(repo) as journal:
        clean_run(repo, journal, trial.run, OUTPUTS)
        assert journal.runs() == []
    assert repo.read_ref(f"refs/heads/holdfast/{trial.run}") == tip
    assert trial.project.git("for-each-ref", f"refs/holdfast/{trial.run}") == ""
    assert (repo.state.outputs(trial.run) / "recap.json").read_text() == "{}\n"
    assert not repo.state.run(trial.run).root.exists()
    assert trial.project.git("fsck", "--strict", "--no-dangling") == ""


def test_a_run_that_is_not_over_is_never_cleaned(tmp_path: Path) -> None:
    """A12: nothing of it is touched."""
    trial = _blocked(tmp_path)
    repo = trial.project.open()
    with open_project_journal(repo) as journal, pytest.raises(HoldfastError, match="blocked"):
        clean_run(repo, journal, trial.run, OUTPUTS)
    assert not repo.state.outputs(trial.run).exists()
    assert trial.violations() == []


def test_the_archived_branch_of_a_discarded_run_survives_a_clean(tmp_path: Path) -> None:
    """Landed commits are never lost, whatever the user did with the branch."""
    trial = _completed(tmp_path)
    repo, tip = trial.project.open(), trial.facts().tip
    with open_project_journal(repo) as journal:
        kept = discard(repo, journal, trial.run, _ignore)
        clean_run(repo, journal, trial.run, OUTPUTS)
    assert trial.project.git("for-each-ref", "--format=%(refname)", "refs/holdfast") == kept
    assert trial.project.git("rev-parse", kept) == tip


def test_a_new_run_never_takes_the_name_of_a_cleaned_one(tmp_path: Path) -> None:
    """Its branch and its outputs bear that name."""
    trial = _completed(tmp_path)
    repo = trial.project.open()
    with open_project_journal(repo) as journal:
        discard(repo, journal, trial.run, _ignore)
        clean_run(repo, journal, trial.run, OUTPUTS)
    assert Trial.of(trial.project, stage("one", sh("A", "true"))).run == "02-try-it"


def test_folders_that_a_killed_clean_forgot_are_swept(tmp_path: Path) -> None:
    """Only those that neither journal nor git knows."""
    trial = _completed(tmp_path)
    repo = trial.project.open()
    forgotten = repo.state.run("07-forgotten").root
    forgotten.mkdir()
    with open_project_journal(repo) as journal:
        remove_forgotten_folders(repo, journal)
    assert not forgotten.exists()
    assert repo.state.run(trial.run).root.exists()
