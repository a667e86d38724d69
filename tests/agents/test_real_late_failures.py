"""Real agents whose model fails for good once there is some work: nothing of it lands on the agent's word."""

from __future__ import annotations

import pytest

from tests.agents.agent_project import BuildProject, task
from tests.agents.conftest import installed
from tests.agents.real_agents import CODEX, GEMINI, OPENCODE, QWEN, QWEN_0_15, RealAgent
from tests.agents.recordings import preset_of
from tests.agents.test_real_limits import WORK, attempts
from tests.scripted_model import ModelFault, Script
from tests.support.command import Cli

AGENTS = [
    CODEX,
    QWEN,
    *(pytest.param(agent, marks=pytest.mark.more_agents) for agent in (QWEN_0_15, GEMINI, OPENCODE)),
]


def prepare(place: Cli, agent: RealAgent, url: str, *more: str, attempts_max: int = 3) -> Cli:
    """Make a project whose one task is the agent's, with `more` arguments."""
    spec = agent.spec(url, place.here.parent / "home")
    entry = {
        "preset": preset_of(agent.name),
        "command": [*spec.command, *more],
        "prompt": spec.prompt,
        "env": spec.env,
    }
    limits = {"limit_wait": 1, "attempts": attempts_max}
    return Cli.of(place.here, task("a"), agent="it", agents={"it": entry}, limits=limits)


@pytest.mark.parametrize("late", AGENTS, ids=lambda agent: agent.name)
def test_work_before_a_late_failure_does_not_land(late: RealAgent, stage: BuildProject) -> None:
    """The key is refused when one of two files is written. Qwen 0.15 calls that a success and ends with status 0."""
    here = stage({"a": Script(WORK, fault=ModelFault.BAD_KEY, after=1)})
    cli = prepare(here.cli, installed(late), here.model.url())
    assert here.execute() == 3
    assert attempts(cli) == [("blocked", "auth")]
    assert "one.txt" not in here.files()


def test_an_outage_after_the_first_tool_is_waited_for(codex: RealAgent, stage: BuildProject) -> None:
    """Nobody is charged, and what lands is whole."""
    here = stage({"a": Script(WORK, fault=ModelFault.SERVER_ERROR, times=9, after=1)})
    cli = prepare(here.cli, codex, here.model.url(), attempts_max=1)
    assert here.execute() == 0
    assert attempts(cli) == [("outage", "outage"), ("landed", "")]
    assert (here.show("one.txt"), here.show("two.txt")) == ("one", "two")


@pytest.mark.more_agents
def test_an_error_that_cuts_the_loop_of_aider_is_its_last_word(aider: RealAgent, stage: BuildProject) -> None:
    """Its edit fails a test; it asks for a better one and is refused. It ends with status 0, and nothing lands."""
    here = stage({"a": Script(WORK[:1], fault=ModelFault.BAD_KEY, after=1)})
    cli = prepare(here.cli, aider, here.model.url(), "--auto-test", "--test-cmd", "false")
    assert here.execute() == 3
    assert here.exit_of("a").code == 0
    assert attempts(cli) == [("blocked", "auth")]
    assert "one.txt" not in here.files()
