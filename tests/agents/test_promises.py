"""What Holdfast promises for every real agent: one test per promise, from which `make test-agents` makes its table."""

from __future__ import annotations

import os
import signal
import threading
from fnmatch import fnmatchcase
from urllib.parse import urlsplit

import msgspec
import pytest

from holdfast.agents.presets import builtin_presets
from holdfast.core.session_variables import is_of_session
from tests.agents.agent_project import AgentProject, BuildProject, at_work, task
from tests.agents.promises import Promise
from tests.agents.real_agents import RealAgent
from tests.agents.recordings import heard, preset_of
from tests.scripted_model import ModelFault, Script, Shell, Write
from tests.support.runs import Fifo
from tests.support.sandboxes import needs_sandbox

WORK = (Write("one.txt", "one\n"), Write("two.txt", "two\n"))
ANSWER_TOKENS = 1050
"""What each answer of the scripted model claims."""
LIMITS = {
    "aider": (ModelFault.RATE_LIMIT, 1),
    "claude": (ModelFault.USAGE_LIMIT, 2),
    "claude-agent-acp": (ModelFault.USAGE_LIMIT, 2),
    "cline": (ModelFault.RATE_LIMIT, 6),
    "copilot": (ModelFault.RATE_LIMIT, 6),
    "droid": (ModelFault.RATE_LIMIT, 1),
    "goose": (ModelFault.RATE_LIMIT, 4),
    "mini-swe-agent": (ModelFault.RATE_LIMIT, 9),
    "opencode": (ModelFault.RATE_LIMIT, 9),
    "opencode-acp": (ModelFault.RATE_LIMIT, 9),
    "openhands": (ModelFault.RATE_LIMIT, 1),
    "pi": (ModelFault.RATE_LIMIT, 12),
    "qwen": (ModelFault.RATE_LIMIT, 1),
    "qwen-0.15.10": (ModelFault.RATE_LIMIT, 1),
    "qwen-acp": (ModelFault.RATE_LIMIT, 1),
    "vibe": (ModelFault.RATE_LIMIT, 10),
}
"""Limits that end an agent soon, and how often it asks until then; a usage limit, once, for those that are not here."""
ASKS_AGAIN = {"aider", "droid", "openhands", "qwen", "qwen-0.15.10", "qwen-acp"}
"""Agents that wait for minutes by themselves; a limit that is over by then never becomes ours."""
CUTS = {
    "claude": (ModelFault.USAGE_LIMIT, 2),
    "claude-agent-acp": (ModelFault.USAGE_LIMIT, 2),
    "codex": (ModelFault.USAGE_LIMIT, 1),
    "codex-acp": (ModelFault.USAGE_LIMIT, 1),
    "goose": (ModelFault.CUT, 1),
}
"""What ends an agent in the middle of its work, without fault of its own; a 404, once, for those that are not here."""
GIVES_NOTHING = {"aider", "goose", "mini-swe-agent", "openhands"}
"""Agents whose shells get no variable of their own."""
FROM_OUTSIDE = "from-outside"
OUTER = dict.fromkeys(
    (
        "ACME_API_KEY",
        "DEPLOY_PASSWORD",
        "CLAUDE_CODE_MESSAGING_TOKEN",
        "CODEX_SESSION_ID",
        "GEMINI_SESSION_ID",
        "QWEN_SERVER_TOKEN",
        "OPENCODE_SERVER_PASSWORD",
        "COPILOT_SESSION_TOKEN",
        "GOOSE_SESSION_ID",
        "VIBE_APP_SERVER_TOKEN",
        "FACTORY_EXEC_TOKEN",
        "CLINE_CONNECTOR_TOKEN",
    ),
    FROM_OUTSIDE,
)
"""Secrets of whoever starts Holdfast: their own, and those of an agent session around it."""
OF_THE_HOME = ("HOME", "TMPDIR", "CODEX_HOME", "CLAUDE_CONFIG_DIR", "IS_SANDBOX")
"""Variables of the tests that a user whose home has the settings does not need."""


def conversations(here: AgentProject, agent: RealAgent) -> int:
    """Return how often the model was asked to begin with task `a`. Without tools, an agent with tools asks for no work."""
    begun = [one for one in here.model.requests if (one.task, one.made, one.aside) == ("a", 0, False)]
    return sum(bool(agent.shell) or b'"tools"' in one.body for one in begun)


