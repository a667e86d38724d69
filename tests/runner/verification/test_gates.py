"""Gates of stages: what is checked before a stage opens and closes, and the three ways on when a check fails."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from holdfast.core import events as ev
from holdfast.core.state import RunState
from holdfast.core.status import RunStatus
from holdfast.errors import HoldfastError
from holdfast.journal import open_journal
from holdfast.repo.landing import trailers
from holdfast.runner.decisions.user_decisions import waive_gates
from holdfast.runner.session import RunOptions, execute_run
from tests.support.command import Cli, eventually, writes
from tests.support.repositories import Project
from tests.support.runs import Fifo, Trial, open_project_journal, sh, stage, start_runner


def _waive(trial: Trial, *stages: str) -> bool:
    repo = trial.project.open()
    journal = open_journal(repo.state_dir.journal)
    try:
        return waive_gates(repo, journal, trial.run, stages)
    finally:
        journal.close()


def _blocked(tmp_path: Path, **gates: list[str]) -> Trial:
    """Return a run of two stages that rests because a gate of the first failed. The gates note that they ran."""
    noted = {gate: [f"echo x >> {tmp_path / gate}; false"] for gate in gates}
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage("one", sh("A", "echo a > a.txt"), **noted),
        stage("two", sh("B", "echo b > b.txt")),
    )
    assert trial.execute() is RunStatus.BLOCKED
    return trial


def test_a_waived_exit_gate_lets_the_next_stage_open_and_is_not_checked_again(tmp_path: Path) -> None:
    """S4, continue anyway: the user's word is an event, and it holds over every resume."""
    trial = _blocked(tmp_path, exit=[])
    assert not _waive(trial, "one")
    assert trial.execute() is RunStatus.COMPLETED
    assert trial.landed() == ["A", "B"]
    assert (tmp_path / "exit").read_text() == "x\n"
    assert trial.state().stage("one").waived == ("exit",)
    assert trial.violations() == []


def test_a_waived_entry_gate_opens_the_stage_without_another_check(tmp_path: Path) -> None:
    """S3, continue anyway."""
    trial = _blocked(tmp_path, entry=[])
    _waive(trial, "one")
    assert trial.execute() is RunStatus.COMPLETED
    assert (tmp_path / "entry").read_text() == "x\n"


def test_a_waiver_of_one_gate_does_not_cover_the_other(tmp_path: Path) -> None:
    """Each failed check is a decision of its own."""
    trial = _blocked(tmp_path, entry=[], exit=[])
    _waive(trial, "one")
    assert trial.execute() is RunStatus.BLOCKED
    assert "exit check of stage one failed" in trial.stored().row.reason


def test_retry_is_a_plain_resume_which_checks_again(tmp_path: Path) -> None:
    """S4, retry: nothing is remembered against the stage."""
    trial = _blocked(tmp_path, exit=[])
    assert trial.execute() is RunStatus.BLOCKED
    assert (tmp_path / "exit").read_text() == "x\nx\n"


def test_only_a_failed_gate_can_be_waived(tmp_path: Path) -> None:
    """A waiver in advance, or for a stage that does not exist, is refused, and none of the others is given."""
    trial = _blocked(tmp_path, exit=[])
    for stages in (["one", "two"], ["one", "thre"]):
        with pytest.raises(HoldfastError, match=r"two|thre"):
            _waive(trial, *stages)
    assert trial.state().stage("one").waived == ()


def test_a_live_runner_takes_a_waiver_and_goes_on(tmp_path: Path) -> None:
    """Other stages are still at work: the blocked one need not wait for them to end."""
    other, after = Fifo(tmp_path / "other"), Fifo(tmp_path / "after")
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage("one", sh("A", "true"), exit=["false"]),
        stage("slow", sh("S", other.take), needs=[]),
        stage("two", sh("B", f"{after.give}; echo b > b.txt"), needs=["one"]),
    )
    runner = start_runner(trial)
    eventually(lambda: trial.state().stage("one").status == "blocked", "the exit check fails")
    assert _waive(trial, "one"), "a live runner is asked, not gone around"
    after.wait()
    other.release()
    assert b"completed" in runner.communicate(timeout=30)[0]


