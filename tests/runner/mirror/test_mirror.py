"""A run in another system's own files: kept up to date while it goes on, valid at every moment, nobody else's touched."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.core import events as ev
from holdfast.core.adoption import ClaimedStatus
from holdfast.core.status import RunStatus
from holdfast.formats.execute import read
from holdfast.formats.registry import System
from holdfast.runner.decisions.user_decisions import record_decision
from holdfast.runner.mirror.mirror_files import BACKUP_SUFFIX, OccupiedError
from holdfast.runner.mirror.mirror_writer import check_mirror, export_run
from tests.support.foreign_runs import adopted
from tests.support.repositories import Project
from tests.support.runs import DEADLINE_S, Fifo, Trial, open_project_journal, sh, stage, start_runner

RUN = "01-try-it"
STATE = f"docs/tasks/{RUN}/execute-state.json"
ORIGINAL = {
    "version": "2.0",
    "status": "in_progress",
    "house_rules": {"tabs": False},
    "tasks": {
        "L1-001": {"status": "completed", "title": "One", "mood": "good"},
        "L1-002": {"status": "pending", "title": "Two", "depends_on": ["L1-001"]},
    },
}


def _trial(tmp_path: Path, *tasks: dict[str, Any]) -> Trial:
    return Trial.of(Project.create(tmp_path / "p"), stage("only", *tasks))


def _mirror(trial: Trial, folder: str = "") -> None:
    repo = trial.project.open()
    with open_project_journal(repo) as journal:
        record_decision(repo, journal, trial.run, ev.MirrorKept(system="execute", folder=folder))


def _state(project: Project, path: str = STATE) -> dict[str, Any]:
    return dict(json.loads((project.path / path).read_text()))


def _standings(project: Project, path: str = STATE) -> dict[str, str]:
    data = {path: (project.path / path).read_bytes()}
    return {claim.task: str(claim.standing) for claim in read(path, data).claims}


def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _until_landed(trial: Trial, count: int) -> None:
    _until(lambda: len(trial.landed()) >= count)


def test_a_resting_run_is_written_at_once(tmp_path: Path) -> None:
    """Whoever asks for a mirror finds the files there."""
    trial = _trial(tmp_path, sh("a", "echo a > a.txt"))
    _mirror(trial)
    assert _standings(trial.project) == {"a": "pending"}


def test_the_files_follow_the_run_to_its_end(tmp_path: Path) -> None:
    """When the runner has left, the files say what the run came to."""
    trial = _trial(tmp_path, sh("a", "echo a > a.txt"), sh("b", "echo b > b.txt", needs=["a"]))
    _mirror(trial)
    assert trial.execute() is RunStatus.COMPLETED
    assert _standings(trial.project) == {"a": "done", "b": "done"}
    assert _state(trial.project)["status"] == "completed"


def test_a_completed_run_is_written_again_if_its_runner_was_killed_before_that(tmp_path: Path) -> None:
    """The run is durable before its mirror is. Executing it again does nothing else."""
    trial = _trial(tmp_path, sh("a", "echo a > a.txt"))
    _mirror(trial)
    assert trial.execute() is RunStatus.COMPLETED
    (trial.project.path / STATE).unlink()
    assert trial.execute() is RunStatus.COMPLETED
    assert _standings(trial.project) == {"a": "done"}


def test_the_files_tell_of_a_task_while_another_runs(tmp_path: Path) -> None:
    """The mirror is kept up while the run goes on, not only when it ends."""
    trial = _trial(tmp_path, sh("a", "echo a > a.txt"))
    release = Fifo(tmp_path / "go")
    trial = Trial.of(
        trial.project,
        stage("only", sh("a", "echo a > a.txt"), sh("b", release.take, needs=["a"])),
        goal="Two",
    )
    _mirror(trial)
    runner = start_runner(trial)
    path = trial.project.path / f"docs/tasks/{trial.run}/execute-state.json"
    _until(lambda: '"b"' in path.read_text() and _standings(trial.project, str(path))["b"] == "running")
    assert _standings(trial.project, str(path))["a"] == "done"
    release.release()
    runner.communicate(timeout=DEADLINE_S)


def test_a_mirror_is_no_intrusion(tmp_path: Path) -> None:
    """What we write into the checkout ourselves is nobody's trespass."""
    trial = _trial(tmp_path, *(sh(name, f"echo {name} > {name}.txt") for name in "abc"))
    _mirror(trial)
    trial.execute(jobs=1)
    assert trial.of_kind(ev.IntrusionNoticed) == []


def test_another_folder_of_the_project_may_be_chosen(tmp_path: Path) -> None:
    """The native layout is the same below any folder."""
    trial = _trial(tmp_path, sh("a", "echo a > a.txt"))
    _mirror(trial, folder="copies/here")
    assert _standings(trial.project, f"copies/here/{STATE}") == {"a": "pending"}


def test_files_of_somebody_else_are_never_overwritten(tmp_path: Path) -> None:
    """A state that another system keeps there is refused before anything is written, and stays."""
    trial = _trial(tmp_path, sh("a", "echo a > a.txt"))
    trial.project.write(STATE, '{"mine": true}')
    repo = trial.project.open()
    with (
        open_project_journal(repo) as journal,
        pytest.raises(OccupiedError, match="was not written by Holdfast"),
    ):
        check_mirror(repo, journal, trial.run, System.EXECUTE, "")
    assert _state(trial.project) == {"mine": True}


