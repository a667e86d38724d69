"""Whole plans by real agents: work lands, streams are kept, nothing is done twice, nobody is left behind."""

from __future__ import annotations

import os
import signal
import threading
from fnmatch import fnmatchcase
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import pytest

from holdfast.agents.presets import builtin_presets
from holdfast.core.facts import ExitReason
from holdfast.core.session_variables import is_of_session
from tests.agents.agent_project import AgentProject, BuildProject, task
from tests.agents.real_agents import CLAUDE_MODEL, KEY, RealAgent, claude_variables
from tests.scripted_model import Script, Shell, Write
from tests.support.command import Cli
from tests.support.repositories import write
from tests.support.runs import Fifo
from tests.support.sandboxes import needs_sandbox

STREAMS = {
    "codex": '"type":"turn.completed"',
    "qwen": '"subtype":"success"',
    "claude": '"subtype":"success"',
    "gemini": '"status":"success"',
    "opencode": '"reason":"stop"',
    "goose": '"type":"complete"',
    "copilot": '"exitCode":0',
    "vibe": '"type":"committed"',
    "mini-swe-agent": "Saved trajectory to",
    "claude-agent-acp": '"stop_reason":"end_turn"',
    "codex-acp": '"stop_reason":"end_turn"',
    "cline": '"finishReason":"completed"',
    "droid": '"type":"completion"',
    "pi": '"type":"agent_end"',
}
"""What each agent prints when it has done its work."""
GIVES_NOTHING = {"goose", "mini-swe-agent"}
"""Agents whose shells get no variable of their own."""


def three_parts(hold: threading.Event | None = None) -> dict[str, Script]:
    """Return scripts for `a` and `b`, which wait for `hold`, and `c`, which builds on both."""
    return {
        "a": Script((Write("new/a.txt", "from a\n"),), hold=hold),
        "b": Script((Write("new/b.txt", "from b\n"),), hold=hold),
        "c": Script((Shell("cat new/a.txt new/b.txt > c.txt"),)),
    }


WITH_PRESETS = {
    "codex": {"preset": "codex", "args": ["--disable", "plugins"]},
    "qwen": {"preset": "qwen", "model": "fake-1", "args": ["--auth-type", "openai"]},
    "claude": {"preset": "claude", "model": CLAUDE_MODEL},
}
"""Agents as a plan has them that only adds options to what Holdfast knows."""


