"""`init`: a starter plan."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.agents.presets import agent_names, builtin_presets
from holdfast.cli.init import starter
from holdfast.cli.project_tools import propose
from holdfast.core.plan import PlanWorkspace
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


PROJECTS = {
    "npm": (
        {"package.json": '{"scripts": {"test": "vitest"}}', "package-lock.json": "{}"},
        ("npm ci",),
        ("npm test",),
    ),
    "pnpm": ({"package.json": "{}", "pnpm-lock.yaml": ""}, ("pnpm install --frozen-lockfile",), ()),
    "yarn": ({"package.json": "{}", "yarn.lock": ""}, ("yarn install --frozen-lockfile",), ()),
    "bun": (
        {"package.json": '{"scripts": {"test": "x"}}', "bun.lock": ""},
        ("bun install --frozen-lockfile",),
        ("bun run test",),
    ),
    "uv": (
        {"pyproject.toml": "[tool.pytest]", "uv.lock": ""},
        ("uv sync --frozen",),
        ("uv run --frozen pytest -q",),
    ),
    "requirements": ({"requirements.txt": "x", "tests/test_x.py": ""}, (), ("pytest -q",)),
    "cargo": ({"Cargo.toml": ""}, (), ("cargo test",)),
    "go": ({"go.mod": ""}, (), ("go test ./...",)),
    "ruby": (
        {"Gemfile": "", "Gemfile.lock": ""},
        ("bundle config set --local path vendor/bundle && bundle install",),
        (),
    ),
    "php": ({"composer.json": "", "composer.lock": ""}, ("composer install --no-interaction",), ()),
    "make": ({"Makefile": "all:\n\ntest: all\n\ttrue\n", "compose.yaml": ""}, (), ("make test",)),
    "broken": ({"package.json": "[1", ".env": "KEY=1", ".env.example": ""}, (), ()),
}


@pytest.mark.parametrize("files", PROJECTS)
def test_what_a_project_s_files_propose_is_a_valid_plan(tmp_path: Path, files: str) -> None:
    """Set-up and checks are live where a lock file and an installed program make them certain."""
    content, setup, verify = PROJECTS[files]
    project = Project.create(tmp_path / "p")
    for name, text in content.items():
        project.write(name, text)
    text = starter([], propose(project.open(), lambda program: True))
    plan = parse_plan(text.encode(), "plan.yaml", agent_names(builtin_presets()))
    assert (plan.workspace.setup, plan.verify) == (setup, verify)
    assert plan.workspace.copy == ()
    assert bool(plan.workspace.ports) == ("compose.yaml" in content)


def test_what_is_only_a_guess_is_a_comment(tmp_path: Path) -> None:
    """A program that is not installed, a virtual environment, secrets: the user decides about each."""
    project = Project.create(tmp_path / "p")
    for name in ("package-lock.json", "requirements.txt", ".env"):
        project.write(name, "{}")
    text = starter(["claude"], propose(project.open(), lambda program: False))
    plan = parse_plan(text.encode(), "plan.yaml", agent_names(builtin_presets()))
    assert plan.workspace == PlanWorkspace()
    for guess in ('["npm ci"]   # npm is not installed here', "-m venv .venv", 'copy: [".env"]   # agents'):
        assert guess in text


def test_a_folder_that_git_tracks_is_not_kept(tmp_path: Path) -> None:
    """A run would refuse it: what is tracked is in every workspace already."""
    project = Project.create(tmp_path / "p")
    project.write("composer.lock", "{}")
    project.write("vendor/autoload.php", "x")
    project.commit("vendored")
    assert propose(project.open(), lambda program: True).keep == []


def test_the_plan_that_init_writes_runs(tmp_path: Path) -> None:
    """With what it proposes, and a tool that is there."""
    project = Project.create(tmp_path / "p")
    project.write(".gitignore", "node_modules\n")
    project.write("package.json", '{"scripts": {"test": "true"}}')
    project.write("package-lock.json", "{}")
    project.commit("a package")
    install(tmp_path / "bin", "npm", "[ $1 = ci ] && mkdir -p node_modules; [ -d node_modules ]")
    cli = Cli(project.path)
    path = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    assert cli("init", **only_tools(tmp_path / "bin")).code == 0
    assert 'setup: ["npm ci"]' in (cli.here / "plan.yaml").read_text()
    assert cli("run", "--yes", "--no-sandbox", **path).code == 0
    assert cli("doctor", **path).code == 0


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
