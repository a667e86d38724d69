"""Real Claude Code: a key and a login at their limits, usage credits, permissions, root, and a session that is resumed."""

from __future__ import annotations

import json
import os
import time
from datetime import datetime
from typing import Any

import pytest

from tests.agents.agent_project import AgentProject, BuildProject, task
from tests.agents.real_agents import CLAUDE_MODEL, RealAgent, claude_variables
from tests.agents.record_claude import LOGIN
from tests.scripted_model import ModelFault, Script, Write
from tests.scripted_model.anthropic_api import subscription_headers
from tests.support.command import Cli
from tests.support.repositories import write

WORK = (Write("one.txt", "one\n"), Write("two.txt", "two\n"))
ANSWER_USD = 0.00375
"""What Claude Code reckons for one answer of the scripted model: a thousand tokens read, fifty written."""
only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root is refused")


def prepare(
    here: AgentProject,
    agent: RealAgent,
    *,
    env: dict[str, str] | None = None,
    limits: dict[str, Any] | None = None,
    **more: Any,
) -> Cli:
    """Make a project whose one task is Claude Code's, by its preset, with the words and variables of the tests."""
    usual = dict(agent.spec(here.model.url(), here.place / "home").env)
    table = {
        "preset": "claude",
        "model": CLAUDE_MODEL,
        "env": usual | dict(agent.hasty) | (env or {}),
        **more,
    }
    words = agent_words(agent)
    lines = [f"{key} = {json.dumps(value)}" for key, value in {**table, **words}.items() if key != "env"]
    lines += ["[it.env]", *(f"{key} = {json.dumps(value)}" for key, value in table["env"].items())]
    cli = Cli.of(here.place / "p", task("a"), agent="it", limits={"limit_wait": 1, **(limits or {})})
    write(cli.here / ".holdfast" / "agents.toml", "\n".join(["[it]", *lines, ""]))
    return cli


def agent_words(agent: RealAgent) -> dict[str, list[str]]:
    """Return the preset's own commands with the program of the tests."""
    words = ["-p", "--output-format", "stream-json", "--verbose", "{permissions}", "{model}", "{args}"]
    command = [str(agent.program), *words]
    return {"command": command, "resume": [*command, "--resume", "{session}"]}


def test_a_limit_of_claude_with_a_key_is_waited_for_and_its_session_costs_what_it_used(
    claude: RealAgent, stage: BuildProject
) -> None:
    """The second attempt resumes the session, whose results count the first one's money too; ours count each once."""
    here = stage({"a": Script(WORK, fault=ModelFault.USAGE_LIMIT, times=1, after=1)})
    cli = prepare(here, claude, native_resume=True)
    assert here.execute() == 0
    assert here.attempts() == [("limited", "limit"), ("landed", "")]
    first, second = cli.json("inspect", "1", "a")["tasks"][0]["attempts"]
    assert first["session"] == second["session"] != ""
    answers = here.model.count("a") - 1
    assert cli.task("a")["cost_usd"] == pytest.approx(answers * ANSWER_USD)


def test_a_limit_of_claude_with_a_login_ends_when_its_stream_says(
    claude: RealAgent, stage: BuildProject
) -> None:
    """The headers of a subscription name the reset, Claude Code hands it on, and the task waits until then."""
    reset = int(time.time()) + 3600
    headers = subscription_headers("rejected", reset, overage="rejected", disabled="out_of_credits")
    here = stage({"a": Script(WORK, fault=ModelFault.USAGE_LIMIT, headers=headers)})
    cli = prepare(here, claude, env=LOGIN, limits={"on_limit": "stop"})
    assert here.execute() == 3
    assert here.attempts() == [("limited", "limit")]
    until = datetime.fromisoformat(cli.task("a")["waiting_until"])
    assert until.timestamp() == pytest.approx(reset, abs=120)


def test_claude_that_works_on_with_usage_credits_is_at_no_limit(
    claude: RealAgent, stage: BuildProject
) -> None:
    """Its stream says that the limit is reached, and that credits pay: it is let alone, and its work lands."""
    headers = subscription_headers("rejected", int(time.time()) + 3600, overage="allowed")
    here = stage({"a": Script(WORK, headers=headers)})
    prepare(here, claude, env=LOGIN)
    assert here.execute() == 0
    assert '"isUsingOverage":true' in here.log("a")
    assert here.attempts() == [("landed", "")]


def test_what_claude_was_not_allowed_is_named(claude: RealAgent, stage: BuildProject) -> None:
    """With narrower permissions it asks, nobody answers, and the task is blocked with what it wanted."""
    here = stage({"a": Script((Write("one.txt", "one\n"),))})
    cli = prepare(here, claude, permissions=["--permission-mode", "default"])
    assert here.execute() == 3
    assert here.attempts() == [("blocked", "permission")]
    assert "Write (" in cli.task("a")["error"]


def test_a_model_that_is_not_there_blocks_claudes_task_at_once(
    claude: RealAgent, stage: BuildProject
) -> None:
    """No retry can mend it: one attempt, and the way out."""
    here = stage({"a": Script(WORK, fault=ModelFault.BAD_MODEL)})
    cli = prepare(here, claude)
    assert here.execute() == 3
    assert here.attempts() == [("blocked", "model")]
    assert CLAUDE_MODEL in cli.task("a")["error"]


@only_root
def test_root_is_told_what_to_do_before_claude_is_started(claude: RealAgent, stage: BuildProject) -> None:
    """Without a sandbox it would refuse; `run` says so, starts nothing, and `doctor` knows it before."""
    here = stage({"a": Script(WORK)})
    cli = prepare(here, claude, env={"IS_SANDBOX": ""})
    done = cli("run", "--yes", IS_SANDBOX="")
    assert (done.code, "IS_SANDBOX=1" in done.err, "--sandbox workspace" in done.err) == (2, True, True)
    assert (here.model.count("a"), cli.task("a")["attempts"]) == (0, 0)
    path = f"{claude.program.parent}:{os.environ['PATH']}"
    known = {"HOME": str(here.place / "home"), "PATH": path, **claude_variables(here.model.url())}
    assert "set IS_SANDBOX=1" in cli("doctor", IS_SANDBOX="", **known).out


@only_root
def test_claudes_own_refusal_of_root_blocks_with_the_way_out(claude: RealAgent, stage: BuildProject) -> None:
    """Where the word for a sandbox is lost on the way, its error line is understood."""
    here = stage({"a": Script(WORK)})
    lost = ["env", "-u", "IS_SANDBOX", *agent_words(claude)["command"]]
    cli = prepare(here, claude)
    settings = cli.here / ".holdfast" / "agents.toml"
    known = f"command = {json.dumps(agent_words(claude)['command'])}"
    settings.write_text(settings.read_text().replace(known, f"command = {json.dumps(lost)}"))
    assert here.execute() == 3
    assert here.attempts() == [("blocked", "permission")]
    assert "set IS_SANDBOX=1" in cli.task("a")["error"]