@pytest.mark.promise(Promise.PLAN)
def test_a_plan_of_several_tasks_lands(agent: RealAgent, stage: BuildProject) -> None:
    """Two agents work at the same time, a third builds on what they landed, and each one's stream is kept."""
    gate = threading.Event()
    both = Write("c.txt", "from a\nfrom b\n") if agent.shell else Shell("cat new/a.txt new/b.txt > c.txt")
    scripts = {name: Script((Write(f"new/{name}.txt", f"from {name}\n"),), hold=gate) for name in "ab"}
    here = stage({**scripts, "c": Script((both,))})
    here.plan(
        agent,
        task("a"),
        task("b"),
        task("c", "a", "b", verify=["cat new/a.txt new/b.txt"]),
        limits={"jobs": 2},
    )
    runner = here.start()
    if builtin_presets()[preset_of(agent.name)].first_alone:
        gate.set()  # the other one starts only when the model of the first one has answered
    for name in "ab":
        here.model.wait_for(name)
    gate.set()
    assert runner.wait(240) == 0, [here.log(name) for name in "abc"]
    assert here.show("c.txt") == "from a\nfrom b"
    assert all(heard(here.log(name).encode(), preset_of(agent.name)).finished for name in "abc")
    assert ".aider" not in here.files()
    here.nothing_lives()


@pytest.mark.promise(Promise.STOP)
def test_a_stop_leaves_no_process_of_a_real_agent(agent: RealAgent, stage: BuildProject, tool: Fifo) -> None:
    """Not the agent, not its tool's shell, not what that shell detached; what it wrote is kept."""
    here = at_work(stage, agent, tool)
    assert here.cli("stop").code == 0
    assert here.survivors() == []
    assert here.cli.project.git("show", "refs/holdfast/01-try-it/wip/a:begun.txt") == "begun"


@pytest.mark.promise(Promise.KILL)
def test_a_killed_runner_is_resumed_without_asking_the_model_again(
    agent: RealAgent, stage: BuildProject
) -> None:
    """The agent works on without a runner; the next runner takes what it did, and what had landed stays."""
    gate = threading.Event()
    here = stage({"a": Script(WORK[:1], hold=gate)})
    commands = {name: {"id": name, "run": ["sh", "-c", f"ls > {name}.txt"]} for name in ("before", "after")}
    here.plan(agent, commands["before"], task("a", "before"), {**commands["after"], "needs": ["a"]})
    runner = here.start()
    here.model.wait_for("a")
    os.killpg(runner.pid, signal.SIGKILL)
    runner.wait()
    gate.set()
    assert here.execute("resume") == 0
    assert [here.cli.task(name)["attempts"] for name in ("before", "a", "after")] == [1, 1, 1]
    assert "one.txt" in here.show("after.txt")
    assert conversations(here, agent) == 1
    here.nothing_lives()


@pytest.mark.promise(Promise.TOKENS)
def test_a_real_agents_tokens_are_counted(agent: RealAgent, stage: BuildProject) -> None:
    """Each answer of the model claims a thousand and fifty, and no more and no less is counted."""
    here = stage({"a": Script(WORK)})
    here.plan(agent, task("a"))
    assert here.execute() == 0, here.log("a")
    assert here.cli.task("a")["tokens"] == here.model.count("a") * ANSWER_TOKENS


@pytest.mark.promise(Promise.SESSION)
def test_a_real_agent_goes_on_with_its_own_session(agent: RealAgent, stage: BuildProject) -> None:
    """`--native-resume`: after its provider failed, the model is asked only for the rest of the work."""
    fault, times = CUTS.get(agent.name, (ModelFault.NOT_FOUND, 1))
    here = stage({"a": Script(WORK, fault=fault, times=times, after=1, resets_in_s=1)})
    here.plan(agent, task("a"))
    assert here.execute("run", "--yes", "--native-resume") == 0, here.log("a")
    first, last = [outcome for outcome, _ in here.attempts()]
    assert (first in ("limited", "outage"), last) == (True, "landed")
    first, second = here.sessions()
    assert first == second != ""
    assert conversations(here, agent) == 1
    assert (here.show("one.txt"), here.show("two.txt")) == ("one", "two")


@pytest.mark.promise(Promise.LATE)
def test_work_before_a_late_failure_does_not_land(agent: RealAgent, stage: BuildProject) -> None:
    """The key is refused when some of the work is done. Whatever the agent makes of it, with whatever status: nothing lands."""
    here = stage({"a": Script(WORK, fault=ModelFault.BAD_KEY, after=1)})
    here.plan(agent, task("a"), shell="false")
    assert here.execute() == 3, here.log("a")
    assert here.attempts() == [("blocked", "auth")]
    assert "one.txt" not in here.files()
    here.nothing_lives()


