"""Agents that make their home ready when they start: the first one starts alone, and nobody fails because of another."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

from tests.support.command import Cli, eventually
from tests.support.preloaded_command import ForkedProcess
from tests.support.repositories import write
from tests.support.runs import Fifo

PATIENCE_S = 240.0
WELL = """echo '{"type": "thread.started", "thread_id": "t"}'; echo $HOLDFAST_TASK > $HOLDFAST_TASK.txt"""
ENDS = """echo '{"type": "turn.completed", "usage": {"input_tokens": 1, "output_tokens": 1}}'"""


class FreshHome:
    """A home that nobody has used, and an agent that makes it ready but cannot bear that another one does so too."""

    def __init__(self, tmp_path: Path) -> None:
        self.place, self.home = tmp_path, tmp_path / "home"
        self.home.mkdir()
        self.making, self.go = Fifo(tmp_path / "making"), Fifo(tmp_path / "go")

    @property
    def script(self) -> str:
        """Who comes while the home is made ready fails, as with a database that is locked."""
        alone = f"mkdir $HOME/making || {{ echo database is locked; exit 1; }}; {self.making.give}; {self.go.take}"
        return f"test -e $HOME/ready || {{ {alone}; touch $HOME/ready; }}; {WELL}; {ENDS}"

    def project(self, name: str, *tasks: str, script: str = "", **limits: Any) -> Cli:
        """Make a project in which this agent has these tasks, all at once."""
        bounds = {"jobs": 4, "attempts": 1, **limits}
        work = [{"id": task, "prompt": "x", "agent": "mine"} for task in tasks]
        cli = Cli.of(self.place / name, *work, limits=bounds)
        command = json.dumps(["sh", "-c", script or self.script])
        env = f'env = {{ HOME = "{self.home}" }}'
        table = f'[mine]\ncommand = {command}\nstream = "codex"\nfirst_alone = true\n{env}\n'
        write(cli.here / ".holdfast" / "agents.toml", table)
        return cli


def begun(cli: Cli, *tasks: str) -> None:
    """Wait until all of these tasks were given to an agent."""
    eventually(lambda: {"running": set(tasks)} == _by_status(cli), "they all begin")


def attempts(cli: Cli) -> list[int]:
    """Return how many attempts the tasks had, in ascending order."""
    return sorted(task["attempts"] for task in cli.json("status")["tasks"])


def _by_status(cli: Cli) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for task in cli.json("status")["tasks"]:
        found.setdefault(task["status"], set()).add(task["id"])
    return found


def test_several_agents_on_a_fresh_home_do_not_fail_each_other(tmp_path: Path) -> None:
    """The others wait until the first one has made the home ready."""
    fresh = FreshHome(tmp_path)
    cli = fresh.project("p", "a", "b", "c")
    runner = cli.start("run", "--yes")
    fresh.making.wait()
    begun(cli, "a", "b", "c")
    fresh.go.release()
    assert runner.wait(PATIENCE_S) == 0
    assert attempts(cli) == [1, 1, 1]


def test_two_runs_in_two_repositories_do_not_fail_each_other(tmp_path: Path) -> None:
    """They share the home of their user."""
    fresh = FreshHome(tmp_path)
    first, second = fresh.project("p", "a"), fresh.project("q", "a")
    runners = [first.start("run", "--yes")]
    fresh.making.wait()
    runners.append(second.start("run", "--yes"))
    begun(second, "a")
    fresh.go.release()
    assert [runner.wait(PATIENCE_S) for runner in runners] == [0, 0]


def test_a_killed_runners_first_agent_is_waited_for_by_the_next_one(tmp_path: Path) -> None:
    """Its supervisor lives on, and still says that it is the first."""
    fresh = FreshHome(tmp_path)
    cli = fresh.project("p", "a", "b", "c")
    runner = cli.start("run", "--yes")
    fresh.making.wait()
    begun(cli, "a", "b", "c")
    os.killpg(runner.pid, signal.SIGKILL)
    runner.wait()
    again = cli.start("resume", "--yes")
    others_again = [1, 2, 2]
    eventually(lambda: attempts(cli) == others_again, "the others begin anew")
    fresh.go.release()
    assert again.wait(PATIENCE_S) == 0
    assert attempts(cli) == others_again


def test_a_first_agent_that_fails_lets_the_next_one_be_first(tmp_path: Path) -> None:
    """It ended without an event, so the home may not be ready. Nobody waits for it any longer."""
    fresh = FreshHome(tmp_path)
    script = f"test -e $HOME/tried || {{ touch $HOME/tried; exit 1; }}; {WELL}; {ENDS}"
    cli = fresh.project("p", "a", "b", "c", script=script, attempts=2, retry_delay="0s")
    assert cli("run", "--yes").code == 0
    assert attempts(cli) == [1, 1, 2]


def test_a_first_agent_that_hangs_holds_nobody_up_for_longer_than_it_may(tmp_path: Path) -> None:
    """Silence ends it like any other; then the next one starts."""
    fresh = FreshHome(tmp_path)
    script = f"mkdir $HOME/tried && exec sleep 600; {WELL}; {ENDS}"
    cli = fresh.project("p", "a", "b", script=script, attempts=2, stall="1s", retry_delay="0s")
    assert cli("run", "--yes").code == 0
    assert attempts(cli) == [1, 2]


def test_a_stop_ends_those_that_wait_for_the_first_one(tmp_path: Path) -> None:
    """They were never started; a resume starts them."""
    fresh = FreshHome(tmp_path)
    cli = fresh.project("p", "a", "b")
    runner = cli.start("run", "--yes")
    fresh.making.wait()
    begun(cli, "a", "b")
    assert cli("stop").code == 0
    assert runner.wait(PATIENCE_S) == 130
    (fresh.home / "making").rmdir()
    fresh.go.release()
    assert cli("resume", "--yes").code == 0


def test_an_agent_that_needs_no_turn_waits_for_nobody(tmp_path: Path) -> None:
    """Without the key of the preset, all start at once."""
    fresh = FreshHome(tmp_path)
    both = Fifo(tmp_path / "both")
    cli = fresh.project("p", "a", "b", script=f"{both.give}; {fresh.go.take}; {WELL}; {ENDS}")
    agents = cli.here / ".holdfast" / "agents.toml"
    agents.write_text(agents.read_text().replace("first_alone = true\n", ""))
    runner: ForkedProcess = cli.start("run", "--yes")
    both.wait()
    both.wait()
    fresh.go.release(2)
    assert runner.wait(PATIENCE_S) == 0
    assert not (fresh.home / ".local").exists()
