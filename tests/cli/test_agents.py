"""`agents`: which agents are known, installed and ready."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.command import Cli
from tests.support.installed_tools import install, only_tools


def test_agents_lists_what_is_installed_first_and_how_to_get_the_rest(tmp_path: Path) -> None:
    """Outside of any repository, too. It shows the version, and the one that the preset was recorded with."""
    install(tmp_path / "bin", "vibe", "echo vibe 3.0.2")
    done = Cli(tmp_path)("agents", **only_tools(tmp_path / "bin"))
    heading, first, *_ = done.out.splitlines()
    assert (done.code, heading.split()) == (0, ["AGENT", "VERSION", "RECORDED", "WITH", "STATE"])
    assert first.split()[:2] == ["vibe", "3.0.2"]
    assert "not ready: set MISTRAL_API_KEY or log in with it once" in first
    (codex,) = [line for line in done.out.splitlines() if line.startswith("codex ")]
    assert "0.166.0" in codex
    assert "not installed: npm install -g @openai/codex" in codex


def test_a_broken_install_and_a_version_that_was_not_recorded_are_marked(tmp_path: Path) -> None:
    """An agent that cannot say its version does no task: `agents` says why, and `doctor` warns."""
    cli = Cli.of(tmp_path / "p")
    install(tmp_path / "bin", "claude", "echo Error: no native binary >&2; echo at line 3 >&2; exit 1")
    install(tmp_path / "bin", "codex", "echo codex-cli 0.170.1")
    tools = only_tools(tmp_path / "bin", OPENAI_API_KEY="x", ANTHROPIC_API_KEY="x")
    shown = cli("agents", COLUMNS="250", **tools).out
    broken = "broken: `claude --version` exited with 1: Error: no native binary"
    assert "0.170.1 (not recorded)" in shown.splitlines()[1]
    assert broken in shown
    assert f"ok   agent claude: claude (broken)\nwarn agent claude: {broken}" in cli("doctor", **tools).out


def test_programs_get_the_same(tmp_path: Path) -> None:
    """With an agent of the repository's own file among them."""
    cli = Cli.of(tmp_path / "p")
    install(tmp_path / "bin", "qwen", "echo 0.24.4")
    agents = cli.here / ".holdfast" / "agents.toml"
    agents.parent.mkdir()
    agents.write_text('[mine]\ncommand = ["qwen", "{brief}"]\n')
    done = cli("agents", "--json", **only_tools(tmp_path / "bin", OPENAI_API_KEY="x"))
    found = {agent["name"]: agent for agent in json.loads(done.out)["agents"]}
    assert (found["qwen"]["installed"], found["qwen"]["version"], found["qwen"]["missing"]) == (
        True,
        "0.24.4",
        "",
    )
    assert (found["mine"]["installed"], found["mine"]["version"]) == (True, "")
    assert (found["codex"]["installed"], found["codex"]["recorded"]) == (False, ["0.166.0"])
