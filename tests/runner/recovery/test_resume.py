"""Killing things and carrying on: re-attached agents, collected results, kept work, leases, stops."""

from __future__ import annotations

import os
import select
import signal
from pathlib import Path

import pytest

from holdfast.core import events as ev
from holdfast.core.status import RunStatus
from holdfast.errors import LeaseHeldError
from holdfast.journal.lease import holder
from holdfast.runner.requests import Request, send_request
from tests.support.repositories import Project, git
from tests.support.runs import (
    DEADLINE_S,
    Fifo,
    Trial,
    holder_pid,
    kill,
    kill_everything,
    sh,
    stage,
    start_runner,
)


def test_a_resumed_run_reattaches_to_an_agent_that_is_still_working(tmp_path: Path) -> None:
    """X3: after kill -9 of the runner the agent works on; the same process finishes the same attempt."""
    here, go = Fifo(tmp_path / "here"), Fifo(tmp_path / "go")
    trial = Trial.of(
        Project.create(tmp_path / "p"), stage("one", sh("A", f"{here.give}; {go.take}; echo $$ > A.txt"))
    )
    runner = start_runner(trial)
    agent = here.wait()
    kill(runner)
    os.kill(int(agent), 0)
    go.release()
    assert trial.execute() is RunStatus.COMPLETED
    assert trial.show("A.txt") == agent
    assert trial.state().tasks["A"].attempt == 1
    assert trial.violations() == []


def test_an_agent_that_finished_while_nobody_watched_is_collected(tmp_path: Path) -> None:
    """A result that was never recorded is found in the exit record and the workspace, not made again."""
    here, go = Fifo(tmp_path / "here"), Fifo(tmp_path / "go")
    count = tmp_path / "count"
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage("one", sh("A", f"echo x >> {count}; {here.give}; {go.take}; echo a > A.txt")),
    )
    runner = start_runner(trial)
    agent = int(here.wait())
    kill(runner)
    supervised = os.pidfd_open(agent)
    go.release()
    select.select([supervised], [], [], DEADLINE_S)
    os.close(supervised)
    assert trial.execute() is RunStatus.COMPLETED
    assert count.read_text() == "x\n"


def test_a_lost_agents_work_goes_to_a_fresh_agent(tmp_path: Path) -> None:
    """S6: machine gone, agent gone: a new agent starts from what was in the workspace, told so by its brief."""
    here, never = Fifo(tmp_path / "here"), Fifo(tmp_path / "never")
    script = f"if [ -f half.txt ]; then echo whole > whole.txt; else echo half > half.txt; {here.give}; {never.take}; fi"
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", script, resume="continue")))
    runner = start_runner(trial)
    here.wait()
    kill_everything(trial, runner)
    assert trial.execute() is RunStatus.COMPLETED
    assert (trial.show("half.txt"), trial.show("whole.txt")) == ("half", "whole")
    task = trial.state().tasks["A"]
    assert (task.attempt, task.charged, task.crash_count) == (2, 0, 1)
    assert "cut short by a crash" in trial.brief("A", 2)


def test_a_finished_task_is_not_done_again_after_a_crash(tmp_path: Path) -> None:
    """X4, E7: completed is skipped; each task's side effect happened once."""
    here, go = Fifo(tmp_path / "here"), Fifo(tmp_path / "go")
    count = tmp_path / "count"
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage("one", sh("A", f"echo A >> {count}; echo a > A.txt")),
        stage("two", sh("B", f"echo B >> {count}; {here.give}; {go.take}; echo b > B.txt")),
    )
    runner = start_runner(trial)
    here.wait()
    kill(runner)
    go.release()
    assert trial.execute() is RunStatus.COMPLETED
    assert count.read_text().split() == ["A", "B"]
    assert trial.landed() == ["A", "B"]


def test_a_second_runner_is_refused_and_told_who_holds_the_run(tmp_path: Path) -> None:
    """Two coordinators never work on one run."""
    here, go = Fifo(tmp_path / "here"), Fifo(tmp_path / "go")
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", f"{here.give}; {go.take}")))
    runner = start_runner(trial)
    here.wait()
    with pytest.raises(LeaseHeldError, match=f"pid {runner.pid}"):
        trial.execute()
    go.release()
    runner.communicate(timeout=DEADLINE_S)
    assert runner.returncode == 0


