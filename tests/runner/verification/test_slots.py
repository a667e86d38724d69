"""Slots that checks share: between tasks, between runs, and past the death of whoever held one."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from holdfast.core.status import RunStatus
from holdfast.locks import is_locked, open_lockable, try_lock
from holdfast.paths import StateDir
from holdfast.runner.requests import Request, send_request
from holdfast.runner.verification.slots import CheckSlots
from tests.support.command import eventually
from tests.support.repositories import Project
from tests.support.runs import DEADLINE_S, Fifo, Trial, kill, sh, stage, start_runner

ALONE = "mkdir {0}/busy && {1} rmdir {0}/busy"
"""A check that fails if another one is at work at the same time."""


def checked(task: str, check: str, **more: object) -> dict[str, object]:
    """Return a task that writes a file and whose check holds the slot `tests`."""
    return sh(task, f"echo {task} > {task}.txt", verify=[check], slot="tests", **more)


def is_free(trial: Trial, index: int = 0) -> bool:
    """Tell whether a place of the slot `tests` is free."""
    fd = open_lockable(trial.project.open().state_dir.slot("tests", index))
    try:
        return not is_locked(fd)
    finally:
        os.close(fd)


def test_checks_that_share_a_slot_never_run_at_the_same_time(tmp_path: Path) -> None:
    """C6: in the workspaces and on the merged trees, one at a time; nobody fails for it."""
    check = ALONE.format(tmp_path, "")
    trial = Trial.of(
        Project.create(tmp_path / "p"), stage("one", *(checked(t, check) for t in "ABC")), slots={"tests": 1}
    )
    assert trial.execute() is RunStatus.COMPLETED
    assert {task.charged for task in trial.state().tasks.values()} == {0}
    assert is_free(trial)


def test_a_slot_of_two_lets_two_checks_run_side_by_side(tmp_path: Path) -> None:
    """The plan says how many may hold a slot: each of these checks waits until the other one runs."""
    meet = Fifo(tmp_path / "a"), Fifo(tmp_path / "b")
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage("one", checked("A", _meet(*meet)), checked("B", _meet(*reversed(meet)))),
        slots={"tests": 2},
        limits={"jobs": 2},
    )
    assert trial.execute() is RunStatus.COMPLETED


def _meet(ours: Fifo, other: Fifo) -> str:
    # On the merged tree the other one has been there.
    return f"test -f A.txt -a -f B.txt || {{ {ours.give}; {other.take}; }}"


def test_two_runs_of_a_repository_share_its_slots(tmp_path: Path) -> None:
    """A second run waits for the first one's check, and goes on by itself when that is done."""
    here, go = Fifo(tmp_path / "here"), Fifo(tmp_path / "go")
    project = Project.create(tmp_path / "p")
    slow = ALONE.format(tmp_path, f"{here.give} && {go.take} &&")
    first = Trial.of(project, stage("one", checked("A", slow)), slots={"tests": 1})
    second = Trial.of(
        project,
        stage("one", checked("B", ALONE.format(tmp_path, ""))),
        slots={"tests": 1},
        limits={"attempts": 1},
    )
    runners = [start_runner(first)]
    here.wait()
    runners.append(start_runner(second))
    eventually(lambda: second.status_of("B") == "verifying", "B is ready for its check")
    go.release()
    assert [runner.communicate(timeout=DEADLINE_S)[0] for runner in runners] == [b"completed\n"] * 2


def test_a_stop_is_heard_while_a_check_waits_for_its_slot(tmp_path: Path) -> None:
    """C7, waiting: nothing is lost, nothing is charged, and the check runs after the resume."""
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", checked("A", "true")), slots={"tests": 1})
    state = trial.project.open().state_dir
    state.slot("tests", 0).parent.mkdir(parents=True)
    held = _hold(state.slot("tests", 0))
    runner = start_runner(trial)
    eventually(lambda: trial.status_of("A") == "verifying", "A waits for the slot")
    send_request(state.run(trial.run), Request(action="stop"))
    assert runner.communicate(timeout=DEADLINE_S)[0] == b"stopped\n"
    os.close(held)
    assert trial.execute() is RunStatus.COMPLETED
    assert (trial.state().tasks["A"].attempt, trial.state().tasks["A"].charged) == (1, 0)


