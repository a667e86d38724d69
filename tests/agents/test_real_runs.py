"""Real agents as they start and end: by their presets alone, in a sandbox, killed, too slow, and several at once."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from holdfast.core.facts import ExitReason
from tests.agents.agent_project import BuildProject, at_work, busy, task
from tests.agents.all_agents import IN_EVERY_TEST
from tests.agents.conftest import installed
from tests.agents.real_agents import CLAUDE, CLAUDE_MODEL, CODEX, KEY, RealAgent, claude_variables
from tests.scripted_model import Script, Shell, Write
from tests.support.command import Cli
from tests.support.repositories import write
from tests.support.runs import Fifo
from tests.support.sandboxes import needs_sandbox

WITH_PRESETS = {
    "codex": {"preset": "codex", "args": ["--disable", "plugins"]},
    "claude": {"preset": "claude", "model": CLAUDE_MODEL},
}
"""Agents as a plan has them that only adds options to what Holdfast knows."""


def settings_of(agent: RealAgent, url: str, home: Path) -> dict[str, str]:
    """Write an agent's own settings into a home, and return the environment of a user who has that home."""
    provider = {"name": "fake", "base_url": f"{url}/v1", "env_key": "OPENAI_API_KEY", "wire_api": "responses"}
    lines = ['model = "fake-1"', 'model_provider = "fake"', "check_for_update_on_startup = false"]
    lines += ["[model_providers.fake]", *(f'{key} = "{value}"' for key, value in provider.items())]
    write(home / ".codex" / "config.toml", "\n".join([*lines, "[analytics]", "enabled = false", ""]))
    path = f"{agent.program.parent}:{os.environ['PATH']}"
    return {
        "HOME": str(home),
        "PATH": path,
        "TERM": "dumb",
        "IS_SANDBOX": "",
        "OPENAI_API_KEY": KEY,
        **claude_variables(url),
    }


@needs_sandbox
@pytest.mark.parametrize("agent", [CODEX, CLAUDE], ids=lambda agent: agent.name)
def test_real_agents_work_in_a_sandbox_with_their_presets_alone(
    agent: RealAgent, stage: BuildProject
) -> None:
    """They find their program, their settings and their model in there, and their tools see no home but their own."""
    here = stage(
        {"a": Script((Write("new/a.txt", "from a\n"), Shell("ls ~/private > seen.txt; git add .; :")))}
    )
    home = here.place / "home"
    (home / "private").mkdir(parents=True)
    env = settings_of(installed(agent), here.model.url("ok"), home)
    Cli.of(here.place / "p", task("a"), agent=agent.name, agents=WITH_PRESETS)
    env["HOLDFAST_NETWORK_ALLOW"] = urlsplit(here.model.url("ok")).netloc
    assert here.execute("run", "--yes", "--sandbox", "workspace", **env) == 0, here.cli("logs", "1", "a").out
    assert (here.show("new/a.txt"), here.show("seen.txt")) == ("from a", "")
    here.nothing_lives()


@pytest.mark.parametrize("agent", IN_EVERY_TEST, ids=lambda agent: agent.name)
def test_a_killed_real_agent_leaves_no_process(agent: RealAgent, stage: BuildProject, tool: Fifo) -> None:
    """Its shells have sessions of their own and would live on; the supervisor ends them."""
    here = at_work(stage, installed(agent), tool)
    os.kill(here.agent_pid(), signal.SIGKILL)
    assert here.runners[0].wait(60) == 1
    assert here.exit_of("a").code == -signal.SIGKILL
    here.nothing_lives()


def test_a_kill_of_runner_and_supervisor_is_swept_up_by_the_next_runner(
    codex: RealAgent, stage: BuildProject, tool: Fifo
) -> None:
    """Nobody is left to end the agent but the resume, which finds it by the token in its environment."""
    here = at_work(stage, codex, tool)
    os.killpg(here.runners[0].pid, signal.SIGKILL)
    os.kill(here.supervisor_pid(), signal.SIGKILL)
    assert here.survivors() != []
    assert here.cli("stop").code == 0
    assert here.survivors() == []


def test_a_real_agent_that_takes_too_long_leaves_no_process(
    codex: RealAgent, stage: BuildProject, tool: Fifo
) -> None:
    """The attempt ends at its limit with everything below it, which is the tool and its child by then."""
    here = busy(stage, codex, tool, timeout="6s")
    assert here.runners[0].wait(60) == 1
    assert here.exit_of("a").reason is ExitReason.TIMEOUT
    assert here.survivors() == []


@pytest.mark.more_agents
def test_several_real_agents_start_at_once_on_a_fresh_home(opencode: RealAgent, stage: BuildProject) -> None:
    """Without turns, one of them may find its database locked, or half made."""
    here = stage({name: Script((Write(f"{name}.txt", f"{name}\n"),)) for name in "abcd"})
    here.plan(opencode, *map(task, "abcd"), limits={"jobs": 4, "attempts": 1})
    assert here.execute() == 0, [here.log(name) for name in "abcd"]