@pytest.mark.promise(Promise.LIMIT)
def test_a_limit_of_a_real_agent_is_waited_out(agent: RealAgent, stage: BuildProject) -> None:
    """Nobody does anything and nothing is charged: the last attempt lands, and none before it is a failure."""
    fault, times = LIMITS.get(agent.name, (ModelFault.USAGE_LIMIT, 1))
    after = 0 if agent.shell else 1
    here = stage({"a": Script(WORK, fault=fault, times=times, after=after, resets_in_s=1)})
    here.plan(agent, task("a"), limits={"attempts": 1})
    assert here.execute() == 0, here.log("a")
    *waited, last = here.attempts()
    assert last == ("landed", "")
    assert set(waited) <= {("limited", "limit")}
    assert waited or agent.name in ASKS_AGAIN
    assert (here.show("one.txt"), here.show("two.txt")) == ("one", "two")


@pytest.mark.promise(Promise.KEY)
def test_a_refused_key_blocks_the_run_with_the_way_out(agent: RealAgent, stage: BuildProject) -> None:
    """One attempt, nothing charged, exit code 3, and the hint names a key of the agent."""
    here = stage({"a": Script(WORK, fault=ModelFault.BAD_KEY)})
    here.plan(agent, task("a"))
    assert here.execute() == 3, here.log("a")
    assert here.attempts() == [("blocked", "auth")]
    said = here.cli.json("status")["run"]["detail"]
    assert any(key in said for key in builtin_presets()[preset_of(agent.name)].keys), said
    here.nothing_lives()


@pytest.mark.promise(Promise.SECRETS)
def test_nothing_of_an_outer_session_reaches_a_real_agent(agent: RealAgent, stage: BuildProject) -> None:
    """Neither secrets around Holdfast, nor, in a run that this agent starts in its shell, what it gives that shell."""
    command = "env > in_shell.txt"
    here = stage({"a": Script(WORK[:1] if agent.shell else (Shell(command),))})
    here.plan(
        agent,
        task("a"),
        {"id": "b", "needs": ["a"], "run": ["sh", "-c", "env > before.txt"]},
        shell=command,
    )
    assert here.execute("run", "--yes", **OUTER) == 0, here.log("a")
    told = [request.body.decode() for request in here.model.requests]
    assert not any(FROM_OUTSIDE in text for text in (here.show("in_shell.txt"), here.log("a"), *told))
    before, in_shell = (
        {line.partition("=")[0] for line in here.show(name).splitlines()}
        for name in ("before.txt", "in_shell.txt")
    )
    given = {**os.environ, **agent.spec(here.model.url("ok"), here.place / "home").env, **agent.hasty}
    new = in_shell - before - set(given)
    passed = builtin_presets()[preset_of(agent.name)].pass_env
    of_family = {name for name in new if any(fnmatchcase(name, pattern) for pattern in passed)}
    assert of_family or agent.name in GIVES_NOTHING
    assert [name for name in of_family if not is_of_session(name)] == []


@needs_sandbox
@pytest.mark.promise(Promise.SANDBOX)
def test_a_real_agent_works_in_a_sandbox_with_its_own_settings(agent: RealAgent, stage: BuildProject) -> None:
    """It finds its program, its settings and its model in there, and its tools see no home but its own."""
    look = "ls ~/private > seen.txt; git add .; :"
    more = () if agent.shell else (Shell(look),)
    here = stage({"a": Script((Write("new/a.txt", "from a\n"), *more))})
    home = here.place / "home"
    spec = agent.running(agent.spec(here.model.url(), home), look)
    (home / "private").mkdir()
    words = tuple(word if word != str(agent.program) else agent.program.name for word in spec.command)
    env = {name: value for name, value in spec.env.items() if name not in OF_THE_HOME}
    here.plan_with(agent, msgspec.structs.replace(spec, command=words, env=env), task("a"))
    path = f"{agent.program.parent}:{os.environ['PATH']}"
    users = {"HOME": str(home), "PATH": path, "TERM": "dumb", "IS_SANDBOX": ""}
    users["HOLDFAST_NETWORK_ALLOW"] = urlsplit(here.model.url()).netloc
    assert here.execute("run", "--yes", "--sandbox", "strict", **users) == 0, here.log("a")
    assert (here.show("new/a.txt"), here.show("seen.txt")) == ("from a", "")
    here.nothing_lives()
