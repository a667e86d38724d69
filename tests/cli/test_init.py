"""`init`: a starter plan."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.agents.presets import agent_names, builtin_presets
from holdfast.cli.init import starter
from holdfast.plans import parse_plan
from tests.support.command import Cli
from tests.support.installed_tools import install, only_tools
from tests.support.repositories import Project


@pytest.mark.parametrize("agents", [[], ["claude"], ["codex", "aider"]])
def test_a_starter_plan_is_valid_whatever_is_installed(agents: list[str]) -> None:
    """What `init` writes can be run as it is."""
    plan = parse_plan(starter(agents).encode(), "plan.yaml", agent_names(builtin_presets()))
    assert len(list(plan.tasks())) == 2
    assert plan.agent == (agents[0] if agents else "")


def test_init_writes_a_plan_once(tmp_path: Path) -> None:
    """A second `init` refuses to overwrite, and `.gitignore` is not touched."""
    cli = Cli(Project.create(tmp_path / "p").path)
    ignored = (cli.here / ".gitignore").read_text()
    assert cli("init").code == 0
    (cli.here / "plan.yaml").write_text("mine")
    assert cli("init").code == 2
    assert (cli.here / "plan.yaml").read_text() == "mine"
    assert (cli.here / ".gitignore").read_text() == ignored


def test_init_prefers_an_agent_that_is_ready(tmp_path: Path) -> None:
    """The starter plan names an agent that can work."""
    cli = Cli.of(tmp_path / "p", {"id": "a", "run": ["true"]})
    for name in ("claude", "codex"):
        install(tmp_path / "bin", name, "echo 1.2.3")
    done = cli("init", "new.yaml", **only_tools(tmp_path / "bin", OPENAI_API_KEY="x"))
    assert "codex 1.2.3, claude 1.2.3 (not ready" in done.out
    assert "agent: codex" in (cli.here / "new.yaml").read_text()
