"""Interfaces: a task may start as soon as another one published its contract, and still lands after it."""

from __future__ import annotations

from pathlib import Path

from holdfast.core import events as ev
from holdfast.core.status import RunStatus
from tests.support.command import eventually
from tests.support.repositories import Project
from tests.support.runs import DEADLINE_S, Fifo, Trial, kill, sh, stage, start_runner

PUBLISH = "holdfast report interface api 'def f(x: int) -> int: ...'"


def test_a_task_starts_with_the_contract_while_its_provider_works_and_lands_after_it(tmp_path: Path) -> None:
    """C4: B begins right after A published, reads the contract in its brief, is done first, and lands second."""
    started, go = Fifo(tmp_path / "started"), Fifo(tmp_path / "go")
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage(
            "one",
            sh("A", f"{PUBLISH}; {go.take}; echo a > A.txt"),
            sh("B", f"{started.give}; echo b > B.txt", needs_interface=["A"]),
        ),
    )
    runner = start_runner(trial)
    started.wait()
    eventually(lambda: trial.status_of("B") == "verified", "B is done")
    assert trial.status_of("A") == "running"
    assert "## Interface api, published by A" in trial.brief("B", 1)
    assert "def f(x: int) -> int: ..." in trial.brief("B", 1)
    go.release()
    assert runner.communicate(timeout=DEADLINE_S)[0] == b"completed\n"
    assert trial.landed() == ["A", "B"]
    assert trial.violations() == []


def test_without_a_published_interface_the_landing_is_waited_for(tmp_path: Path) -> None:
    """A provider that says nothing is an ordinary need."""
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage("one", sh("A", "echo a > A.txt"), sh("B", "cp A.txt B.txt", needs_interface=["A"])),
    )
    assert trial.execute() is RunStatus.COMPLETED
    assert trial.show("B.txt") == "a"


def test_a_crash_between_publication_and_start_keeps_the_contract(tmp_path: Path) -> None:
    """C4, C7: the contract is in the journal, so B starts with it although nobody publishes it again."""
    here, go, started = (Fifo(tmp_path / name) for name in ("here", "go", "started"))
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage(
            "one",
            sh("A", f"{PUBLISH}; {here.give}; {go.take}; echo a > A.txt"),
            sh("B", f"{started.give}; echo b > B.txt", needs_interface=["A"]),
        ),
        limits={"jobs": 1},
    )
    runner = start_runner(trial)
    here.wait()
    eventually(lambda: bool(trial.state().tasks["A"].interfaces), "the contract is in the journal")
    kill(runner)
    again = start_runner(trial)
    eventually(lambda: trial.stored().row.reattached == 1, "A is carried on with")
    go.release()
    assert again.communicate(timeout=DEADLINE_S)[0] == b"completed\n"
    assert "def f(x: int) -> int: ..." in trial.brief("B", 1)


def test_an_interface_published_again_with_the_same_words_is_no_news(tmp_path: Path) -> None:
    """Agents repeat themselves; the journal does not. Another contract under the same name replaces the first."""
    script = f"{PUBLISH}; {PUBLISH}; echo a > A.txt"
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", script)))
    assert trial.execute() is RunStatus.COMPLETED
    assert [e.contract for e in trial.of_kind(ev.InterfacePublished)] == ["def f(x: int) -> int: ..."]
