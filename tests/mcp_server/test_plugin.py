"""The Claude Code plugin in this repository: manifests, hooks and slash commands that fit the program beside them."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from holdfast import __version__
from holdfast.cli.commands import parse
from tests.support.repositories import Project
from tests.support.runs import Fifo, Trial, sh, stage, start_runner

ROOT = Path(__file__).parents[2]
COMMANDS = sorted((ROOT / "commands").glob("*.md"))
TEXTS = [*COMMANDS, ROOT / "skills" / "holdfast" / "SKILL.md"]
HOOKS = {
    event: hook
    for event, groups in json.loads((ROOT / "hooks" / "hooks.json").read_text())["hooks"].items()
    for group in groups
    for hook in group["hooks"]
}
EACH_HOOK = pytest.mark.parametrize("event", HOOKS)


def manifest(name: str) -> Any:
    """Return a manifest of the plugin."""
    return json.loads((ROOT / name).read_text())


def run_hook(event: str, here: Path, path: str) -> tuple[int, str]:
    """Run a hook as Claude Code does, within its own time limit; return its exit status and what it printed."""
    done = subprocess.run(
        ["/bin/sh", "-c", HOOKS[event]["command"]],
        cwd=here,
        env={"PATH": path, "HOME": str(here)},
        input=json.dumps({"hook_event_name": event, "cwd": str(here)}),
        capture_output=True,
        text=True,
        timeout=HOOKS[event]["timeout"] * 3,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def with_holdfast() -> str:
    """Return a PATH on which `holdfast` is found."""
    return os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)])


def test_the_manifests_say_what_claude_code_asks_for() -> None:
    """The plugin has a name and the program's version; the marketplace of this repository offers it from its root."""
    plugin, market = manifest(".claude-plugin/plugin.json"), manifest(".claude-plugin/marketplace.json")
    assert re.fullmatch(r"[a-z][a-z0-9-]*", plugin["name"])
    assert plugin["version"] == __version__
    assert plugin["description"]
    assert market["owner"]["name"]
    assert [(entry["name"], entry["source"]) for entry in market["plugins"]] == [(plugin["name"], "./")]


def test_the_server_of_the_plugin_is_a_command_of_the_program() -> None:
    """What Claude Code starts is parsed like what a user types."""
    server = manifest(".mcp.json")["mcpServers"]["holdfast"]
    assert server["command"] == "holdfast"
    assert parse(server["args"])[0] == "mcp"


def test_work_is_saved_on_stop_before_compaction_and_at_the_end() -> None:
    """Those are the moments after which an agent may know nothing any more. Each hook has a time limit."""
    assert set(HOOKS) == {"Stop", "PreCompact", "SessionEnd"}
    assert all(hook["type"] == "command" and 0 < hook["timeout"] <= 10 for hook in HOOKS.values())


@EACH_HOOK
def test_a_hook_is_harmless_where_holdfast_is_not_installed(tmp_path: Path, event: str) -> None:
    """No output, no failure: an exit status of 2 would block the agent."""
    assert run_hook(event, tmp_path, "/nowhere") == (0, "")


@EACH_HOOK
def test_a_hook_is_harmless_without_a_run(tmp_path: Path, event: str) -> None:
    """Outside of a repository, and in one without a run, nothing is said and nothing is left behind."""
    project = Project.create(tmp_path / "p")
    assert run_hook(event, tmp_path, with_holdfast()) == (0, "")
    assert run_hook(event, project.path, with_holdfast()) == (0, "")
    assert not (project.path / ".holdfast").exists()


def test_a_hook_saves_the_work_of_a_live_run(tmp_path: Path) -> None:
    """What an agent has done so far is in a commit before the hook returns."""
    there, go_on = Fifo(tmp_path / "there"), Fifo(tmp_path / "go-on")
    script = f"echo half > half.txt; {there.give}; {go_on.take}"
    trial = Trial.of(Project.create(tmp_path / "p"), stage("s", sh("a", script)), limits={"snapshot": "1h"})
    with start_runner(trial) as runner:
        there.wait()
        assert run_hook("PreCompact", trial.project.path, with_holdfast()) == (0, "")
        saved = trial.state().tasks["a"].latest.snapshot
        go_on.release()
        runner.communicate()
    assert trial.project.git("show", f"{saved}:half.txt") == "half"


@pytest.mark.parametrize("path", COMMANDS, ids=lambda path: path.stem)
def test_a_slash_command_has_a_description_and_its_own_tools(path: Path) -> None:
    """The menu shows what it does; it may run the commands that it names, and no others."""
    text = path.read_text()
    front, body = text.split("---\n", 2)[1:]
    assert re.search(r"^description: \S", front, re.M)
    allowed = set(re.findall(r"Bash\(holdfast (\w+):\*\)", front))
    assert set(re.findall(r"`holdfast (\w+)", body)) - {"resume", "list"} <= allowed


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_command_that_is_named_exists_with_its_flags(path: Path) -> None:
    """What the plugin tells an agent to type is what the program understands."""
    lines = re.findall(r"`(holdfast [^`]+)`", path.read_text())
    assert lines
    for line in lines:
        words = shlex.split(line.replace("$ARGUMENTS", "something"))[1:]
        parse(words)


def test_there_is_a_slash_command_for_each_way_to_steer() -> None:
    """Status, run, resume, pause and adopt, as the program calls them."""
    assert {path.stem for path in COMMANDS} == {"status", "run", "resume", "pause", "adopt"}
