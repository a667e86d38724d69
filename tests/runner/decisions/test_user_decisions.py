"""What a person decides about a whole run."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from holdfast.core.status import RunStatus
from holdfast.runner.decisions.user_decisions import abandon
from tests.support.repositories import Project
from tests.support.runs import DEADLINE_S, Fifo, Trial, open_project_journal, sh, stage, start_runner


def _ignore(*_: object) -> None:
    """Watch nothing."""


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
