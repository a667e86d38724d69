"""The demo is the product's first impression: it must do what it says, from real facts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


def demo(folder: Path, *flags: str) -> str:
    """Run the demo in a folder that is kept, and return what it printed."""
    argv = [sys.executable, "-m", "holdfast", "demo", "--keep", str(folder), *flags]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, object]]:
    """One crashed and resumed demo: its output, and its recap as JSON."""
    folder = tmp_path_factory.mktemp("demo") / "repo"
    output = demo(folder, "--crash")
    argv = [sys.executable, "-m", "holdfast", "recap", "--json"]
    recap = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=True)
    return output, json.loads(recap.stdout)


def test_the_killed_demo_loses_nothing_and_repeats_nothing(crashed: tuple[str, dict[str, object]]) -> None:
    """The closing words are computed: eight landings in git, none lost, none twice."""
    output, recap = crashed
    assert (recap["landed"], recap["lost"], recap["repeated"]) == (8, 0, 0)
    assert "8 landed, 0 lost, 0 repeated" in output


def test_an_agent_outlives_the_killed_runner_of_the_demo(crashed: tuple[str, dict[str, object]]) -> None:
    """The second runner takes over one that still works; on a busy machine, the work of one that has finished meanwhile."""
    output, recap = crashed
    assert (recap["runners"], recap["adopted"] != 0) == (2, True)
    assert "re-attached to" in output or "which ended meanwhile" in output


def test_the_demo_shows_a_conflict_and_a_failing_check_fixed(crashed: tuple[str, dict[str, object]]) -> None:
    """One of each, and both end in a landing."""
    _, recap = crashed
    assert recap["failures"] == {"conflict": 1, "check": 1}