def test_a_stage_with_more_landings_than_completed_tasks_does_not_close(tmp_path: Path) -> None:
    """S4: the number of commits must match; a second landing, forged right before the gate is checked, is noticed."""
    project = Project.create(tmp_path / "p")
    trial = Trial.of(project, stage("one", sh("A", "echo a > a.txt")))
    branch = f"refs/heads/holdfast/{trial.run}"

    def forge(events: Sequence[ev.Event], _state: RunState) -> None:
        if any(isinstance(event, ev.StageClosing) for event in events):
            side = project.git("commit-tree", "-p", branch, "-m", "side", f"{branch}^{{tree}}")
            message = f"x\n\n{trailers(trial.run, 'A', 7)}"
            args = ("commit-tree", "-p", branch, "-p", side, "-m", message, f"{branch}^{{tree}}")
            project.git("update-ref", branch, project.git(*args))

    repo = project.open()
    with open_project_journal(repo) as journal:
        assert execute_run(repo, journal, trial.run, RunOptions(), forge) is RunStatus.BLOCKED
    assert "1 completed tasks but 2 landings" in trial.stored().row.reason


def test_a_delivered_file_that_a_later_task_removed_fails_the_exit_gate(tmp_path: Path) -> None:
    """S4: expected files exist at the end of the stage, not only when their task ended."""
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage("one", sh("A", "echo a > a.md", files=["a.md"]), sh("B", "rm a.md", needs=["A"])),
    )
    assert trial.execute() is RunStatus.BLOCKED
    assert "a.md, delivered by A, is not on the run branch" in trial.stored().row.reason


def test_a_delivered_file_that_is_gone_keeps_every_later_stage_closed(tmp_path: Path) -> None:
    """S3: a stage relies on all the stages below it, not only on the one before."""
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage("one", sh("A", "echo a > a.md", files=["a.md"])),
        stage("two", sh("B", "rm a.md")),
        stage("three", sh("C", "true")),
    )
    assert trial.execute() is RunStatus.BLOCKED
    assert "entry check of stage three failed: a.md" in trial.stored().row.reason


def test_a_stage_does_not_build_on_files_with_syntax_errors(tmp_path: Path) -> None:
    """S3: two good changes can merge into a file that no longer parses; the next stage would stumble over it."""
    project = Project.create(tmp_path / "p")
    project.write("f.py", "async def f():\n    a = 1\n    b = 2\n    c = 3\n    d = 4\n    return a\n")
    project.commit("a function")
    trial = Trial.of(
        project,
        stage("one", sh("A", "sed -i 's/async def/def/' f.py"), sh("B", "sed -i 's/return a/await a/' f.py")),
        stage("two", sh("C", "true")),
    )
    assert trial.execute() is RunStatus.BLOCKED
    assert sorted(trial.landed()) == ["A", "B"]
    assert "stage two would build on files with syntax errors: f.py:6:" in trial.stored().row.reason


def test_what_is_written_to_a_workspace_after_its_work_was_committed_is_told_and_kept(tmp_path: Path) -> None:
    """S4: nothing uncommitted is left behind; the sentence names the file and the ref that keeps it."""
    project = Project.create(tmp_path / "p")
    landed = f"git -C {project.path} log holdfast/01-try-it | grep -q 'Land A'"
    meddle = f"until {landed}; do :; done; echo late > ../0/late.txt; echo b > b.txt"
    trial = Trial.of(project, stage("one", sh("A", "echo a > a.txt"), sh("B", meddle)))
    assert trial.execute() is RunStatus.BLOCKED
    reason = trial.stored().row.reason
    assert "late.txt" in reason
    ref = reason.rpartition(" ")[2]
    assert trial.project.git("show", f"{ref}:late.txt") == "late"
    assert trial.execute() is RunStatus.COMPLETED


