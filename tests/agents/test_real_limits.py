"""Real agents at limits and faults of special kinds: killed while waiting, full, cut off, at a limit of their own."""

from __future__ import annotations

import os
import signal

import msgspec
import pytest

from tests.agents.agent_project import BuildProject, task
from tests.agents.all_agents import AGENTS
from tests.agents.conftest import installed
from tests.agents.real_agents import GEMINI, MINI, RealAgent
from tests.scripted_model import ModelFault, Script, Write
from tests.support.command import eventually

WORK = (Write("one.txt", "one\n"), Write("two.txt", "two\n"))
LATE_FAILURES = [
    ("goose", ModelFault.CUT, 1, "outage"),
    ("copilot", ModelFault.SERVER_ERROR, 6, "outage"),
    ("vibe", ModelFault.OVERFLOW, 1, "failed"),
    ("mini-swe-agent", ModelFault.OVERFLOW, 1, "failed"),
]
"""How the model of an agent fails after its first tool call, how often it does until the agent gives up, and how that ends."""


def test_a_runner_killed_while_a_real_agents_limit_lasts_is_resumed(
    codex: RealAgent, stage: BuildProject
) -> None:
    """The wait is on disk: the next runner waits for the rest of it and carries on."""
    here = stage({"a": Script(WORK, fault=ModelFault.USAGE_LIMIT, times=1, resets_in_s=1)})
    cli = here.plan(codex, task("a"), limits={"limit_wait": 6})
    runner = here.start()
    eventually(
        lambda: bool(cli.json("status")["tasks"]) and cli.task("a")["status"] == "waiting_limit",
        "the task waits",
    )
    os.killpg(runner.pid, signal.SIGKILL)
    runner.wait()
    assert cli.task("a")["waiting_until"]
    assert here.execute("resume") == 0
    assert here.attempts() == [("limited", "limit"), ("landed", "")]


def test_a_real_agent_that_ran_out_of_context_is_followed_by_a_fresh_one(
    codex: RealAgent, stage: BuildProject
) -> None:
    """What it had achieved is kept and the next agent goes on from there."""
    here = stage({"a": Script(WORK, fault=ModelFault.OVERFLOW, times=1, after=1)})
    here.plan(codex, task("a"))
    assert here.execute() == 0
    assert here.attempts() == [("failed", "context"), ("landed", "")]


def test_an_outage_after_the_first_tool_is_waited_for(codex: RealAgent, stage: BuildProject) -> None:
    """Nobody is charged, and what lands is whole."""
    here = stage({"a": Script(WORK, fault=ModelFault.SERVER_ERROR, times=9, after=1)})
    here.plan(codex, task("a"), limits={"attempts": 1})
    assert here.execute() == 0
    assert here.attempts() == [("outage", "outage"), ("landed", "")]
    assert (here.show("one.txt"), here.show("two.txt")) == ("one", "two")


@pytest.mark.more_agents
def test_a_real_agent_that_ends_with_status_zero_after_an_error_is_not_done(stage: BuildProject) -> None:
    """Gemini ends with 0 when its answers end early; its own result says that it is an error, which is an outage."""
    here = stage({"a": Script(WORK, fault=ModelFault.EOF, times=4)})
    here.plan(installed(GEMINI), task("a"), limits={"attempts": 1})
    assert here.execute() == 0
    assert here.exit_of("a").code == 0
    assert here.attempts() == [("outage", "outage"), ("landed", "")]


@pytest.mark.more_agents
@pytest.mark.parametrize(("name", "fault", "times", "ending"), LATE_FAILURES)
def test_a_real_agent_whose_model_fails_after_its_first_tool_is_not_done(
    name: str, fault: ModelFault, times: int, ending: str, stage: BuildProject
) -> None:
    """goose ends with status 0 then. Half of the work is there; a fresh agent does the rest before anything lands."""
    here = stage({"a": Script(WORK, fault=fault, times=times, after=1)})
    here.plan(installed(AGENTS[name]), task("a"))
    assert here.execute() == 0
    assert [outcome for outcome, _ in here.attempts()] == [ending, "landed"]
    assert (here.show("one.txt"), here.show("two.txt")) == ("one", "two")


@pytest.mark.more_agents
def test_a_real_agent_that_reached_its_own_limit_is_not_done(stage: BuildProject) -> None:
    """mini-swe-agent ends with status 0 when it may do no more steps; what it did so far does not land."""
    here = stage({"a": Script(WORK)})
    agent = installed(MINI)
    spec = agent.spec(here.model.url(), here.place / "home")
    command = (spec.command[0], "-c", "mini.yaml", "-c", "agent.step_limit=1", *spec.command[1:])
    spec = msgspec.structs.replace(spec, command=command)
    cli = here.plan_with(agent, spec, task("a"), limits={"attempts": 1})
    assert here.execute() == 1
    assert here.exit_of("a").code == 0
    assert here.attempts() == [("failed", "agent")]
    assert "LimitsExceeded" in cli.task("a")["error"]