def _hold(path: Path) -> int:
    fd = open_lockable(path)
    assert try_lock(fd)
    return fd


def test_a_runner_killed_while_a_check_waits_for_its_slot_loses_nothing(tmp_path: Path) -> None:
    """C7, waiting: after the crash the same attempt goes on to its check."""
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", checked("A", "true")), slots={"tests": 1})
    path = trial.project.open().state_dir.slot("tests", 0)
    path.parent.mkdir(parents=True)
    held = _hold(path)
    runner = start_runner(trial)
    eventually(lambda: trial.status_of("A") == "verifying", "A waits for the slot")
    kill(runner)
    os.close(held)
    assert trial.execute() is RunStatus.COMPLETED
    assert trial.state().tasks["A"].attempt == 1


def test_a_check_that_outlives_its_runner_keeps_its_slot(tmp_path: Path) -> None:
    """The lock lives as long as what it guards: nobody else enters while the orphaned check is at work."""
    here, go = Fifo(tmp_path / "here"), Fifo(tmp_path / "go")
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage("one", checked("A", f"{here.give}; {go.take}")),
        slots={"tests": 1},
    )
    runner = start_runner(trial)
    check = os.pidfd_open(int(here.wait()))
    kill(runner)
    assert not is_free(trial)
    go.release()
    eventually(lambda: is_free(trial), "the slot is free once the check has ended")
    os.close(check)
    go.release()
    assert trial.execute() is RunStatus.COMPLETED


@pytest.mark.parametrize("place", ["the workspace", "the merged tree"])
def test_a_crash_while_testing_frees_the_slot_and_runs_all_tests_again(tmp_path: Path, place: str) -> None:
    """C6, C7, testing: a dead holder's slot is free at once; every check runs again, also those that had passed."""
    here, never, landed = (Fifo(tmp_path / name) for name in ("here", "never", "landed"))
    count, told = tmp_path / "count", tmp_path / "told"
    at = "-f" if place == "the merged tree" else "! -f"
    dies = f"if [ {at} B.txt -a ! -e {told} ]; then touch {told}; {here.give}; {never.take}; fi"
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage(
            "one",
            sh("A", f"{landed.take}; echo A > A.txt", verify=[f"echo x >> {count}", dies], slot="tests"),
            sh("B", "echo b > B.txt"),
            sh("C", landed.give, needs=["B"]),
        ),
        slots={"tests": 1},
    )
    runner = start_runner(trial)
    here.wait()
    before = len(count.read_text().split())
    kill(runner)
    assert trial.execute() is RunStatus.COMPLETED
    assert len(count.read_text().split()) > before
    assert is_free(trial)


@pytest.mark.parametrize("turns", range(4))
def test_a_cancellation_that_comes_together_with_the_stop_is_not_lost(tmp_path: Path, turns: int) -> None:
    """Whoever waits for a place is cancelled, however many turns of the loop after the stop that comes."""
    state = StateDir.of_checkout(tmp_path)
    state.slot("tests", 0).parent.mkdir(parents=True)
    taken = open_lockable(state.slot("tests", 0))
    assert try_lock(taken)

    async def wait(slots: CheckSlots, stop: asyncio.Event) -> None:
        async with slots.held("tests", stop):
            await asyncio.Event().wait()

    async def cancelled_after_stop() -> bool:
        stop = asyncio.Event()
        waiting = asyncio.create_task(wait(CheckSlots(state, {"tests": 1}), stop))
        await _turn(10)
        stop.set()
        await _turn(turns)
        waiting.cancel()
        await _turn(10)
        return waiting.cancelled()

    try:
        assert asyncio.run(cancelled_after_stop())
    finally:
        os.close(taken)


async def _turn(times: int) -> None:
    for _ in range(times):
        await asyncio.sleep(0)
