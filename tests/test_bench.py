"""The benchmark itself works; how fast anything is, no test says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from bench.measurement import Report

_ROOT = Path(__file__).parents[1]


def measure(workload: str) -> Report:
    """Run the small size of a workload as a user does, and return what it wrote."""
    argv = [sys.executable, "-m", "bench", "--quick", workload]
    done = subprocess.run(argv, cwd=_ROOT, capture_output=True, text=True, check=True)
    path = Path(done.stdout.splitlines()[-1].removeprefix("written to "))
    report = msgspec.json.decode(path.read_bytes(), type=Report)
    path.unlink()
    return report


@pytest.mark.parametrize("workload", ["W2", "W3", "W4", "W5", "W6", "W7", "W9", "W10"])
def test_every_workload_that_needs_no_agent_can_be_measured(workload: str) -> None:
    """Who changes what a workload uses hears of it."""
    assert {figure.workload for figure in measure(workload).figures} == {workload}


def test_the_benchmark_writes_its_figures_as_json_and_says_where() -> None:
    """`python -m bench --quick W1` ends well, and its last line leads to figures with units and bounds."""
    report = measure("W1")
    assert report.quick
    assert {figure.workload for figure in report.figures} == {"W1"}
    assert {"tasks/s", "x", "MB", "bytes"} <= {figure.unit for figure in report.figures}
    assert any(figure.bound is not None for figure in report.figures)
