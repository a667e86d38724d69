"""Commands at once: no run is made twice or dropped; a sample of `python -m tests.crash.command_pairs --rounds 30`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from holdfast.journal.lease import making_runs
from holdfast.paths import StateDir
from tests.crash.command_pairs import FOREIGN, PairTrial, open_trial
from tests.support.command import Cli, eventually, has_opened, writes
from tests.support.repositories import Project, write

DONE, HELD_BY_ANOTHER = 0, 4
SAMPLE = (
    ("run", "run", "new"),
    ("adopt", "adopt", "new"),
    ("run", "rebuild", "new"),
    ("run --fresh", "rebuild", "blocked"),
    ("run --fresh", "run --fresh", "blocked"),
    ("resume", "run", "blocked"),
    ("resume", "abandon", "blocked"),
    ("resume", "discard", "blocked"),
    ("discard", "land", "blocked"),
    ("land", "land", "blocked"),
    ("clean", "discard", "blocked"),
    ("retry", "skip", "blocked"),
    ("doctor --fix", "resume", "blocked"),
    ("adopt", "rebuild", "blocked"),
    ("amend", "resume", "blocked"),
    ("answer", "resume", "blocked"),
    ("take", "resume", "blocked"),
    ("take", "take", "blocked"),
    ("tick", "resume", "blocked"),
    ("land", "land --squash", "blocked"),
    ("give", "resume", "taken"),
    ("give", "amend", "taken"),
    ("give", "take", "taken"),
    ("give", "discard", "taken"),
    ("clean", "resume", "taken"),
)


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PairTrial]:
    """Prepare a repository and two interpreters, once."""
    with ExitStack() as held:
        yield open_trial(tmp_path_factory.mktemp("pairs"), held)


@pytest.mark.crash
@pytest.mark.parametrize(("one", "other", "begun"), SAMPLE)
def test_two_commands_at_once_leave_everything_sound(
    trial: PairTrial, one: str, other: str, begun: str
) -> None:
    """No run exists twice, git is sound, and nothing landed twice."""
    assert trial.problems((one, other), begun, seed=1) == []


def _at_once(cli: Cli, *commands: tuple[str, ...]) -> list[int]:
    """Start commands while none of them may make a run; let all of them go on together. Return their codes, sorted."""
    lock = StateDir.of_checkout(cli.here).runs_lock
    with making_runs(lock):
        started = [cli.start(*command) for command in commands]
        eventually(lambda: all(has_opened(one, lock) for one in started), "all of them got there")
    return sorted(one.wait() for one in started)


def test_the_same_files_adopted_twice_at_once_are_one_run(tmp_path: Path) -> None:
    """Both had found that nobody adopted them. One makes the run, the other says so."""
    cli = Cli(Project.create(tmp_path / "p").path)
    state = {"version": "2.0", "status": "in_progress", "tasks": {"L1-001": {"status": "pending"}}}
    write(cli.here / FOREIGN, json.dumps(state))
    command = ("adopt", FOREIGN, "--agent", "claude")
    assert _at_once(cli, command, command) == [DONE, HELD_BY_ANOTHER]
    assert len(cli.json("list")) == 1


def test_a_plan_started_twice_at_once_is_one_run(tmp_path: Path) -> None:
    """Both had found no run of the plan. One runs it, the other says so."""
    cli = Cli.of(tmp_path / "p", writes("a"))
    assert _at_once(cli, ("run", "--yes"), ("run", "--yes")) == [DONE, HELD_BY_ANOTHER]
    assert [run["status"] for run in cli.json("list")] == ["completed"]


def test_a_rebuild_beside_a_new_run_drops_no_run(tmp_path: Path) -> None:
    """The new run is in the new journal, or was refused; it is never forgotten."""
    cli = Cli.of(tmp_path / "p", writes("a"))
    assert cli("run", "--yes").code == DONE
    _at_once(cli, ("rebuild", "--yes"), ("run", "--yes", "--fresh"))
    branches = cli.project.git(
        "for-each-ref", "--format=%(refname:lstrip=3)", "refs/heads/holdfast"
    ).splitlines()
    assert [run["id"] for run in cli.json("list")] == branches
    assert cli("doctor").code == DONE
