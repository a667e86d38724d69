"""Real agents at their limits: waited for, killed while waiting, refused, full, cut off, and gone on with."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

import pytest

from tests.agents.agent_project import AgentProject, BuildProject, task
from tests.agents.conftest import installed
from tests.agents.real_agents import AGENTS, GEMINI, MINI, RealAgent
from tests.scripted_model import ModelFault, Script, Write
from tests.support.command import Cli, eventually
from tests.support.repositories import write

CONTEXT_ONLY = ("codex-acp",)
"""Agents that tell how full their context is, and not what they used."""
WORK = (Write("one.txt", "one\n"), Write("two.txt", "two\n"))
UNCOUNTED = {"copilot", "vibe", "mini-swe-agent"}
"""Agents that do not say how many tokens they used."""
LATE_FAILURES = [
    ("goose", ModelFault.CUT, 1, "outage"),
    ("copilot", ModelFault.SERVER_ERROR, 6, "outage"),
    ("vibe", ModelFault.OVERFLOW, 1, "failed"),
    ("mini-swe-agent", ModelFault.OVERFLOW, 1, "failed"),
]
"""How the model of an agent fails after its first tool call, how often it does until the agent gives up, and how that ends."""


def prepare(here: AgentProject, agent: RealAgent, **limits: Any) -> Cli:
    """Make a project whose one task is the agent's, known by its preset and started as the tests start it."""
    spec = agent.spec(here.model.url(), here.place / "home")
    entry = {"preset": agent.name, "command": list(spec.command), "prompt": spec.prompt, "env": spec.env}
    return Cli.of(
        here.place / "p", task("a"), agent="it", agents={"it": entry}, limits={"limit_wait": 1, **limits}
    )


def with_resume(here: AgentProject, agent: RealAgent) -> Cli:
    """Make such a project whose agent, by the user's own file, resumes its session as the tests start it."""
    spec = agent.spec(here.model.url(), here.place / "home")
    cli = Cli.of(here.place / "p", task("a"), agent="it", limits={"limit_wait": 1})
    table = {
        "preset": agent.name,
        "command": list(spec.command),
        "resume": list(agent.resuming(spec, "{session}").command),
        "prompt": spec.prompt,
    }
    lines = [f"{key} = {json.dumps(value)}" for key, value in table.items()]
    lines += ["[it.env]", *(f"{key} = {json.dumps(value)}" for key, value in spec.env.items())]
    write(cli.here / ".holdfast" / "agents.toml", "\n".join(["[it]", *lines]))
    return cli


def attempts(cli: Cli) -> list[tuple[str, str]]:
    """Return how each attempt ended: its outcome and what was wrong with it."""
    (found,) = cli.json("inspect", "1", "a")["tasks"]
    return [
        (one["outcome"], ", ".join(error["failure"] for error in one["errors"])) for one in found["attempts"]
    ]


def test_a_run_waits_for_a_real_agents_usage_limit_and_continues(
    codex: RealAgent, stage: BuildProject
) -> None:
    """X5: nobody does anything; the second attempt lands, and the first is no failure."""
    here = stage({"a": Script(WORK, fault=ModelFault.USAGE_LIMIT, times=1, after=1, resets_in_s=1)})
    cli = prepare(here, codex)
    assert here.execute() == 0
    assert attempts(cli) == [("limited", "limit"), ("landed", "")]
    assert here.show("two.txt") == "two"


def test_a_runner_killed_while_a_real_agents_limit_lasts_is_resumed(
    codex: RealAgent, stage: BuildProject
) -> None:
    """The wait is on disk: the next runner waits for the rest of it and carries on."""
    here = stage({"a": Script(WORK, fault=ModelFault.USAGE_LIMIT, times=1, resets_in_s=1)})
    cli = prepare(here, codex, limit_wait=6)
    runner = here.start()
    eventually(
        lambda: bool(cli.json("status")["tasks"]) and cli.task("a")["status"] == "waiting_limit",
        "the task waits",
    )
    os.killpg(runner.pid, signal.SIGKILL)
    runner.wait()
    assert cli.task("a")["waiting_until"]
    assert here.execute("resume") == 0
    assert attempts(cli) == [("limited", "limit"), ("landed", "")]


def test_a_real_agents_rate_limit_is_waited_for(codex: RealAgent, stage: BuildProject) -> None:
    """Once its own retries are used up, the waiting is ours."""
    here = stage({"a": Script(WORK, fault=ModelFault.RATE_LIMIT, times=5)})
    cli = prepare(here, codex)
    assert here.execute() == 0
    assert attempts(cli) == [("limited", "limit"), ("landed", "")]


