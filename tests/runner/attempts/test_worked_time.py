"""How long agents worked is known also of attempts that did not come to their own end, as far as anything shows it."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from holdfast.core import events as ev
from holdfast.core.status import RunStatus
from tests.support.command import Cli, cli_at_work, eventually
from tests.support.repositories import Project
from tests.support.runs import Fifo, Trial, kill_everything, sh, stage, start_runner
from tests.support.scripted_agents import once


def _first_attempt(cli: Cli) -> Any:
    return cli.task("a")["spending_by_attempt"][0]


def _stop(cli: Cli, runner: subprocess.Popen[bytes]) -> None:
    assert cli("stop").code == 0
    runner.wait()


def _interrupt(_cli: Cli, runner: subprocess.Popen[bytes]) -> None:
    os.kill(runner.pid, signal.SIGINT)
    runner.wait()


def _take(cli: Cli, runner: subprocess.Popen[bytes]) -> None:
    assert cli("take", "a").code == 0
    runner.wait()


@pytest.mark.parametrize("end", [_stop, _interrupt, _take])
def test_the_time_of_an_agent_that_we_ended_is_known(tmp_path: Path, end: Any) -> None:
    """In `status`, in `recap` and in what they say to programs."""
    cli, runner, _ = cli_at_work(tmp_path)
    end(cli, runner)
    worked = _first_attempt(cli)["worked_s"]
    assert worked > 0
    (task,) = cli.json("recap")["tasks"]
    assert task["spending"]["worked_s"] == worked
    assert cli.json("status")["metrics"]["spending"]["worked_s"] == worked


def _killed(tmp_path: Path, script: str) -> Trial:
    """Leave a run whose runner, supervisor and agent were killed while the agent was at work."""
    at_work = Fifo(tmp_path / "at")
    whole = once(tmp_path / "hit", f"{script}; {at_work.give}; sleep 60", "echo a > a.txt")
    run = Trial.of(Project.create(tmp_path / "p"), stage("one", sh("a", whole)))
    runner = start_runner(run)
    at_work.wait()
    eventually(lambda: run.state().tasks["a"].latest.token != "", "it is recorded")
    kill_everything(run, runner)
    return run


def test_the_time_of_a_killed_agent_is_known_until_its_last_word(tmp_path: Path) -> None:
    """Its supervisor died with it: what it printed last is the last that anybody knows of it."""
    run = _killed(tmp_path, "echo begun; sleep 0.4; echo still here")
    before = _first_attempt(Cli(run.project.path))["worked_s"]
    assert 0.3 <= before < 30
    assert run.execute() is RunStatus.COMPLETED
    (lost,) = run.of_kind(ev.AttemptLost)
    assert (lost.cause, lost.duration_s) == ("crash", before)
    assert run.state().tasks["a"].past[0].worked_s == before


def test_the_time_of_a_killed_agent_that_said_nothing_stays_unknown(tmp_path: Path) -> None:
    """It may have worked for hours, or not at all; and while nobody resumes the run, no time passes for it."""
    run = _killed(tmp_path, "true")
    assert _first_attempt(Cli(run.project.path))["worked_s"] is None
    assert run.execute() is RunStatus.COMPLETED
    (lost,) = run.of_kind(ev.AttemptLost)
    assert lost.duration_s == 0
