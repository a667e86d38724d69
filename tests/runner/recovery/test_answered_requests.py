"""A request counts once, also when the runner was killed after it was recorded and before its file was removed.

The file then comes back to the next runner. Meanwhile the user may have decided otherwise.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.core import events as ev
from holdfast.core.status import RunStatus
from holdfast.runner.decisions.user_decisions import record_decision
from holdfast.runner.requests import Request, send_request
from tests.crash.faults import Fault, Program, run_with_fault
from tests.support.command import COMMAND
from tests.support.repositories import Project
from tests.support.runs import Trial, open_project_journal, sh, stage


def blocked(tmp_path: Path) -> Trial:
    """Return a run that has come to rest because its only task failed."""
    tasks = stage("one", sh("A", "exit 1"))
    trial = Trial.of(Project.create(tmp_path / "p"), tasks, limits={"attempts": 1})
    assert trial.execute() is RunStatus.BLOCKED
    return trial


def execute_and_keep_the_file(trial: Trial, **request: Any) -> RunStatus:
    """Let a runner answer a request, and put the file back, as if it had been killed before it removed it."""
    sent = send_request(trial.project.open().state_dir.run(trial.run), Request(**request))
    content = sent.path.read_bytes()
    status = trial.execute()
    assert sent.is_answered
    sent.path.write_bytes(content)
    return status


def decide(trial: Trial, *events: ev.Event) -> None:
    """Decide something while no runner lives."""
    repo = trial.project.open()
    with open_project_journal(repo) as journal:
        record_decision(repo, journal, trial.run, *events)


def requests_left(trial: Trial) -> list[Path]:
    """Return the files of requests that nobody has removed."""
    return [*trial.project.open().state_dir.run(trial.run).requests.iterdir()]


@pytest.mark.parametrize(
    "request_", [{"action": "stop"}, {"action": "pause"}, {"action": "pause", "now": True}]
)
def test_a_run_that_was_stopped_once_is_not_stopped_again(tmp_path: Path, request_: dict[str, Any]) -> None:
    """Whoever resumes it wants it to go on."""
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", "echo a > a.txt")))
    assert execute_and_keep_the_file(trial, **request_) in (RunStatus.STOPPED, RunStatus.PAUSED)
    assert trial.execute() is RunStatus.COMPLETED
    assert requests_left(trial) == []


def test_a_task_gets_its_attempts_again_once(tmp_path: Path) -> None:
    """It failed again after the retry; nobody asked for another one."""
    trial = blocked(tmp_path)
    assert execute_and_keep_the_file(trial, action="retry", task="A") is RunStatus.BLOCKED
    assert trial.execute() is RunStatus.BLOCKED
    assert trial.state().tasks["A"].attempt == 2
    assert requests_left(trial) == []


def test_a_retry_does_not_undo_a_later_skip(tmp_path: Path) -> None:
    """The last word of the user counts."""
    trial = blocked(tmp_path)
    execute_and_keep_the_file(trial, action="retry", task="A")
    decide(trial, ev.TaskSkipped(task="A"))
    trial.execute()
    assert trial.status_of("A") == "skipped"


def test_a_skip_does_not_undo_a_later_retry(tmp_path: Path) -> None:
    """The same, the other way round."""
    first, second = sh("A", "exit 1"), sh("B", "exit 1")
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", first, second), limits={"attempts": 1})
    assert trial.execute() is RunStatus.BLOCKED
    execute_and_keep_the_file(trial, action="skip", task="A")
    decide(trial, ev.TaskRetried(task="A"))
    trial.execute()
    assert trial.status_of("A") == "pending"


@pytest.mark.parametrize(("action", "kept"), [("mirror", False), ("unmirror", True)])
def test_a_mirror_stays_as_the_user_wanted_it_last(tmp_path: Path, action: str, kept: bool) -> None:
    """Begun and ended, or ended and begun again."""
    kinds: tuple[ev.Event, ...] = (ev.MirrorKept(system="apex", folder="out"), ev.MirrorEnded(system="apex"))
    trial = blocked(tmp_path)
    execute_and_keep_the_file(trial, action=action, system="apex", folder="out" if action == "mirror" else "")
    decide(trial, *(kinds[:1] if kept else kinds[1:]))
    trial.execute()
    assert ("apex" in trial.state().row.mirrors) is kept


def test_a_runner_killed_before_it_removes_a_request_has_answered_it(tmp_path: Path) -> None:
    """The file is still there, and the next runner removes it."""
    trial = blocked(tmp_path)
    directory = trial.project.open().state_dir.run(trial.run)
    sent = send_request(directory, Request(action="retry", task="A"))
    resume = Program([*COMMAND, "resume", "--yes"], trial.project.path, directory.requests)
    killed = run_with_fault(resume, Fault("kill", 2))
    assert killed.point is not None
    assert (killed.point.syscall, sent.is_answered) == ("unlink", False)
    assert trial.execute() is RunStatus.BLOCKED
    assert len(trial.of_kind(ev.TaskRetried)) == 0
    assert requests_left(trial) == []
