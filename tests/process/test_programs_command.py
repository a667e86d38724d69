"""Commands that are run to their end: what they said, bounded, and nothing left of those that take too long."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from holdfast.process.programs import run_command
from tests.support.command import eventually, is_alive

_MOST = 1_000


def test_both_streams_and_the_exit_code_are_returned(tmp_path: Path) -> None:
    """In the folder that was named."""
    done = run_command(["sh", "-c", "pwd; echo no >&2; exit 3"], tmp_path, 30, _MOST)
    assert (done.code, done.out, done.err) == (3, f"{tmp_path}\n", "no\n")


def test_a_flood_of_output_is_cut_and_does_not_hold_it_up(tmp_path: Path) -> None:
    """It ends by itself, and only the beginning is kept."""
    done = run_command([sys.executable, "-c", "print('x' * 5_000_000)"], tmp_path, 60, _MOST)
    assert (done.code, done.out) == (0, "x" * _MOST)


def test_what_takes_too_long_is_ended_with_all_its_children(tmp_path: Path) -> None:
    """Nothing of its session lives on."""
    done = run_command(["sh", "-c", "sleep 60 & echo $! > pid; wait"], tmp_path, 2, _MOST)
    assert (done.code, "longer than 2 s" in done.err) == (-1, True)
    eventually(lambda: not is_alive(int((tmp_path / "pid").read_text())), "the child is gone")


def test_what_it_leaves_in_the_background_does_not_hold_us_up(tmp_path: Path) -> None:
    """Even if that has kept its output, as a runner that goes on alone may."""
    began = time.monotonic()
    done = run_command(["sh", "-c", "setsid sleep 20 & echo done"], tmp_path, 60, _MOST)
    assert (done.code, done.out) == (0, "done\n")
    assert time.monotonic() - began < 15


def test_a_program_that_there_is_not_is_told(tmp_path: Path) -> None:
    """As a result, like everything else that can go wrong with it."""
    done = run_command(["/no/such/program"], tmp_path, 5, _MOST)
    assert (done.code, "No such file" in done.err) == (-1, True)
