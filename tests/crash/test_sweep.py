"""The sample of the sweep that runs with every change, and the crashes that deserve a name."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.core import events as ev
from tests.crash.evidence import look, said
from tests.crash.faults import Point, list_points, run_with_fault
from tests.crash.operations import CONFLICTING_RUN, OPERATIONS, Operation
from tests.crash.sample_run import CARRY_ON, HOLDFAST, START, STATUS, environment, make_template
from tests.crash.sweep import Sweep, chosen_operations, shares
from tests.crash.swept_store import SweptStore
from tests.crash.trial import CrashTrial, PlannedFault
from tests.support.servers import PROTOCOLS, NotInstalledError

pytestmark = pytest.mark.crash

FAULTS = 200
MISSED = 0.1
"""A point near the end may not be reached the next time, so some faults of a sample may miss."""
STORED = (
    ("run/conflict", ("kill", "after", "torn", "main_process", "eio")),
    ("rebuild/emptied", ("kill", "after")),
)
"""What is broken with every change where the journal is in a server; `python -m tests.crash.sweep --store` goes everywhere."""
DEADLINE_S = 60


@pytest.fixture(scope="session")
def seed() -> int:
    """The same sample for every change, so that a change is judged by what it did; `make crash` goes everywhere.

    `HOLDFAST_CRASH_SEED` draws another one.
    """
    return int(os.environ.get("HOLDFAST_CRASH_SEED", "710528645"))


@pytest.fixture
def trial(tmp_path: Path) -> Iterator[CrashTrial]:
    """A repository to break."""
    made = CrashTrial(tmp_path, CONFLICTING_RUN)
    yield made
    made.close()


@pytest.fixture
def points(trial: CrashTrial) -> list[Point]:
    """Every point of one unbroken run."""
    return trial.points()


@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
def test_nothing_is_lost_and_nothing_done_twice_wherever_it_breaks(
    operation: Operation, seed: int, tmp_path: Path
) -> None:
    """Killed, torn, alone, out of space, during recovery: what a user does next completes it; every invariant holds."""
    sweep = Sweep(tmp_path, operation, seed, quiet=True)
    wanted = shares(OPERATIONS, FAULTS)[operation]
    tally = sweep.run(sweep.sample(wanted))
    assert not tally.sentences, "\n".join([f"HOLDFAST_CRASH_SEED={seed}", *tally.sentences])
    assert tally.fired.total() >= wanted * (1 - MISSED), tally.table()


@pytest.mark.parametrize("kind", PROTOCOLS)
@pytest.mark.parametrize(("name", "modes"), STORED, ids=["run", "rebuild"])
def test_nothing_is_lost_and_nothing_done_twice_where_the_journal_is_in_a_server(
    kind: str, name: str, modes: tuple[str, ...], seed: int, tmp_path: Path
) -> None:
    """It breaks at a message: before the server was asked, in the middle, and when the server knows what nobody else does."""
    try:
        store = SweptStore.start(kind)
    except NotInstalledError as error:
        pytest.skip(str(error))
    try:
        sweep = Sweep(tmp_path, chosen_operations(name, kind)[0], seed + len(kind), store, quiet=True)
        tally = sweep.run([job for mode in modes for job in sweep.sample(1, mode)])
    finally:
        store.process.stop()
    assert not tally.sentences, "\n".join([f"HOLDFAST_CRASH_SEED={seed}", *tally.sentences])
    assert tally.fired.total() == len(modes), tally.table()
    # In a run, runner and agents take turns as they like: the point that was chosen may be another one this time.
    assert tally.at_server or name.startswith("run/"), tally.table()


def at(points: list[Point], syscall: str, path: str) -> list[int]:
    """Return where a call touches a file, at the beginning, in the middle and at the end of the run."""
    found = [point.number for point in points if (point.syscall, point.path) == (syscall, path)]
    return [found[0], found[len(found) // 2], found[-3]]


def test_a_torn_write_to_the_journal_is_as_if_it_never_was(trial: CrashTrial, points: list[Point]) -> None:
    """Half a transaction in the log is ignored by the next runner."""
    for number in at(points, "pwrite64", ".holdfast/journal.db-wal"):
        outcome = trial.cycle([PlannedFault("torn", number)])
        assert (outcome.fired, list(outcome.sentences())) == (True, [])


def test_a_journal_that_cannot_be_synced_stops_the_runner(trial: CrashTrial, points: list[Point]) -> None:
    """What could not be made durable is neither told nor acted on; `resume` carries on."""
    for number in at(points, "fdatasync", ".holdfast/journal.db-wal"):
        outcome = trial.cycle([PlannedFault("eio", number)])
        assert (outcome.fired, list(outcome.sentences())) == (True, [])


def test_a_recovery_that_is_killed_is_recovered_from(trial: CrashTrial, points: list[Point]) -> None:
    """Killed half-way, and again at several points of the resume."""
    half = points[len(points) // 2].number
    for number in (1, 3, 10, 30):
        outcome = trial.cycle(
            [PlannedFault("kill", half), PlannedFault("kill", number), PlannedFault("kill", number)]
        )
        assert (outcome.fired, list(outcome.sentences())) == (True, [])


def test_status_changes_no_file_after_a_crash(trial: CrashTrial, points: list[Point]) -> None:
    """It works on a full disk because it needs none: not one file-changing call."""
    for point in points[50:-50:150]:  # the next run may have a few points less
        trial.reset()
        assert run_with_fault(trial.program(START), PlannedFault("kill", point.number).fault).fired
        changes = list_points(trial.program(STATUS))
        # Run by root, SQLite gives its files the owner of the journal, whom they have already.
        assert [change for change in changes if change.syscall != "fchown"] == []


WAITING_PLAN = """\
holdfast: 1
goal: crash sweep
stages:
  - id: one
    tasks:
      - {{id: left, run: [sh, -c, "echo $$ > {here}; read word < {gate}; echo $$ > left"]}}
"""


def start(repository: Path, *argv: str) -> subprocess.Popen[str]:
    """Start a command of the program and return it."""
    return subprocess.Popen(
        [*HOLDFAST, *argv], cwd=repository, env=environment(), stdout=subprocess.PIPE, text=True
    )


def test_a_killed_runners_agent_works_on_and_is_found_again(tmp_path: Path) -> None:
    """X3: the same process finishes the same attempt under the next runner."""
    here, gate = tmp_path / "here", tmp_path / "gate"
    os.mkfifo(here)
    os.mkfifo(gate)
    repository = tmp_path / "repository"
    make_template(repository, WAITING_PLAN.format(here=here, gate=gate))
    with start(repository, *START) as runner:
        agent = here.read_text()
        runner.send_signal(signal.SIGKILL)
    with start(repository, *CARRY_ON) as resumed:
        assert resumed.stdout
        told = resumed.stdout.readline()
        gate.write_text("go\n")
        told += resumed.communicate(timeout=DEADLINE_S)[0]
    end = look(repository)
    assert (resumed.returncode, end.attempts()) == (0, {"left": 1})
    assert not any(isinstance(event, ev.AttemptStarted) for event in said(told))
    assert agent == subprocess.check_output(
        ["git", "-C", repository, "show", f"{end.branch.tip}:left"], text=True
    )
