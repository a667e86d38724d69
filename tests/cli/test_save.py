"""`holdfast save`: all unfinished work of live runs is saved now, also when a task's own agent asks for it."""

from __future__ import annotations

from pathlib import Path

from tests.support.command import Cli
from tests.support.repositories import Project
from tests.support.runs import Fifo, Trial, sh, stage, start_runner


def trial_of(tmp_path: Path, script: str) -> Trial:
    """Return a run of one task that saves nothing by itself within the time of a test."""
    return Trial.of(Project.create(tmp_path / "p"), stage("s", sh("a", script)), limits={"snapshot": "1h"})


def test_save_tells_what_it_saved(tmp_path: Path) -> None:
    """The newest snapshot is named; done again without a change, it is the same one."""
    there, go_on = Fifo(tmp_path / "there"), Fifo(tmp_path / "go-on")
    trial = trial_of(tmp_path, f"echo half > half.txt; {there.give}; {go_on.take}")
    with start_runner(trial) as runner:
        there.wait()
        said = [Cli(trial.project.path)("save").out for _ in range(2)]
        go_on.release()
        runner.communicate()
    wip = trial.state().tasks["a"].latest.snapshot
    assert said == [f"01-try-it: saved a at {wip[:12]}.\n"] * 2


def test_a_tasks_own_agent_can_have_its_work_saved(tmp_path: Path) -> None:
    """Inside a workspace the runner is found through the attempt's variables, and has saved when the command returns."""
    there, go_on = Fifo(tmp_path / "there"), Fifo(tmp_path / "go-on")
    trial = trial_of(tmp_path, f"echo half > half.txt; holdfast save --quiet; {there.give}; {go_on.take}")
    with start_runner(trial) as runner:
        there.wait()
        saved = trial.state().tasks["a"].latest.snapshot
        go_on.release()
        runner.communicate()
    assert trial.project.git("show", f"{saved}:half.txt") == "half"


def test_without_a_live_run_there_is_nothing_to_save(completed: Cli) -> None:
    """That is no failure; where there is no repository at all it is, unless a hook asks."""
    assert "No runner is at work" in completed("save").out
    assert (completed("save", "--quiet").out, completed("save", "--quiet").code) == ("", 0)


def test_outside_of_a_repository_only_a_hook_is_left_in_peace(tmp_path: Path) -> None:
    """A user is told what is wrong; a hook must never be in the way."""
    assert Cli(tmp_path)("save").code == 2
    assert Cli(tmp_path)("save", "--quiet").code == 0