def settings_of(agent: RealAgent, url: str, home: Path) -> dict[str, str]:
    """Write an agent's own settings into a home, and return the environment of a user who has that home."""
    provider = {"name": "fake", "base_url": f"{url}/v1", "env_key": "OPENAI_API_KEY", "wire_api": "responses"}
    lines = ['model = "fake-1"', 'model_provider = "fake"', "check_for_update_on_startup = false"]
    lines += ["[model_providers.fake]", *(f'{key} = "{value}"' for key, value in provider.items())]
    write(home / ".codex" / "config.toml", "\n".join([*lines, "[analytics]", "enabled = false", ""]))
    quiet = {"general": {"disableAutoUpdate": True}, "privacy": {"usageStatisticsEnabled": False}}
    write(home / ".qwen" / "settings.json", msgspec.json.encode(quiet).decode())
    path = f"{agent.program.parent}:{os.environ['PATH']}"
    model = {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": KEY, "QWEN_CODE_NO_RELAUNCH": "true"}
    return {
        "HOME": str(home),
        "PATH": path,
        "TERM": "dumb",
        "IS_SANDBOX": "",
        **model,
        **claude_variables(url),
    }


def busy(build: BuildProject, agent: RealAgent, tool: Fifo, **more: object) -> AgentProject:
    """Start a run whose agent gets a tool to run for ever, with a child in a session of its own."""
    stray = f"echo begun > begun.txt; setsid sh -c '{tool.give}; exec sleep 600' & sleep 600"
    stage = build({"a": Script((Shell(stray),))})
    stage.plan(agent, task("a", **more), limits={"attempts": 1})
    stage.start()
    return stage


def at_work(build: BuildProject, agent: RealAgent, tool: Fifo) -> AgentProject:
    """Start such a run and wait until the child of the tool runs."""
    stage = busy(build, agent, tool)
    stage.model.wait_for("a")
    tool.wait()
    return stage


def test_real_agents_work_through_a_plan_in_parallel(agent: RealAgent, stage: BuildProject) -> None:
    """Two agents work at the same time, a third builds on what they landed, and each one's stream is kept."""
    gate = threading.Event()
    here = stage(three_parts(hold=gate))
    here.plan(agent, task("a"), task("b"), task("c", "a", "b"), limits={"jobs": 2})
    runner = here.start()
    for name in ("a", "b"):
        here.model.wait_for(name)
    gate.set()
    assert runner.wait(240) == 0
    assert here.show("c.txt") == "from a\nfrom b"
    assert all(STREAMS[agent.name] in here.log(name) for name in "abc")
    here.nothing_lives()


@needs_sandbox
@pytest.mark.parametrize("level", ["workspace", "strict"])
def test_real_agents_work_in_a_sandbox_with_their_own_settings(
    agent: RealAgent, level: str, stage: BuildProject
) -> None:
    """They find their program, their settings and their model in there, and their tools see no home but their own."""
    if agent.name not in WITH_PRESETS:
        pytest.skip(f"how {agent.name} is told by its own settings where the model is was not found out")
    here = stage(
        {"a": Script((Write("new/a.txt", "from a\n"), Shell("ls ~/private > seen.txt; git add .; :")))}
    )
    home = here.place / "home"
    (home / "private").mkdir(parents=True)
    env = settings_of(agent, here.model.url("ok"), home)
    Cli.of(here.place / "p", task("a"), agent=agent.name, agents=WITH_PRESETS)
    env["HOLDFAST_NETWORK_ALLOW"] = urlsplit(here.model.url("ok")).netloc
    runner = here.cli.start("run", "--yes", "--sandbox", level, **env)
    assert runner.wait(240) == 0, here.cli("logs", "1", "a").out
    assert (here.show("new/a.txt"), here.show("seen.txt")) == ("from a", "")
    here.nothing_lives()


def test_what_a_real_agent_gives_its_shell_reaches_no_agent_below_it(
    agent: RealAgent, stage: BuildProject
) -> None:
    """A run that is started in that shell passes the agent's own family on, but nothing of its session."""
    here = stage({"a": Script((Shell("env > in_shell.txt"),))})
    command = {"id": "b", "needs": ["a"], "run": ["sh", "-c", "env > before.txt"]}
    here.plan(agent, task("a"), command)
    assert here.execute() == 0
    before, in_shell = (
        {line.partition("=")[0] for line in here.show(name).splitlines()}
        for name in ("before.txt", "in_shell.txt")
    )
    spec = agent.spec(here.model.url("ok"), here.place / "home")
    new = in_shell - before - set(spec.env)
    passed = builtin_presets()[agent.name].pass_env
    of_family = {name for name in new if any(fnmatchcase(name, pattern) for pattern in passed)}
    assert of_family or agent.name in GIVES_NOTHING
    assert [name for name in of_family if not is_of_session(name)] == []


def test_a_killed_runner_is_resumed_without_asking_the_model_again(
    codex: RealAgent, stage: BuildProject
) -> None:
    """The agent works on without a runner; the next runner takes what it did, and what had landed stays."""
    gate = threading.Event()
    scripts = three_parts() | {"b": Script((Write("new/b.txt", "from b\n"),), hold=gate)}
    here = stage(scripts)
    here.plan(codex, task("a"), task("b", "a"), task("c", "b"))
    runner = here.start()
    here.model.wait_for("b")
    os.killpg(runner.pid, signal.SIGKILL)
    runner.wait()
    gate.set()
    assert here.execute("resume") == 0
    assert {name: here.model.count(name) for name in "abc"} == {"a": 2, "b": 2, "c": 2}
    assert [here.cli.task(name)["attempts"] for name in "abc"] == [1, 1, 1]
    assert here.show("c.txt") == "from a\nfrom b"


def test_a_stop_leaves_no_process_of_a_real_agent(agent: RealAgent, stage: BuildProject, tool: Fifo) -> None:
    """Not the agent, not its tool's shell, not what that shell detached; what it wrote is kept."""
    here = at_work(stage, agent, tool)
    assert here.cli("stop").code == 0
    assert here.survivors() == []
    assert here.cli.project.git("show", "refs/holdfast/01-try-it/wip/a:begun.txt") == "begun"


def test_a_killed_real_agent_leaves_no_process(agent: RealAgent, stage: BuildProject, tool: Fifo) -> None:
    """Its shells have sessions of their own and would live on; the supervisor ends them."""
    here = at_work(stage, agent, tool)
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
    spec = opencode.spec(here.model.url("ok"), here.place / "home")
    entry = {"preset": "opencode", "command": spec.command, "prompt": spec.prompt, "env": spec.env}
    limits = {"jobs": 4, "attempts": 1}
    Cli.of(here.place / "p", *map(task, "abcd"), agent="mine", agents={"mine": entry}, limits=limits)
    assert here.execute() == 0, [here.log(name) for name in "abcd"]


@pytest.mark.more_agents
def test_an_agent_that_commits_by_itself_lands_its_work(aider: RealAgent, stage: BuildProject) -> None:
    """Aider takes edits from the model's text and commits them; the second task finds what the first one did."""
    here = stage({name: Script((Write(f"{name}.md", f"{name}\n"),)) for name in ("one", "two")})
    here.plan(aider, task("one"), task("two", "one"))
    assert here.execute() == 0
    assert (here.show("one.md"), here.show("two.md")) == ("one", "two")
    assert ".aider" not in here.files()
    here.nothing_lives()
