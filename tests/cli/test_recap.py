"""`recap`: what happened in a run and what was redone."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.support.command import Cli, eventually, is_alive, killed_cli


def test_recap_proves_by_git_that_nothing_was_lost_or_repeated(ended: Cli) -> None:
    """The numbers come from the branch and the journal, not from an agent."""
    view = ended.json("recap", "1")
    assert (view["landed"], view["lost"], view["repeated"]) == (1, 0, 0)
    assert view["failures"] == {"agent": 2}
    assert "0 lost, 0 repeated" in ended("recap").out


def test_the_recap_tells_what_was_redone(blocked: Cli) -> None:
    """Attempts thrown away, their time, and money only where somebody named it."""
    redone = blocked.json("recap")["redone"]
    assert (redone["attempts"], redone["cost_usd"]) == (1, None)
    assert redone["seconds"] >= 0
    assert "thrown away" in blocked("recap").out


def test_the_recap_names_branches_that_an_agent_made_and_leaves_them(tmp_path: Path) -> None:
    """Without a sandbox an agent's branch is in the user's repository. It may be the user's own, so it is only told."""
    cli = Cli.of(tmp_path / "p", {"id": "a", "run": ["sh", "-c", "git checkout -q -b aside; echo a > a.txt"]})
    assert cli("run", "--yes").code == 0
    cli.project.git("branch", "users-own")
    assert cli.json("recap")["new_in_git"] == ["branch aside", "branch users-own"]
    assert "by an agent or by you: branch aside, branch users-own" in cli("recap").out
    assert cli.project.git("branch", "--list", "aside", "users-own").split() == ["aside", "users-own"]


def test_the_recap_tells_how_long_no_agent_worked_after_a_crash(tmp_path: Path) -> None:
    """Runner and agent were killed; until somebody came back nothing was done."""
    cli, agent = killed_cli(tmp_path)
    os.kill(agent, signal.SIGKILL)
    eventually(lambda: not is_alive(agent), "the agent is gone")
    cli("stop")
    lost = cli.json("recap")["lost_time"]
    assert lost["crashes_s"] > 0
    assert lost["limits_s"] == 0
    assert "time lost, in which no agent worked: " in cli("recap").out


def test_a_run_that_nothing_stopped_lost_no_time(ended: Cli) -> None:
    """A failure is no lost time: somebody worked."""
    assert ended.json("recap")["lost_time"] == {"crashes_s": 0.0, "limits_s": 0.0}
    assert "time lost" not in ended("recap").out
