"""A run from its first task to its last: order, parallel work, statuses, records."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.core import events as ev
from holdfast.core.status import AttemptKind, FailureKind, RunStatus, StageStatus
from holdfast.errors import LeaseLostError
from holdfast.journal import open_journal, open_reader
from holdfast.journal.lease import Holder
from holdfast.journal.sqlite import SqliteJournal
from holdfast.runner.session import RunOptions, execute_run
from tests.support.repositories import Project, fingerprint
from tests.support.runs import Fifo, Trial, sh, stage


def test_stages_run_in_order_and_their_tasks_land_on_the_run_branch(tmp_path: Path) -> None:
    """E1: a stage begins when the one before it is complete."""
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage("one", sh("A", "echo a > A.txt")),
        stage("two", sh("B", "cp A.txt B.txt")),
    )
    assert trial.execute() is RunStatus.COMPLETED
    assert trial.landed() == ["A", "B"]
    assert trial.show("B.txt") == "a"
    assert trial.violations() == []


def test_tasks_of_a_stage_run_at_the_same_time_in_workspaces_of_their_own(tmp_path: Path) -> None:
    """E1: two tasks that wait for each other can only finish side by side, and neither sees the other's files."""
    one, two = tmp_path / "one", tmp_path / "two"
    for path in (one, two):
        Fifo(path)
    meet = "echo here > {mine}; read _ < {other}; ls > listing-{name}; test ! -e {stranger}"
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage(
            "one",
            sh("A", "touch A.txt; " + meet.format(mine=one, other=two, name="A", stranger="B.txt")),
            sh("B", "touch B.txt; " + meet.format(mine=two, other=one, name="B", stranger="A.txt")),
        ),
        limits={"jobs": 2, "attempts": 1},
    )
    assert trial.execute() is RunStatus.COMPLETED
    assert "B.txt" not in trial.show("listing-A").split()


def test_a_task_lives_through_every_status_in_order(tmp_path: Path) -> None:
    """E2: pending, running, verifying, verified, merging, completed, each by its own event."""
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", "echo a > A.txt")), verify=["true"])
    trial.execute()
    kinds = [type(event).__name__ for event in trial.events if getattr(event, "task", "") == "A"]
    assert kinds == [
        "AttemptStarted",
        "AttemptDone",
        "ChecksStarted",
        "TaskVerified",
        "LandingStarted",
        "MergePrepared",
        "TaskLanded",
    ]


def test_run_and_stages_keep_their_status(tmp_path: Path) -> None:
    """E3: a complete run says so of itself and of each stage."""
    trial = Trial.of(
        Project.create(tmp_path / "p"), stage("one", sh("A", "true")), stage("two", sh("B", "true"))
    )
    assert trial.stored().row.status is RunStatus.PENDING
    trial.execute()
    row = trial.stored().row
    assert row.status is RunStatus.COMPLETED
    assert {s.status for s in row.stages.values()} == {StageStatus.COMPLETED}


def test_commits_and_errors_are_kept_per_attempt_and_feedback_reaches_the_next(tmp_path: Path) -> None:
    """E5: attempt 1 is an implementation with its error, attempt 2 a fix that was told what went wrong."""
    script = "if [ -f A.txt ]; then echo good > A.txt; else echo bad > A.txt; fi"
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage("one", sh("A", script, verify=["grep good A.txt || { echo 'expected good'; exit 3; }"])),
    )
    assert trial.execute() is RunStatus.COMPLETED
    task = trial.state().tasks["A"]
    assert [commit.kind for commit in task.commits] == [AttemptKind.IMPLEMENTATION, AttemptKind.FIX]
    assert [(f.attempt, f.kind) for f in task.failures] == [(1, FailureKind.CHECK)]
    assert "expected good" in trial.brief("A", 2)
    assert "+bad" in trial.brief("A", 2)


def test_the_state_is_on_disk_before_the_result_appears(tmp_path: Path) -> None:
    """A4: when the journal has the landing's intent, the branch has not moved yet."""
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", "echo a > A.txt")))
    repo = trial.project.open()
    branch_when_prepared: list[str] = []

    def look(events: object, state: object) -> None:
        reader = open_reader(repo.state_dir.journal)
        recorded = [record.event for record in reader.events(trial.run)]
        reader.close()
        if any(isinstance(event, ev.MergePrepared) for event in recorded) and not branch_when_prepared:
            branch_when_prepared.append(repo.read_ref(trial.stored().row.branch))

    journal = open_journal(repo.state_dir.journal)
    execute_run(repo, journal, trial.run, RunOptions(), look)
    journal.close()
    assert branch_when_prepared == [trial.stored().row.base]


def test_the_users_checkout_is_left_byte_for_byte_as_it_was(tmp_path: Path) -> None:
    """Invariant 16: files, index and untracked files are not touched, dirty or not."""
    project = Project.create(tmp_path / "p")
    project.write("a.txt", "edited by the user\n")
    project.write("untracked.txt", "mine\n")
    project.write("staged.txt", "staged\n")
    project.git("add", "staged.txt")
    before, index = fingerprint(project.path), (project.git_dir / "index").read_bytes()
    trial = Trial.of(project, stage("one", sh("A", "echo a > A.txt; echo changed > a.txt")))
    assert trial.execute() is RunStatus.COMPLETED
    assert fingerprint(project.path) == before
    assert (project.git_dir / "index").read_bytes() == index


def test_needs_within_a_stage_are_kept(tmp_path: Path) -> None:
    """Invariant 5: a task sees what it needs, because that landed first."""
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage("one", sh("B", "cp A.txt B.txt", needs=["A"]), sh("A", "echo a > A.txt")),
    )
    assert trial.execute() is RunStatus.COMPLETED
    assert trial.landed() == ["A", "B"]


def test_a_runner_whose_lease_was_taken_away_starts_nothing_more(tmp_path: Path) -> None:
    """Somebody removed the file that it holds: another runner may be at work, so it ends before the next agent."""
    project = Project.create(tmp_path / "p")
    lease, started = project.open().state_dir.run("01-try-it").lease, tmp_path / "started"
    tasks = (sh("A", f"rm {lease}; false"), sh("B", f"touch {started}"))
    trial = Trial.of(project, stage("one", *tasks), limits={"jobs": 1, "attempts": 1, "keep_going": True})
    with pytest.raises(LeaseLostError):
        trial.execute()
    assert not started.exists()


def test_a_runner_reads_the_run_after_it_has_fenced_off_the_last_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A runner that lost its lease and does not know it yet writes at the worst moment: that is not overlooked."""
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", "echo a > a"), sh("B", "false")))
    take_epoch = SqliteJournal.take_epoch

    def write_first(journal: SqliteJournal, run: str, by: Holder, *, hold: bool) -> int:
        state, epoch = journal.load(run).state(), take_epoch(journal, run)
        skipped = ev.TaskSkipped(task="B")
        state.apply(skipped)
        journal.append(run, epoch, [skipped], state.row, state.take_changed(), 0.0)
        monkeypatch.setattr(SqliteJournal, "take_epoch", take_epoch)
        return take_epoch(journal, run, by, hold=hold)

    monkeypatch.setattr(SqliteJournal, "take_epoch", write_first)
    assert trial.execute() is RunStatus.COMPLETED
    assert trial.violations() == []