def test_an_interrupted_run_is_known_from_state_alone(tmp_path: Path) -> None:
    """A10: running, and nobody alive holds its lease."""
    here, go = Fifo(tmp_path / "here"), Fifo(tmp_path / "go")
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", f"{here.give}; {go.take}")))
    runner = start_runner(trial)
    here.wait()
    lease = trial.project.open().state_dir.run(trial.run).lease
    held_while_alive = holder(lease)
    kill(runner)
    assert held_while_alive is not None
    assert holder(lease) is None
    assert trial.stored().row.status is RunStatus.RUNNING
    go.release()
    trial.execute()


def test_a_stop_ends_agents_and_keeps_their_work(tmp_path: Path) -> None:
    """`stop`: nothing lives on, nothing is charged, and resume goes on from the saved work."""
    here, never = Fifo(tmp_path / "here"), Fifo(tmp_path / "never")
    script = f"if [ -f half.txt ]; then echo whole > whole.txt; else echo half > half.txt; {here.give}; {never.take}; fi"
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", script, resume="continue")))
    runner = start_runner(trial)
    agent = os.pidfd_open(int(here.wait()))
    send_request(trial.project.open().state_dir.run(trial.run), Request(action="stop"))
    out, _ = runner.communicate(timeout=DEADLINE_S)
    assert out == b"stopped\n"
    assert_dead(agent)
    assert trial.execute() is RunStatus.COMPLETED
    task = trial.state().tasks["A"]
    assert (task.charged, task.crash_count) == (0, 0)
    assert trial.show("half.txt") == "half"


def assert_dead(pidfd: int) -> None:
    """Check that the process behind a pidfd has ended."""
    ready, _, _ = select.select([pidfd], [], [], 0)
    os.close(pidfd)
    assert ready


def test_a_pause_lets_running_tasks_land_and_starts_no_new_ones(tmp_path: Path) -> None:
    """`pause` is the gentle way: what is under way is finished."""
    here, go = Fifo(tmp_path / "here"), Fifo(tmp_path / "go")
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage(
            "one", sh("A", f"{here.give}; {go.take}; echo a > A.txt"), sh("B", "echo b > B.txt", needs=["A"])
        ),
    )
    runner = start_runner(trial)
    here.wait()
    send_request(trial.project.open().state_dir.run(trial.run), Request(action="pause"))
    go.release()
    out, _ = runner.communicate(timeout=DEADLINE_S)
    assert out == b"paused\n"
    assert trial.landed() == ["A"]
    assert trial.execute() is RunStatus.COMPLETED


def test_an_interrupt_stops_the_run_resumably(tmp_path: Path) -> None:
    """Ctrl-C is a stop: agents end, the run rests, resume carries on."""
    here, never = Fifo(tmp_path / "here"), Fifo(tmp_path / "never")
    script = f"if [ -f half.txt ]; then exit 0; else echo half > half.txt; {here.give}; {never.take}; fi"
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", script, resume="continue")))
    runner = start_runner(trial)
    here.wait()
    runner.send_signal(signal.SIGINT)
    out, _ = runner.communicate(timeout=DEADLINE_S)
    assert out == b"stopped\n"
    assert trial.execute() is RunStatus.COMPLETED


def test_resume_skips_completed_and_abandoned_and_retries_failed(tmp_path: Path) -> None:
    """E7: attempts are durable: the failure before the crash still counts after it."""
    here, go, flag = Fifo(tmp_path / "here"), Fifo(tmp_path / "go"), tmp_path / "flag"
    script = f"if [ ! -f {flag} ]; then touch {flag}; exit 1; fi; {here.give}; {go.take}; echo a > A.txt"
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", script)), limits={"attempts": 2})
    runner = start_runner(trial)
    here.wait()
    kill(runner)
    go.release()
    assert trial.execute() is RunStatus.COMPLETED
    task = trial.state().tasks["A"]
    assert (task.attempt, task.charged) == (2, 1)


def test_an_abandoned_task_can_be_given_another_chance(tmp_path: Path) -> None:
    """A6: retry resets the budget; the run goes on where it was blocked."""
    flag = tmp_path / "flag"
    trial = Trial.of(
        Project.create(tmp_path / "p"), stage("one", sh("A", f"test -f {flag}")), limits={"attempts": 1}
    )
    assert trial.execute() is RunStatus.BLOCKED
    flag.touch()
    send_request(trial.project.open().state_dir.run(trial.run), Request(action="retry", task="A"))
    assert trial.execute() is RunStatus.COMPLETED


