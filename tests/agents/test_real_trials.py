"""`agents try` with a real agent, against a scripted model: what is shown is what the agent did."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from tests.agents.agent_project import BuildProject
from tests.agents.real_agents import RealAgent
from tests.scripted_model import ModelFault, Script, Write
from tests.support.command import Cli
from tests.support.repositories import write


def plan_for(agent: RealAgent, url: str, home: Path, here: Path) -> Cli:
    """Write a plan that describes an agent as a user would: a command of theirs with a known stream."""
    spec = agent.spec(url, home)
    entry = {"command": spec.command, "prompt": spec.prompt, "env": spec.env, "stream": agent.name}
    document = {
        "holdfast": 1,
        "goal": "x",
        "agents": {"mine": entry},
        "tasks": [{"id": "a", "run": ["true"]}],
    }
    write(here / "plan.json", msgspec.json.encode(document).decode())
    return Cli(here)


def test_a_trial_of_a_real_agent_shows_its_tools_session_and_tokens(
    codex: RealAgent, stage: BuildProject
) -> None:
    """Its work is judged as in a run, and every event of its stream is understood."""
    here = stage({"hello": Script((Write("hello.txt", "hello from holdfast\n"),))})
    cli = plan_for(codex, here.model.url("ok"), here.place / "home", here.place)
    done = cli(
        "agents",
        "try",
        "mine",
        "--plan",
        "plan.json",
        "--yes",
        "--json",
        TMPDIR=str(here.place / "home" / "tmp"),
    )
    view = json.loads(done.out)
    assert (done.code, view["outcome"], view["finished"]) == (0, "done", True), done.err
    assert view["session"]
    assert view["tokens"] > 0
    assert view["tools"]
    assert (view["errors"], view["unread"], view["last_word"]) == ([], [], "Done.")
    assert Path(view["log"]).read_text().count('"turn.completed"') == 1


def test_a_trial_of_a_real_agent_with_a_bad_key_says_what_to_do(
    codex: RealAgent, stage: BuildProject
) -> None:
    """The error is shown with what it was taken for."""
    here = stage({"hello": Script(fault=ModelFault.BAD_KEY)})
    cli = plan_for(codex, here.model.url("ok"), here.place / "home", here.place)
    done = cli(
        "agents", "try", "mine", "--plan", "plan.json", "--yes", TMPDIR=str(here.place / "home" / "tmp")
    )
    assert (done.code, done.out.startswith("mine: blocked\n  judged     blocked (auth)")) == (3, True), (
        done.out
    )
    assert "taken for auth: " in done.out
    assert "the agent's credentials were refused" in done.out
