"""How newer agents end: refused after some work, with whatever status, and in the middle of a session that goes on."""

from __future__ import annotations

import json

import pytest

from tests.agents.acp_adapters import CLAUDE_AGENT_ACP, CODEX_ACP
from tests.agents.agent_project import BuildProject, task
from tests.agents.conftest import installed
from tests.agents.json_agents import CLINE, DROID, PI
from tests.agents.real_agents import RealAgent
from tests.agents.test_real_limits import attempts, prepare
from tests.scripted_model import ModelFault, Script, Write
from tests.support.command import Cli
from tests.support.repositories import write

pytestmark = pytest.mark.more_agents
WORK = (Write("one.txt", "one\n"), Write("two.txt", "two\n"))
ASKED = {"claude-agent-acp": 2, "codex-acp": 9, "pi": 12}
"""How often each asks, with its own repeats, before it gives up."""
PREPARED = (CLAUDE_AGENT_ACP, CODEX_ACP, CLINE, DROID, PI)


@pytest.mark.parametrize("newer", PREPARED, ids=lambda agent: agent.name)
def test_a_key_that_is_refused_after_some_work_blocks_the_run(newer: RealAgent, stage: BuildProject) -> None:
    """Nothing lands, whatever the exit status: pi ends with 0."""
    here = stage({"a": Script(WORK, fault=ModelFault.BAD_KEY, after=1)})
    cli = prepare(here, installed(newer))
    assert here.execute() == 3
    assert attempts(cli) == [("blocked", "auth")]
    assert "one.txt" not in here.files()
    here.nothing_lives()


@pytest.mark.parametrize("newer", [CLAUDE_AGENT_ACP, CODEX_ACP, PI], ids=lambda agent: agent.name)
def test_the_session_of_an_agent_is_gone_on_with(newer: RealAgent, stage: BuildProject) -> None:
    """`--native-resume`: after an outage the same session is continued, with all that was said in it."""
    here = stage({"a": Script(WORK, fault=ModelFault.SERVER_ERROR, times=ASKED[newer.name], after=1)})
    spec = installed(newer).spec(here.model.url(), here.place / "home")
    cli = Cli.of(here.place / "p", task("a"), agent="it", limits={"limit_wait": 1})
    resume = list(newer.resuming(spec, "{session}").command)
    table = {"preset": newer.name, "command": list(spec.command), "resume": resume, "prompt": spec.prompt}
    lines = [f"{key} = {json.dumps(value)}" for key, value in table.items()]
    lines += ["[it.env]", *(f"{key} = {json.dumps(value)}" for key, value in spec.env.items())]
    write(cli.here / ".holdfast" / "agents.toml", "\n".join(["[it]", *lines]))
    done = cli("run", "--yes", "--native-resume")
    assert done.code == 0, done.out
    first, *_, last = cli.json("inspect", "1", "a")["tasks"][0]["attempts"]
    assert first["session"] == last["session"] != ""
    assert [request.made for request in here.model.requests].count(0) == 1