def test_a_skipped_task_lets_those_that_need_it_start(tmp_path: Path) -> None:
    """A6: skip declares a task unnecessary."""
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage("one", sh("A", "exit 1"), sh("B", "echo b > B.txt", needs=["A"])),
        limits={"attempts": 1},
    )
    assert trial.execute() is RunStatus.BLOCKED
    send_request(trial.project.open().state_dir.run(trial.run), Request(action="skip", task="A"))
    assert trial.execute() is RunStatus.COMPLETED
    assert trial.landed() == ["B"]


def test_commits_added_to_the_run_branch_by_hand_are_built_on_once_accepted(tmp_path: Path) -> None:
    """A person may fix something on the run branch. The run asks first: it could have been an agent."""
    here, go = Fifo(tmp_path / "here"), Fifo(tmp_path / "go")
    project = Project.create(tmp_path / "p")
    trial = Trial.of(project, stage("one", sh("A", f"{here.give}; {go.take}; echo a > A.txt")))
    runner = start_runner(trial)
    here.wait()
    worktree = tmp_path / "worktree"
    project.git("worktree", "add", "-q", "--detach", str(worktree), f"holdfast/{trial.run}")
    (worktree / "hand.txt").write_text("by hand\n")
    git(worktree, "add", "-A")
    git(worktree, "commit", "-q", "-m", "by hand")
    project.git("update-ref", f"refs/heads/holdfast/{trial.run}", git(worktree, "rev-parse", "HEAD"))
    go.release()
    out, _ = runner.communicate(timeout=DEADLINE_S)
    assert out == b"blocked\n"
    assert trial.execute(accepted_tip=git(worktree, "rev-parse", "HEAD")) is RunStatus.COMPLETED
    assert (trial.show("hand.txt"), trial.show("A.txt")) == ("by hand", "a")
    assert trial.state().tasks["A"].attempt == 1


def test_only_some_tasks_can_be_resumed(tmp_path: Path) -> None:
    """`--only`: the others stay pending and the run rests, resumable."""
    trial = Trial.of(
        Project.create(tmp_path / "p"), stage("one", sh("A", "echo a > A"), sh("B", "echo b > B"))
    )
    assert trial.execute(only=frozenset({"B"})) is RunStatus.PAUSED
    assert trial.landed() == ["B"]
    assert trial.execute() is RunStatus.COMPLETED
    assert trial.of_kind(ev.RunPaused)


def test_a_check_whose_supervisor_is_killed_runs_again_and_charges_nothing(tmp_path: Path) -> None:
    """A kill says nothing about the work that was being checked."""
    here, never = Fifo(tmp_path / "here"), Fifo(tmp_path / "never")
    flag = tmp_path / "flag"
    check = f"if [ ! -f {flag} ]; then touch {flag}; {here.give}; {never.take}; fi"
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", "echo a > A.txt")), verify=[check])
    runner = start_runner(trial)
    here.wait()
    folder = trial.project.open().state_dir.run(trial.run).attempts
    (record,) = folder.glob("A/1/check-*/supervisor.json")
    os.kill(holder_pid(record), signal.SIGKILL)
    out, _ = runner.communicate(timeout=DEADLINE_S)
    assert out == b"completed\n"
    assert trial.state().tasks["A"].charged == 0


def test_a_stop_after_a_crash_keeps_what_had_finished_meanwhile(tmp_path: Path) -> None:
    """Work that ended while nobody watched is collected even by a runner that is only there to stop."""
    here, go = Fifo(tmp_path / "here"), Fifo(tmp_path / "go")
    trial = Trial.of(
        Project.create(tmp_path / "p"), stage("one", sh("A", f"{here.give}; {go.take}; echo a > A.txt"))
    )
    runner = start_runner(trial)
    agent = os.pidfd_open(int(here.wait()))
    kill(runner)
    go.release()
    select.select([agent], [], [], DEADLINE_S)
    os.close(agent)
    send_request(trial.project.open().state_dir.run(trial.run), Request(action="stop"))
    assert trial.execute() is RunStatus.STOPPED
    assert trial.execute() is RunStatus.COMPLETED
    assert trial.state().tasks["A"].attempt == 1
