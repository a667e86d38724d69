"""The kill matrix counts what it did, goes on where it was cut short, and notices what does not keep its promises."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.crash.coverage import left_disks
from tests.crash.invariants import Harm
from tests.crash.matrix_page import ROWS, Header, Result, read_results, write_added
from tests.crash.operations import OPERATIONS
from tests.crash.recording import record
from tests.crash.sample_run import ROOT, environment
from tests.crash.shell_loop import LoopTrial
from tests.crash.trial import PlannedFault


def results(path: Path, *lines: Result) -> Path:
    """Write a file of results about some commit."""
    header = Result(event="header", header=Header(commit="c0ffee", began="2030-01-02T03:04:05"))
    path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in (header, *lines)))
    return path


def killed(point: int, *harms: Harm, kill: int = 1, after: int = 1) -> Result:
    """Return the result of a kill that stands for so many points."""
    covers = {"kill": kill, "after": after, "torn": 0}
    return Result(
        operation="run/a", kind="kill", point=point, covers=covers, fired=True, harms=tuple(map(str, harms))
    )


def test_broken_and_equal_points_are_counted_apart(tmp_path: Path) -> None:
    """A disk that three kills leave was recovered from once; what it does wrong, all three do."""
    matrix = read_results(results(tmp_path / "r", killed(4, Harm.LOST, kill=3, after=2), killed(9)))
    cells = matrix.cells()
    assert (cells["run", "kill"].fired, cells["run", "kill"].equal) == (2, 2)
    assert (cells["run", "after"].fired, cells["run", "after"].equal) == (0, 3)
    assert (cells["run", "kill"].harms[Harm.LOST], cells["run", "after"].harms[Harm.LOST]) == (3, 2)


def test_a_fault_that_did_not_strike_proves_nothing(tmp_path: Path) -> None:
    """It is counted as not reached, and covers no point."""
    missed = Result(operation="run/a", kind="eio", point=7, covers={"eio": 0})
    cell = read_results(results(tmp_path / "r", missed)).cells()["run", "eio"]
    assert (cell.fired, cell.equal, cell.missed) == (0, 0, 1)


def test_kills_that_were_cut_short_are_played_back_from_the_beginning(tmp_path: Path) -> None:
    """Another recording has other moments at the same numbers; other faults go on point by point."""
    begun, done = (Result(operation="run/a", event=event) for event in ("begun", "done"))
    failed = Result(operation="run/a", kind="eio", point=3, covers={"eio": 1}, fired=True)
    cut = read_results(results(tmp_path / "cut", begun, killed(4), failed))
    assert (cut.is_played_back("run/a"), cut.has("run/a", "eio", 3), cut.has("run/a", "eio", 4)) == (
        False,
        True,
        False,
    )
    again = read_results(results(tmp_path / "again", begun, killed(4), failed, begun, killed(5), done))
    assert again.is_played_back("run/a")
    assert again.cells()["run", "kill"].fired == 1


def test_a_last_line_that_was_cut_off_counts_for_nothing(tmp_path: Path) -> None:
    """The matrix itself may be killed while it writes."""
    path = results(tmp_path / "r", killed(4))
    path.write_bytes(path.read_bytes() + msgspec.json.encode(killed(5))[:20])
    assert read_results(path).cells()["run", "kill"].fired == 1


def test_results_of_another_commit_are_not_continued(tmp_path: Path) -> None:
    """Half of one program and half of another would be a page about neither."""
    command = [sys.executable, "-m", "tests.crash.matrix", "--continue", str(results(tmp_path / "r"))]
    done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False)
    assert (done.returncode, "is about c0ffee" in done.stderr) == (1, True)


def test_every_operation_has_a_row() -> None:
    """What is broken is shown, also an operation that came later."""
    assert {operation.name for operation in OPERATIONS} == set(ROWS)


def test_results_of_single_operations_are_added_to_the_page_and_replaced(tmp_path: Path) -> None:
    """They stand apart, with their own commit, and say which points were broken."""
    page = tmp_path / "page.md"
    page.write_text("# Page\n\n## A shell loop, for comparison\n\nloop\n")
    listed = Result(event="listed", operation="take/failed", points=6)
    failed = [
        Result(operation="take/failed", kind="eio", point=point, covers={"eio": 1}, fired=True)
        for point in (1, 4)
    ]
    matrix = read_results(results(tmp_path / "r", listed, *failed))
    for _ in range(2):
        write_added(page, [matrix])
    text = page.read_text()
    assert text.count("at commit `c0ffee`: 2 faults") == 1
    assert "| take/failed (one point in 3) |" in text
    assert text.endswith("## A shell loop, for comparison\n\nloop\n")


@pytest.mark.crash
def test_the_shell_loop_gets_stuck_where_git_was_killed(tmp_path: Path) -> None:
    """The judge is not blind: unbroken the loop does all its work once, killed at some points it never ends."""
    loop = LoopTrial(tmp_path)
    assert loop.cycle([]).harms() == ()
    loop.reset()
    disks = list(left_disks(record(*loop.broken_program())))
    harms = [loop.disk_cycle(left).harms() for left in disks[::25]]
    assert Harm.STUCK in {harm for found in harms for harm in found}
    assert () in harms


@pytest.mark.crash
def test_the_shell_loop_is_broken_like_holdfast(tmp_path: Path) -> None:
    """An error that it sees ends it; started again it completes what it can."""
    loop = LoopTrial(tmp_path)
    first = loop.points()[0].number
    outcome = loop.cycle([PlannedFault("eio", first)])
    assert (outcome.fired, outcome.harms()) == (True, ())
