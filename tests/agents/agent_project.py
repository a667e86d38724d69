"""A project, a plan and a scripted model on which real agents work for the real `holdfast` command."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from holdfast import locks
from holdfast.core.facts import Exit
from holdfast.core.plan import AgentSpec
from holdfast.paths import StateDir
from holdfast.process import procfs
from tests.agents.real_agents import RealAgent
from tests.agents.recordings import preset_of
from tests.scripted_model import Script, ScriptedModel, Shell, Write
from tests.support.command import Cli, eventually
from tests.support.preloaded_command import ForkedProcess
from tests.support.repositories import write
from tests.support.runs import Fifo

RUN = "01-try-it"
PATIENCE_S = 240.0
"""How long a run of several real agents may take on a machine that does other things too."""


@dataclass(slots=True)
class AgentProject:
    """One test's model and project. `runners` are all that were started."""

    place: Path
    model: ScriptedModel
    runners: list[ForkedProcess] = field(default_factory=list)

    @property
    def cli(self) -> Cli:
        """The command in the project."""
        return Cli(self.place / "p")

    def plan(self, agent: RealAgent, *tasks: dict[str, Any], shell: str = "", **plan: Any) -> Cli:
        """Make the project with a plan for this agent, known by its preset and started as the tests start it.

        An agent without tools runs `shell` after its work. It is described in the user's own file, which can say how a
        session is resumed.
        """
        spec = agent.spec(self.model.url(), self.place / "home")
        spec = agent.running(spec, shell) if shell else spec
        return self.plan_with(agent, spec, *tasks, **plan)

    def plan_with(self, agent: RealAgent, spec: AgentSpec, *tasks: dict[str, Any], **plan: Any) -> Cli:
        """Make the project with a plan for an agent that is started in this way."""
        table = {"preset": preset_of(agent.name), "command": spec.command, "prompt": spec.prompt}
        if agent.resume:
            table["resume"] = agent.resuming(spec, "{session}").command
        lines = [f"{key} = {json.dumps(value)}" for key, value in table.items()]
        env = {**spec.env, **agent.hasty}
        lines += ["[it.env]", *(f"{key} = {json.dumps(value)}" for key, value in env.items())]
        limits = {"limit_wait": 1, **plan.pop("limits", {})}
        cli = Cli.of(self.place / "p", *tasks, agent="it", limits=limits, **plan)
        write(cli.here / ".holdfast" / "agents.toml", "\n".join(["[it]", *lines, ""]))
        return cli

    def start(self, *args: str, **env: str) -> ForkedProcess:
        """Start the runner: `run` unless told otherwise."""
        runner = self.cli.start(*(args or ("run", "--yes")), **env)
        self.runners.append(runner)
        return runner

    def execute(self, *args: str, **env: str) -> int:
        """Start a runner and return its exit code."""
        return self.start(*args, **env).wait(PATIENCE_S)

    def attempts(self, task: str = "a") -> list[tuple[str, str]]:
        """Return how each attempt at a task ended: its outcome and what was wrong with it."""
        (found,) = self.cli.json("inspect", "1", task)["tasks"]
        return [
            (one["outcome"], ", ".join(error["failure"] for error in one["errors"]))
            for one in found["attempts"]
        ]

    def sessions(self, task: str = "a") -> list[str]:
        """Return the session of each attempt at a task."""
        (found,) = self.cli.json("inspect", "1", task)["tasks"]
        return [one["session"] for one in found["attempts"]]

    def show(self, path: str) -> str:
        """Return a file of the run branch."""
        return self.cli.project.git("show", f"holdfast/{RUN}:{path}")

    def files(self) -> str:
        """Return the names of all files of the run branch."""
        return self.cli.project.git("ls-tree", "-r", "--name-only", f"holdfast/{RUN}")

    def log(self, task: str) -> str:
        """Return the bytes that the newest attempt at a task printed."""
        return self.cli("logs", RUN, task, "--raw").out

    def exit_of(self, task: str, attempt: int = 1) -> Exit:
        """Return how the agent of an attempt ended."""
        return msgspec.json.decode(
            (self._attempts / task / str(attempt) / "agent" / "exit.json").read_bytes(), type=Exit
        )

    def supervisor_pid(self) -> int:
        """Return the one supervisor that is alive."""
        holders = [locks.record_lock_holder(str(record)) for record in self._records()]
        return next(pid for pid in holders if pid is not None)

    def agent_pid(self) -> int:
        """Return the process that the one live supervisor started."""
        supervisor = self.supervisor_pid()
        entries = [procfs.stat(pid) for pid in self.survivors()]
        return next(entry.pid for entry in entries if entry is not None and entry.ppid == supervisor)

    def _records(self) -> Iterator[Path]:
        """Yield the record of every supervisor that the run ever had."""
        return self._attempts.glob("*/*/*/supervisor.json")

    @property
    def _attempts(self) -> Path:
        return StateDir.of_checkout(self.place / "p").run(RUN).attempts

    def survivors(self) -> list[int]:
        """Return every live process that carries the token of an attempt of this run."""
        tokens = {msgspec.json.decode(record.read_bytes())["token"] for record in self._records()}
        carriers = [pid for pid in procfs.pids() if procfs.token(pid) in tokens]
        return [pid for pid in carriers if (entry := procfs.stat(pid)) is not None and entry.alive]

    def nothing_lives(self) -> None:
        """Wait until no process of the run is left, or fail with those that are."""
        eventually(lambda: not self.survivors(), "the last process of the run ends")


def task(name: str, *needs: str, **more: Any) -> dict[str, Any]:
    """Return a task for an agent."""
    return {
        "id": name,
        "title": f"Part {name}",
        "prompt": f"Write part {name}.",
        "needs": list(needs),
        **more,
    }


def stray_of(tool: Fifo) -> str:
    """Return a command that runs for ever, with a child in a session of its own that reports."""
    return f"echo begun > begun.txt; setsid sh -c '{tool.give}; exec sleep 600' & sleep 600"


def busy(build: BuildProject, agent: RealAgent, tool: Fifo, **more: object) -> AgentProject:
    """Start a run whose agent gets such a command to run; one without tools does so after an edit."""
    action = Write("one.txt", "one\n") if agent.shell else Shell(stray_of(tool))
    stage = build({"a": Script((action,))})
    stage.plan(agent, task("a", **more), shell=stray_of(tool), limits={"attempts": 1})
    stage.start()
    return stage


def at_work(build: BuildProject, agent: RealAgent, tool: Fifo) -> AgentProject:
    """Start such a run and wait until the child of the command runs."""
    stage = busy(build, agent, tool)
    stage.model.wait_for("a")
    tool.wait(PATIENCE_S)
    return stage


BuildProject = Callable[[dict[str, Script]], AgentProject]
"""What the fixture `stage` is: it makes a project whose model plays these scripts."""