def test_a_workspace_that_went_back_to_its_start_after_the_commit_closes_no_gate(tmp_path: Path) -> None:
    """There is nothing in it that is nowhere else: the work is committed."""
    project = Project.create(tmp_path / "p")
    landed = f"git -C {project.path} log holdfast/01-try-it | grep -q 'Land A'"
    undo = f"until {landed}; do :; done; rm ../0/a2.txt; echo b > b.txt"
    trial = Trial.of(project, stage("one", sh("A", "echo a > a2.txt"), sh("B", undo)))
    assert trial.execute() is RunStatus.COMPLETED
    assert (trial.show("a2.txt"), trial.show("b.txt")) == ("a", "b")


def test_a_waiver_is_journalled(tmp_path: Path) -> None:
    """Who reads the history later sees that a check failed and that the user went on."""
    trial = _blocked(tmp_path, exit=[])
    _waive(trial, "one")
    repo = trial.project.open()
    journal = open_journal(repo.state_dir.journal)
    kinds = [type(record.event) for record in journal.events(trial.run)]
    journal.close()
    assert kinds.index(ev.StageGateFailed) < kinds.index(ev.StageGateWaived)


def _blocked_cli(tmp_path: Path) -> Cli:
    return Cli.of(
        tmp_path / "p",
        stages=[
            {"id": "one", "exit": ["false"], "tasks": [writes("a")]},
            {"id": "two", "tasks": [writes("b")]},
        ],
    )


def test_a_run_blocked_by_a_gate_names_the_three_ways_on(tmp_path: Path) -> None:
    """S4: retry, continue anyway, abort, each as a command to copy."""
    done = _blocked_cli(tmp_path)("run", "--yes")
    assert done.code == 3
    for way in (
        "`holdfast resume 1`",
        "resume 1 --accept one`",
        "`holdfast abandon 1`",
    ):
        assert way in done.out


def test_an_accepted_stage_is_shown_as_waived_in_status_and_recap(tmp_path: Path) -> None:
    """Nobody later takes a waived check for one that held."""
    cli = _blocked_cli(tmp_path)
    cli("run", "--yes")
    assert cli("resume", "--accept", "one").code == 0
    assert "exit check waived" in cli("status").out
    assert cli.json("status")["stages"][0]["waived"] == ["exit"]
    assert "waived by the user: the exit check of stage one" in cli("recap").out


def test_accepting_what_did_not_fail_is_refused_with_2(tmp_path: Path) -> None:
    """A slip of the pen changes nothing."""
    cli = _blocked_cli(tmp_path)
    cli("run", "--yes")
    done = cli("resume", "--accept", "on")
    assert (done.code, "did you mean" in done.err) == (2, True)
    assert cli.run_status() == "blocked"


def test_a_failing_entry_check_keeps_the_stage_closed_until_it_holds(tmp_path: Path) -> None:
    """S3: the gate is checked on the run branch; resume checks it again."""
    flag = tmp_path / "flag"
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", "true"), entry=[f"test -f {flag}"]))
    assert trial.execute() is RunStatus.BLOCKED
    assert "entry check of stage one failed" in trial.stored().row.reason
    flag.touch()
    assert trial.execute() is RunStatus.COMPLETED


def test_a_failing_exit_check_keeps_the_next_stage_closed(tmp_path: Path) -> None:
    """S4: what the stage was to deliver is checked before anything builds on it."""
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage("one", sh("A", "echo a > A.txt"), exit=["test -f B.txt"]),
        stage("two", sh("B", "true")),
    )
    assert trial.execute() is RunStatus.BLOCKED
    assert trial.landed() == ["A"]
    assert trial.status_of("B") == "pending"


def test_a_landing_that_disappeared_from_git_fails_the_next_gate(tmp_path: Path) -> None:
    """S3: earlier commits must exist in git; recorded is not enough."""
    project = Project.create(tmp_path / "p")
    trial = Trial.of(
        project,
        stage("one", sh("A", "echo a > A.txt")),
        stage(
            "two",
            sh(
                "B",
                f"git -C {project.path} update-ref refs/heads/holdfast/01-try-it {project.head()}; echo b > b",
            ),
        ),
        stage("three", sh("C", "true")),
    )
    assert trial.execute() is RunStatus.BLOCKED
    assert "somebody else moved branch" in trial.stored().row.reason
