"""Workspaces that somebody deleted: the preview looks, the last snapshot counts, and no attempt is charged."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from holdfast.core.status import RunStatus, TaskStatus
from holdfast.reporting.recovery_report import ResumeAction
from tests.support.command import Cli, eventually
from tests.support.repositories import Project
from tests.support.runs import Fifo, Trial, kill, kill_everything, sh, stage, start_runner


def _workspace(trial: Trial) -> Path:
    return trial.project.path / ".holdfast/work" / trial.run / "0"


def _ended_unwatched(tmp_path: Path, script: str, **plan: object) -> tuple[Trial, Fifo]:
    """Leave a run whose runner was killed and whose agent ended by itself after that."""
    here, go = Fifo(tmp_path / "here"), Fifo(tmp_path / "go")
    first = f"{script}; {here.give}; {go.take}"
    again = "[ -e half.txt ] && echo more > more.txt"
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage("one", sh("A", f"if mkdir {tmp_path}/tried; then {first}; else {again}; echo a > a.txt; fi", resume="continue")),
        **plan,
    )  # fmt: skip
    runner = start_runner(trial)
    here.wait()
    if "limits" in plan:
        eventually(lambda: trial.state().tasks["A"].latest.snapshot != "", "a snapshot")
    kill(runner)
    go.release()
    record = trial.project.path / ".holdfast/runs" / trial.run / "attempts/A/1/agent/exit.json"
    eventually(record.exists, "the agent ended")
    return trial, go


def test_a_deleted_workspace_is_seen_before_and_its_snapshot_continues_uncharged(tmp_path: Path) -> None:
    """The agent had ended by itself; what it wrote after its last snapshot is gone, which is nobody's failure."""
    trial, _ = _ended_unwatched(tmp_path, "echo half > half.txt", limits={"snapshot": 0.05})
    assert trial.preview()["A"].move is ResumeAction.COLLECT
    shutil.rmtree(_workspace(trial))
    seen = trial.preview()["A"]
    assert seen.move is ResumeAction.REDO
    assert (
        f"its workspace was deleted; a fresh agent continues from {(seen.snapshot or '-')[:12]}" in seen.why
    )
    assert "no attempt is charged" in seen.why
    assert trial.execute() is RunStatus.COMPLETED
    assert (trial.show("half.txt"), trial.show("more.txt")) == ("half", "more")
    assert (trial.state().tasks["A"].charged, trial.state().tasks["A"].attempt) == (0, 2)
    assert trial.violations() == []


def test_without_a_snapshot_it_starts_again_uncharged(tmp_path: Path) -> None:
    """There is nothing to continue from, and the preview says so."""
    trial, _ = _ended_unwatched(tmp_path, "echo half > half.txt")
    shutil.rmtree(_workspace(trial))
    assert "its workspace was deleted; a fresh agent starts again" in trial.preview()["A"].why
    done = Cli(trial.project.path)("resume", "--yes")
    assert done.code == 0
    assert (
        "A: the workspace of attempt 1 was deleted; the task starts again, no attempt is charged" in done.out
    )
    assert trial.state().tasks["A"].charged == 0


def _lost_at_work(tmp_path: Path) -> Trial:
    """Leave a run whose runner and agent were killed while the agent was at work."""
    here, never = Fifo(tmp_path / "here"), Fifo(tmp_path / "never")
    script = f"echo half > half.txt; {here.give}; {never.take}"
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", script, resume="continue")))
    runner = start_runner(trial)
    here.wait()
    kill_everything(trial, runner)
    return trial


def test_a_lost_agents_deleted_workspace_is_not_called_unwritten(tmp_path: Path) -> None:
    """Nobody looked into it, so nobody says that nothing was written."""
    trial = _lost_at_work(tmp_path)
    shutil.rmtree(_workspace(trial))
    assert "its workspace was deleted" in trial.preview()["A"].why


def test_a_workspace_that_cannot_be_compared_is_called_unknown(tmp_path: Path) -> None:
    """The preview says what keeps it from looking."""
    trial = _lost_at_work(tmp_path)
    os.mkfifo(_workspace(trial) / "half.pipe")
    (_workspace(trial) / "half.pipe").replace(_workspace(trial) / ".gitignore")
    seen = trial.preview()["A"]
    assert seen.unsaved is None
    assert "what it wrote is not known: git would wait forever at" in seen.why


def test_a_task_that_always_deletes_its_workspace_is_abandoned(tmp_path: Path) -> None:
    """Nothing is charged, but it does not go on forever."""
    script = 'rm -rf "$PWD"'
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", script)), limits={"attempts": 1})
    trial.execute()
    task = trial.state().tasks["A"]
    assert (task.status, task.attempt, task.charged) == (TaskStatus.ABANDONED, 3, 0)
