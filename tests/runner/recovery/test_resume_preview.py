"""The preview of `resume` and the resume itself come from the same facts."""

from __future__ import annotations

import time
from pathlib import Path

from holdfast.core.status import RunStatus
from tests.support.repositories import Project
from tests.support.runs import Trial, sh, stage
from tests.support.scripted_agents import codex, fails, once, say, trial, work


def test_a_limit_that_is_over_by_now_holds_no_task_up(tmp_path: Path) -> None:
    """The next runner goes by the time of day, so the preview does too: the task starts at once."""
    limit = fails("You've hit your usage limit. Please try again in 1s.")
    script = once(tmp_path / "hit", f"{say(limit)}; exit 1", work())
    run = trial(Project.create(tmp_path / "p"), "t", agents={"a": codex(script)}, limits={"on_limit": "stop"})
    assert run.execute() is RunStatus.BLOCKED
    _wait_until(run.stored().row.parked["openai"].until)
    assert "limit is over" in run.preview()["t"].why
    assert run.execute() is RunStatus.COMPLETED


def test_a_limit_that_lasts_is_waited_for(tmp_path: Path) -> None:
    """What the preview says of a task that waits names the end of the wait."""
    limit = fails("You have hit your usage limit. Please try again in 2h.")
    agents = {"a": codex(f"{say(limit)}; exit 1")}
    run = trial(Project.create(tmp_path / "p"), "t", agents=agents, limits={"on_limit": "stop"})
    assert run.execute() is RunStatus.BLOCKED
    assert "waits for a usage limit" in run.preview()["t"].why


def test_a_completed_run_has_nothing_to_redo(tmp_path: Path) -> None:
    """Resuming it does nothing, even after its branch was deleted."""
    run = Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", "echo a > A.txt")))
    assert run.execute() is RunStatus.COMPLETED
    row = run.stored().row
    run.project.git("update-ref", row.branch, row.base)
    assert [task.move for task in run.preview().values()] == ["skip"]


def _wait_until(moment: float) -> None:
    while time.time() <= moment:
        time.sleep(0.05)
