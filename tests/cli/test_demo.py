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


def test_the_killed_demo_reattaches_an_agent(crashed: tuple[str, dict[str, object]]) -> None:
    """Two runners, and at least one agent that outlived the first."""
    output, recap = crashed
    assert recap["runners"] == 2
    assert "re-attached to" in output


def test_the_demo_shows_a_conflict_and_a_failing_check_fixed(crashed: tuple[str, dict[str, object]]) -> None:
    """One of each, and both end in a landing."""
    _, recap = crashed
    assert recap["failures"] == {"conflict": 1, "check": 1}