def test_a_real_agents_refused_key_blocks_the_run_with_the_way_out(
    codex: RealAgent, stage: BuildProject
) -> None:
    """One attempt, nothing charged, exit code 3, and the hint names the key."""
    here = stage({"a": Script(WORK, fault=ModelFault.BAD_KEY)})
    cli = prepare(here, codex)
    assert here.execute() == 3
    assert attempts(cli) == [("blocked", "auth")]
    assert "OPENAI_API_KEY" in cli.json("status")["run"]["detail"]


def test_a_real_agent_that_ran_out_of_context_is_followed_by_a_fresh_one(
    codex: RealAgent, stage: BuildProject
) -> None:
    """What it had achieved is kept and the next agent goes on from there."""
    here = stage({"a": Script(WORK, fault=ModelFault.OVERFLOW, times=1, after=1)})
    cli = prepare(here, codex)
    assert here.execute() == 0
    assert attempts(cli) == [("failed", "context"), ("landed", "")]


def test_a_real_agents_tokens_are_counted(agent: RealAgent, stage: BuildProject) -> None:
    """Each answer of the model claims a thousand and fifty; there are three."""
    here = stage({"a": Script(WORK)})
    cli = prepare(here, agent)
    assert here.execute() == 0
    uses = 0 if agent.name in UNCOUNTED else 1 if agent.name in CONTEXT_ONLY else 3
    assert (cli.task("a")["tokens"] or 0) == uses * 1050


def test_a_real_agent_goes_on_with_its_own_session(codex: RealAgent, stage: BuildProject) -> None:
    """`--native-resume`: after a cut connection the same session is continued, and it is said."""
    here = stage({"a": Script(WORK, fault=ModelFault.CUT, times=3, after=1)})
    cli = with_resume(here, codex)
    done = cli("run", "--yes", "--native-resume")
    assert done.code == 0, done.out
    assert "resuming it's own session" in done.out
    first, second = cli.json("inspect", "1", "a")["tasks"][0]["attempts"]
    assert first["session"] == second["session"] != ""


@pytest.mark.more_agents
def test_a_real_agent_that_ends_with_status_zero_after_an_error_has_failed(stage: BuildProject) -> None:
    """Gemini ends with 0 when the connection ends early; its own result says that it is an error."""
    here = stage({"a": Script(WORK, fault=ModelFault.EOF)})
    cli = prepare(here, installed(GEMINI), attempts=1)
    assert here.execute() == 1
    assert attempts(cli) == [("failed", "agent")]
    assert here.exit_of("a").code == 0


@pytest.mark.more_agents
@pytest.mark.parametrize(("name", "fault", "times", "ending"), LATE_FAILURES)
def test_a_real_agent_whose_model_fails_after_its_first_tool_is_not_done(
    name: str, fault: ModelFault, times: int, ending: str, stage: BuildProject
) -> None:
    """goose ends with status 0 then. Half of the work is there; a fresh agent does the rest before anything lands."""
    here = stage({"a": Script(WORK, fault=fault, times=times, after=1)})
    cli = prepare(here, installed(AGENTS[name]))
    assert here.execute() == 0
    assert [outcome for outcome, _ in attempts(cli)] == [ending, "landed"]
    assert (here.show("one.txt"), here.show("two.txt")) == ("one", "two")


@pytest.mark.more_agents
def test_a_real_agent_that_reached_its_own_limit_is_not_done(stage: BuildProject) -> None:
    """mini-swe-agent ends with status 0 when it may do no more steps; what it did so far does not land."""
    here = stage({"a": Script(WORK)})
    agent = installed(MINI)
    spec = agent.spec(here.model.url(), here.place / "home")
    command = [spec.command[0], "-c", "mini.yaml", "-c", "agent.step_limit=1", *spec.command[1:]]
    entry = {"preset": agent.name, "command": command, "prompt": spec.prompt, "env": spec.env}
    cli = Cli.of(here.place / "p", task("a"), agent="it", agents={"it": entry}, limits={"attempts": 1})
    assert here.execute() == 1
    assert here.exit_of("a").code == 0
    assert attempts(cli) == [("failed", "agent")]
    assert "LimitsExceeded" in cli("status").out


@pytest.mark.more_agents
@pytest.mark.parametrize(
    ("name", "fault"),
    [("goose", ModelFault.CUT), ("copilot", ModelFault.NOT_FOUND), ("vibe", ModelFault.NOT_FOUND)],
)
def test_an_agent_with_a_session_continues_it_after_an_outage(
    name: str, fault: ModelFault, stage: BuildProject
) -> None:
    """The session was read from what the agent printed, and the model is asked only for the rest of the work."""
    here = stage({"a": Script(WORK, fault=fault, times=1, after=1)})
    cli = with_resume(here, installed(AGENTS[name]))
    assert here.execute("run", "--yes", "--native-resume") == 0
    first, second = cli.json("inspect", "1", "a")["tasks"][0]["attempts"]
    assert first["session"] == second["session"] != ""
    assert [request.made for request in here.model.requests if not request.aside] == [0, 1, 1, 2]
