"""Real agents for the tests; one that is not installed is a skip that says so."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.agents.agent_project import AgentProject
from tests.agents.all_agents import IN_EVERY_TEST, MORE_AGENTS
from tests.agents.promises import obstacle
from tests.agents.real_agents import AIDER, CLAUDE, CODEX, OPENCODE, RealAgent
from tests.scripted_model import Script, ScriptedModel
from tests.support.runs import Fifo


@pytest.fixture(
    params=[*IN_EVERY_TEST, *(pytest.param(one, marks=pytest.mark.more_agents) for one in MORE_AGENTS)],
    ids=lambda agent: agent.name,
)
def agent(request: pytest.FixtureRequest) -> RealAgent:
    """Each of the agents, unless it cannot do what the test is about; `make test` has the first three."""
    marker = request.node.get_closest_marker("promise")
    if marker is not None and (why := obstacle(marker.args[0], request.param.name)):
        pytest.skip(f"cannot: {why}")
    return installed(request.param)


@pytest.fixture
def aider() -> RealAgent:
    """Aider: the agent without tools and without a stream."""
    return installed(AIDER)


@pytest.fixture
def opencode() -> RealAgent:
    """The agent that makes a database in its home when it first starts."""
    return installed(OPENCODE)


@pytest.fixture
def codex() -> RealAgent:
    """Codex: the agent that starts fastest."""
    return installed(CODEX)


@pytest.fixture
def claude() -> RealAgent:
    """Claude Code: the agent that tells most about its limits."""
    return installed(CLAUDE)


@pytest.fixture
def tool(tmp_path: Path) -> Fifo:
    """What an agent's tool reports to once it runs."""
    return Fifo(tmp_path / "tool")


def installed(agent: RealAgent) -> RealAgent:
    """Return an agent, or skip the test with the reason why there is none."""
    if agent.missing:
        pytest.skip(agent.missing)
    return agent


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Callable[[dict[str, Script]], AgentProject]]:
    """Set a stage: a model with these scripts, and a project. Whatever a failed test leaves is ended."""
    stages: list[AgentProject] = []

    def build(scripts: dict[str, Script]) -> AgentProject:
        stages.append(AgentProject(tmp_path, ScriptedModel(scripts).__enter__()))
        return stages[-1]

    yield build
    for one in stages:
        for runner in one.runners:
            if runner.poll() is None:
                os.killpg(runner.pid, signal.SIGKILL)
                runner.wait()
        for pid in one.survivors():
            os.kill(pid, signal.SIGKILL)
        one.model.close()