def test_a_file_that_was_changed_meanwhile_stops_the_mirror_and_not_the_run(tmp_path: Path) -> None:
    """Somebody's edit wins; the trouble is told once, and the run goes on."""
    trial = _trial(tmp_path, sh("a", "echo a > a.txt"), sh("b", "echo b > b.txt", needs=["a"]))
    _mirror(trial)
    trial.project.write(STATE, '{"edited": 1}')
    assert trial.execute() is RunStatus.COMPLETED
    assert len(trial.of_kind(ev.MirrorFailed)) == 1
    assert _state(trial.project) == {"edited": 1}
    assert trial.violations() == []


def test_no_link_is_written_through(tmp_path: Path) -> None:
    """A folder that leads elsewhere is refused, even if it is empty there."""
    trial = _trial(tmp_path, sh("a", "echo a > a.txt"))
    outside = tmp_path / "outside"
    outside.mkdir()
    (trial.project.path / "docs").symlink_to(outside)
    repo = trial.project.open()
    with open_project_journal(repo) as journal, pytest.raises(OccupiedError, match="symbolic link"):
        export_run(repo, journal, trial.run, System.EXECUTE, "")
    assert list(outside.iterdir()) == []


def test_a_mirror_can_be_ended(tmp_path: Path) -> None:
    """From then on the files stay as they are."""
    trial = _trial(tmp_path, sh("a", "echo a > a.txt"))
    _mirror(trial)
    before = (trial.project.path / STATE).read_bytes()
    repo = trial.project.open()
    with open_project_journal(repo) as journal:
        record_decision(repo, journal, trial.run, ev.MirrorEnded(system="execute"))
    trial.execute()
    assert (trial.project.path / STATE).read_bytes() == before


def _adopted(tmp_path: Path) -> tuple[Trial, str]:
    """Return a run that was adopted from a real state file with keys nobody knows, and the path of that file."""
    project = Project.create(tmp_path / "p")
    project.write("one.txt", "1\n")
    commit = project.commit("L1-001")
    main = "docs/tasks/thing/execute-state.json"
    state = json.loads(json.dumps(ORIGINAL))
    state["tasks"]["L1-001"]["commit"] = commit
    project.write(main, json.dumps(state))
    documents = {main: (project.path / main).read_bytes()}
    return adopted(project, read(main, documents), script="echo x > $HOLDFAST_TASK.txt"), main


def test_an_adopted_file_is_backed_up_once_and_keeps_its_unknown_keys(tmp_path: Path) -> None:
    """What other programs wrote into the state is still there after we wrote it; the original lies beside it."""
    trial, main = _adopted(tmp_path)
    before = (trial.project.path / main).read_bytes()
    _mirror(trial)
    assert trial.execute() is RunStatus.COMPLETED
    after = _state(trial.project, main)
    assert after["house_rules"] == {"tabs": False}
    assert after["tasks"]["L1-001"]["mood"] == "good"
    assert _standings(trial.project, main) == {"L1-001": "done", "L1-002": "done"}
    assert (trial.project.path / (main + BACKUP_SUFFIX)).read_bytes() == before


def test_an_exported_run_is_adopted_as_the_same_run(tmp_path: Path) -> None:
    """Export, then adopt in a clone: what was done is done, what was tried is known, the rest is left to do."""
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage("first", sh("a", "echo a > a.txt"), sh("b", "echo oh no; exit 3", needs=["a"])),
        limits={"attempts": 2, "retry_delay": "0s"},
    )
    assert trial.execute() is RunStatus.BLOCKED
    repo = trial.project.open()
    with open_project_journal(repo) as journal:
        export_run(repo, journal, trial.run, System.EXECUTE, "")
    run = read(STATE, {STATE: (trial.project.path / STATE).read_bytes()})
    again = adopted(trial.project, run)
    assert again.landed() == ["a"]
    assert [claim.standing for claim in run.claims] == [ClaimedStatus.DONE, ClaimedStatus.ABANDONED]
    assert again.state().tasks["b"].failures[-1].error == trial.state().tasks["b"].failures[-1].error


def test_a_killed_runner_leaves_valid_files_that_claim_nothing_too_early(tmp_path: Path) -> None:
    """Killed again and again in the midst of everything, the state parses each time and calls done what landed."""
    tasks = [sh(f"t{number}", f"echo {number} > {number}.txt") for number in range(12)]
    trial = _trial(tmp_path, *tasks)
    _mirror(trial)
    for round_ in range(5):
        runner = start_runner(trial)
        _until_landed(trial, 2 * round_ + 1)
        os.killpg(runner.pid, signal.SIGKILL)
        runner.communicate(timeout=DEADLINE_S)
        done = {task for task, standing in _standings(trial.project).items() if standing == "done"}
        assert done <= set(trial.landed())
    assert trial.execute() is RunStatus.COMPLETED
    assert set(_standings(trial.project).values()) == {"done"}
    leftovers = [path for path in trial.project.path.rglob(".holdfast-*") if path.is_file()]
    assert [path for path in leftovers if ".holdfast/" not in str(path)] == []
