"""S7: a run that rests leaves a note for whoever comes back; `pause --now` saves work and ends agents."""

from __future__ import annotations

from pathlib import Path

from holdfast.core.status import RunStatus
from holdfast.runner.requests import Request, send_request
from tests.support.repositories import Project
from tests.support.runs import DEADLINE_S, Fifo, Trial, sh, stage, start_runner


def _note(trial: Trial) -> Path:
    return trial.project.open().state_dir.run(trial.run).note


def _paused_at_once(tmp_path: Path) -> Trial:
    """Pause a run while its task B has written half of its work; A has landed, C waits for B."""
    here, never = Fifo(tmp_path / "here"), Fifo(tmp_path / "never")
    half = (
        f"if [ -f half.txt ]; then echo b > B.txt; else echo half > half.txt; {here.give}; {never.take}; fi"
    )
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage(
            "one",
            sh("A", "echo a > A.txt"),
            sh("B", half, needs=["A"], resume="continue"),
            sh("C", "echo c > C.txt", needs=["B"]),
        ),
    )
    runner = start_runner(trial)
    here.wait()
    send_request(trial.project.open().state_dir.run(trial.run), Request(action="pause", now=True))
    out, _ = runner.communicate(timeout=DEADLINE_S)
    assert out == b"paused\n"
    return trial


def test_a_pause_at_once_commits_pending_work_and_resume_continues_from_it(tmp_path: Path) -> None:
    """Nothing is charged, nothing is lost, nothing lives on."""
    trial = _paused_at_once(tmp_path)
    task = trial.state().tasks["B"]
    assert (task.charged, task.crash_count, task.status) == (0, 0, "pending")
    assert trial.project.git("show", f"{task.carry}:half.txt") == "half"
    assert trial.violations() == []
    assert trial.execute() is RunStatus.COMPLETED
    assert trial.show("half.txt") == "half"


def test_the_note_tells_what_is_done_under_way_and_next(tmp_path: Path) -> None:
    """Why it rests, commits of what landed, where the unfinished work is, and the command that goes on."""
    trial = _paused_at_once(tmp_path)
    said, tasks = _note(trial).read_text(), trial.state().tasks
    assert "It was paused." in said
    assert f"A: landed as {tasks['A'].merge_commit[:12]}" in said
    assert f"its work is commit {tasks['B'].carry[:12]} at refs/holdfast/{trial.run}/wip/B" in said
    assert "## Next (1)\n\n- C" in said
    assert "    holdfast resume 1\n" in said


def test_the_note_is_removed_when_the_run_continues(tmp_path: Path) -> None:
    """A note that stays would lie."""
    trial = _paused_at_once(tmp_path)
    assert _note(trial).exists()
    trial.execute()
    assert not _note(trial).exists()


def test_a_blocked_run_leaves_a_note_that_says_why(tmp_path: Path) -> None:
    """Not only a pause needs a person to come back."""
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", "exit 1")), limits={"attempts": 1})
    assert trial.execute() is RunStatus.BLOCKED
    assert "It waits for a decision. stage one stopped: A abandoned" in _note(trial).read_text()


def test_a_stopped_run_leaves_a_note(tmp_path: Path) -> None:
    """Ctrl-C and `stop` are rests like any other."""
    here, never = Fifo(tmp_path / "here"), Fifo(tmp_path / "never")
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", f"{here.give}; {never.take}")))
    runner = start_runner(trial)
    here.wait()
    send_request(trial.project.open().state_dir.run(trial.run), Request(action="stop"))
    runner.communicate(timeout=DEADLINE_S)
    assert "It was stopped." in _note(trial).read_text()


def test_a_completed_run_leaves_no_note(tmp_path: Path) -> None:
    """There is nothing to go on with."""
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", "echo a > A.txt")))
    assert trial.execute() is RunStatus.COMPLETED
    assert not _note(trial).exists()
