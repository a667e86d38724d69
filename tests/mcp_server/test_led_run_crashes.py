"""X6: the crash of a leading agent is noticed at once; nothing landed is lost or done twice, nothing stays claimed."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.mcp_server.lead_client import RefusedError, asks, forked_server, holder_of, leading, led, plan_of
from tests.support.command import Cli, eventually
from tests.support.preloaded_command import MCP, preloaded_command
from tests.support.repositories import Project
from tests.support.runs import Trial

RUN = "01-try-it"
TWO = plan_of(asks("a"), asks("b", needs=["a"]))
ROOT = Path(__file__).parents[2]
CLIENT = "import runpy; runpy.run_module('tests.mcp_server.interrupted_client', run_name='__main__')"


def crashed(project: Project, kill: Callable[[int, int], None]) -> str:
    """Let an agent get half-way, kill it or its server, wait until nobody holds the run; return the claim's token."""
    words = [str(project.path), TWO, *forked_server()]
    agent = preloaded_command(MCP).start(ROOT, words, os.environ, CLIENT, told=True)
    assert agent.stdout is not None
    token = agent.stdout.readline().decode().strip()
    assert token
    kill(agent.pid, holder_of(project, RUN))
    eventually(lambda: holder_of(project, RUN) == 0, "the run is free")
    agent.kill()
    agent.communicate()
    return token


def kill_agent(agent: int, _server: int) -> None:
    """The agent dies; its server notices that nobody talks to it any more."""
    os.kill(agent, signal.SIGKILL)


def kill_both(agent: int, server: int) -> None:
    """The machine kills everything: nobody is left to clean up."""
    os.kill(server, signal.SIGKILL)
    os.kill(agent, signal.SIGKILL)


def kill_server(_agent: int, server: int) -> None:
    """The server dies under a living agent."""
    os.kill(server, signal.SIGKILL)


CRASHES = pytest.mark.parametrize("kill", [kill_agent, kill_both, kill_server])


@CRASHES
def test_a_second_client_continues_where_the_first_was_killed(
    tmp_path: Path, kill: Callable[[int, int], None]
) -> None:
    """The run shows interrupted; the half-done task is ready again, its work in the workspace, the old claim void."""
    project = Project.create(tmp_path / "p")
    token = crashed(project, kill)
    assert Cli(project.path).run_status() == "interrupted"

    async def play() -> None:
        async with leading(project.path) as leader:
            assert (await leader("open_run"))["resumed"]
            with pytest.raises(RefusedError, match="not held any more"):
                await leader("complete_task", task="b", token=token)
            claim = await leader.claim("b")
            assert (Path(claim["workspace"]) / "b.txt").read_text() == "half\n"
            done = await leader("complete_task", task="b", token=claim["token"])
            assert done["status"] == "completed"
            assert (await leader("list_ready", wait_s=60))["status"] == "completed"

    led(play)
    trial = Trial(project, RUN)
    assert trial.landed() == ["a", "b"]
    assert trial.show("b.txt") == "half"
    assert trial.violations() == []


@CRASHES
def test_a_plain_resume_continues_with_the_plans_own_agent(
    tmp_path: Path, kill: Callable[[int, int], None]
) -> None:
    """What an agent led, Holdfast can lead: the plan's agent finishes what was half done."""
    project = Project.create(tmp_path / "p")
    crashed(project, kill)
    done = Cli(project.path)("resume", "--yes")
    assert done.code == 0, done.err
    trial = Trial(project, RUN)
    assert trial.landed() == ["a", "b"]
    assert trial.show("b.txt") == "half\nb"
    assert trial.violations() == []


def test_what_was_started_for_a_task_does_not_outlive_it(tmp_path: Path) -> None:
    """A process that carries the claim's variables is ended with the claim, before its work is committed."""
    project = Project.create(tmp_path / "p")

    async def play() -> None:
        async with leading(project.path) as leader:
            await leader("open_run", plan=TWO)
            claim = await leader.claim("a")
            worker = subprocess.Popen(["sleep", "1000"], env={**os.environ, **claim["env"]})
            await leader("release_task", task="a", token=claim["token"])
            assert worker.wait() != 0

    led(play)
