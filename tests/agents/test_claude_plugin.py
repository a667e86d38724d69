"""The plugin of this repository in real Claude Code: checked, installed, and used by a scripted model that leads a run."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sysconfig
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.agents.conftest import installed
from tests.agents.real_agents import CLAUDE, CLAUDE_MODEL, claude_variables
from tests.scripted_model import Call, Conversation, Script, ScriptedModel
from tests.support.command import Cli
from tests.support.repositories import Project, write

ROOT = Path(__file__).parents[2]
PARTS = (".claude-plugin", ".mcp.json", "commands", "hooks", "skills")
TOOL = "mcp__plugin_holdfast_holdfast__"
SEARCH = Call(
    "ToolSearch", {"query": "holdfast open_run claim_task checkpoint complete_task", "max_results": 20}
)
"""Tools of MCP servers are not offered before they were searched for."""
PLAN = """\
holdfast: 1
goal: Two parts
tasks:
  - {id: one, prompt: "Write one.txt."}
  - {id: two, prompt: "Write two.txt.", needs: [one]}
"""


@dataclass(frozen=True, slots=True)
class PluginHome:
    """A home in which Claude Code has the plugin, and a project."""

    home: Path
    project: Project

    def command(self, *words: str) -> list[str]:
        """Return the command line of Claude Code."""
        return [str(CLAUDE.program), *words]

    def env(self, url: str = "http://127.0.0.1:9") -> dict[str, str]:
        """Return its environment: `holdfast` is on the PATH, and the model is at `url`."""
        path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])
        kept = {
            name: os.environ[name]
            for name in ("HOLDFAST_SANDBOX", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM")
        }
        # Otherwise a search for tools may come before the server, and a script does not search again.
        kept["CLAUDE_CODE_MCP_STARTUP_WAIT_MS"] = "120000"
        return {"HOME": str(self.home), "PATH": path, "IS_SANDBOX": "1", **kept, **claude_variables(url)}

    def run(self, *words: str, url: str = "http://127.0.0.1:9") -> str:
        """Run Claude Code to its end, which must be a good one, and return what it printed."""
        done = subprocess.run(
            self.command(*words),
            cwd=self.project.path,
            env=self.env(url),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def session(self, prompt: str) -> tuple[str, ...]:
        """Return the options of a session without a person."""
        fixed = ("-p", "--output-format", "stream-json", "--verbose", "--include-hook-events")
        return (*fixed, "--model", CLAUDE_MODEL, "--permission-mode", "bypassPermissions", prompt)


@pytest.fixture
def plugin(tmp_path: Path) -> PluginHome:
    """Claude Code with the plugin, installed from a folder as a user installs it from a clone."""
    installed(CLAUDE)
    pytest.importorskip("mcp")
    market = tmp_path / "market"
    for part in PARTS:
        copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
        market.mkdir(exist_ok=True)
        copy(ROOT / part, market / part)
    (tmp_path / "home").mkdir()
    made = PluginHome(tmp_path / "home", Project.create(tmp_path / "p"))
    made.run("plugin", "marketplace", "add", str(market))
    made.run("plugin", "install", "holdfast@holdfast")
    return made


def claimed(conversation: Conversation) -> dict[str, Any]:
    """Return the newest answer of claim_task. Claude Code may add a reminder below it."""
    newest = next(result for result in reversed(conversation.results) if '"workspace"' in result)
    return dict(json.JSONDecoder().raw_decode(newest)[0])


def lead(task: str, *between: Call) -> tuple[Call, ...]:
    """Return the calls by which a model takes a task and writes its file, and what comes `between` that and its end."""
    file = f"{task}.txt"
    return (
        Call(f"{TOOL}claim_task", {"task": task}),
        Call("Bash", lambda told: {"command": f"echo {task} > {claimed(told)['workspace']}/{file}"}),
        *between,
        Call(f"{TOOL}complete_task", lambda told: {"task": task, "token": claimed(told)["token"]}),
    )


@pytest.fixture
def reached() -> Iterator[tuple[threading.Event, threading.Event]]:
    """Two events: the model has come to a point, and it may go on."""
    there, go_on = threading.Event(), threading.Event()
    yield there, go_on
    go_on.set()


def test_the_plugin_passes_the_strict_validation(plugin: PluginHome) -> None:
    """Whoever offers it in a marketplace gets no warning."""
    assert "Validation passed" in plugin.run(
        "plugin", "validate", "--strict", str(plugin.home.parent / "market")
    )


def test_a_slash_command_and_the_hooks_of_the_plugin_run(plugin: PluginHome) -> None:
    """`/holdfast:status` gives the model what the command prints; at the end of the session work is saved."""
    with ScriptedModel({}) as model:
        said = plugin.run(*plugin.session("/holdfast:status"), url=model.url())
        prompt = json.loads(model.requests[0].body)["messages"]
    events = [json.loads(line) for line in said.splitlines()]
    hooks = [(one["hook_event"], one["exit_code"]) for one in events if one.get("subtype") == "hook_response"]
    assert "Tell the user in a few sentences where the run stands" in json.dumps(prompt)
    assert ("Stop", 0) in hooks


def test_a_led_run_survives_its_leader(
    plugin: PluginHome, reached: tuple[threading.Event, threading.Event]
) -> None:
    """Kill -9 in the middle of a task; the next session opens the run, and finishes both tasks with the work so far."""
    write(plugin.project.path / "plan.yaml", PLAN)
    there, go_on = reached

    def wait(told: Conversation) -> dict[str, Any]:
        there.set()
        go_on.wait()
        return {"task": "one", "token": claimed(told)["token"]}

    half = Call(
        f"{TOOL}checkpoint", lambda told: {"task": "one", "token": claimed(told)["token"], "progress": 50}
    )
    opened = Call(f"{TOOL}open_run", {"plan_file": "plan.yaml", "jobs": 1})
    first = (SEARCH, opened, *lead("one", half, Call(f"{TOOL}heartbeat", wait)))
    second = (SEARCH, Call(f"{TOOL}open_run", {"jobs": 1}), *lead("one"), *lead("two"))
    scripts: Callable[[str], Script] = lambda prompt: Script(second if "Go on" in prompt else first)  # noqa: E731
    log = plugin.home / "killed.jsonl"
    with ScriptedModel(scripts) as model, log.open("wb") as output:
        killed = subprocess.Popen(
            plugin.command(*plugin.session("Lead the plan.")),
            cwd=plugin.project.path,
            env=plugin.env(model.url()),
            stdin=subprocess.DEVNULL,
            stdout=output,
            start_new_session=True,
        )
        assert there.wait(120), log.read_text()
        os.killpg(killed.pid, signal.SIGKILL)
        killed.wait()
        go_on.set()
        said = plugin.run(*plugin.session("Go on with the run."), url=model.url())
    assert Cli(plugin.project.path).json("status")["run"]["status"] == "completed", said
    tip = "holdfast/01-two-parts"
    assert [plugin.project.git("show", f"{tip}:{name}.txt") for name in ("one", "two")] == ["one", "two"]
    assert "50 %" in said
