"""W8: real Codex agents in parallel, with a model as slow as a real one.

How much does Holdfast itself use?
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from msgspec.structs import replace
from tests.agents.real_agents import CODEX
from tests.scripted_model import Script, ScriptedModel, Shell, Write

from bench.measurement import Figure, scratch
from bench.project import Project, run_git
from holdfast.core.plan import AgentSpec
from holdfast.fleet.protocol import SHOW_VARIABLE
from holdfast.process import procfs

THINK_S = 3.5
"""The delay before each answer. The larger, the better Holdfast looks; hosted models take 2 to 20 s."""
_AGENTS = 8
_ANSWERS = 10
_SAMPLE_S = 0.2
_ORPHANS_S = 5.0
_STOPWATCH = (sys.executable, "-I", "-S", str(Path(__file__).with_name("stopwatch.py")))
_NOTE = "processor-time-"
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_SUPERVISOR = "hf-supervisor"


@dataclass(slots=True)
class ProcessUsage:
    """Memory (peak proportional set size) and processor time of a runner and of all processes below it."""

    runner: int
    own_mb: float = 0.0
    agents_mb: float = 0.0
    supervisors: int = 0
    runner_cpu_s: float = 0.0
    _supervisor_cpu_s: dict[int, float] = field(default_factory=dict)
    _seen: dict[int, int] = field(default_factory=dict)

    def sample(self) -> None:
        """Take one sample. A process that ends meanwhile is left out."""
        below = procfs.descendants(self.runner)
        supervisors = {pid for pid in below if _read(pid, "comm").strip() == _SUPERVISOR}
        agents = _descendants({pid: entry.ppid for pid, entry in below.items()}, supervisors)
        self.own_mb = max(self.own_mb, _pss_mb({self.runner, *self._distinct(below)} - agents))
        self.agents_mb = max(self.agents_mb, _pss_mb(agents))
        self.supervisors = max(self.supervisors, len(supervisors))
        self.runner_cpu_s = max(self.runner_cpu_s, _cpu_s(self.runner))
        for pid in supervisors:
            self._supervisor_cpu_s[pid] = max(_thread_cpu_s(pid), self._supervisor_cpu_s.get(pid, 0.0))
        self._seen |= {pid: entry.started for pid, entry in below.items()}

    def _distinct(self, pids: Iterable[int]) -> list[int]:
        """Leave out children of the runner before their exec: the runner's memory would count twice."""
        runner = _read(self.runner, "cmdline")
        return [pid for pid in pids if _read(pid, "cmdline") != runner]

    @property
    def supervisors_cpu_s(self) -> float:
        """The processor time of all supervisors, each up to the last sample."""
        return sum(self._supervisor_cpu_s.values())

    def survivors(self) -> list[int]:
        """Return the processes that were ever seen and still live."""
        entries = [entry for entry in map(procfs.stat, self._seen) if entry is not None]
        return [entry.pid for entry in entries if entry.alive and entry.started == self._seen[entry.pid]]


def _descendants(parents: Mapping[int, int], roots: set[int]) -> set[int]:
    """Return all processes below some others."""
    found: set[int] = set()
    while more := {pid for pid, parent in parents.items() if parent in roots | found} - found:
        found |= more
    return found


def _pss_mb(pids: Iterable[int]) -> float:
    sizes = (re.search(r"^Pss:\s+(\d+) kB", _read(pid, "smaps_rollup"), re.MULTILINE) for pid in pids)
    return sum(int(size[1]) for size in sizes if size) / 1024


def _cpu_s(pid: int) -> float:
    """Return the processor time of a process, in steps of 10 ms."""
    fields = _read(pid, "stat").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * _TICK_S if fields else 0.0


def _thread_cpu_s(pid: int) -> float:
    """Return the processor time of a process with one thread, exactly."""
    return int((_read(pid, "schedstat").split() or ["0"])[0]) / 1e9


def _read(pid: int, what: str) -> str:
    try:
        return Path(f"/proc/{pid}/{what}").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""


@dataclass(frozen=True, slots=True)
class _Taken:
    """What one run used. `cpu_s`: the runner and all processes below it; `agents_cpu_s`: the agents alone."""

    wall_s: float
    cpu_s: float
    agents_cpu_s: float
    watching_cpu_s: float
    usage: ProcessUsage
    orphans: int

    @property
    def own_cpu_s(self) -> float:
        """The processor time of runner, fork server, supervisors and git."""
        return self.cpu_s - self.agents_cpu_s - self.watching_cpu_s


def missing() -> str:
    """Return why this cannot be measured here, or an empty string."""
    return f"{CODEX.missing}; `make test` installs it" if CODEX.missing else ""


def measure(*, quick: bool) -> list[Figure]:
    """Run the plan once: three tasks for each agent, one after the other."""
    tasks, think_s = (_AGENTS, 0.2) if quick else (3 * _AGENTS, THINK_S)
    scripts = {f"t{number}": _script(f"part-{number}", think_s) for number in range(tasks)}
    with scratch() as folder, ScriptedModel(scripts) as model:
        project = Project(folder / "repo")
        project.call("list")  # compiles what the commands need
        project.plan.write_bytes(_plan(CODEX.spec(model.url(), folder / "home"), tasks))
        taken = _run(project, tasks)
        completed, answers = project.completed(), len(model.requests)
    assert (completed, answers) == (tasks, tasks * _ANSWERS), f"{completed} tasks, {answers} answers"
    return _figures(taken, tasks, f"{_ANSWERS} answers per task, each after {think_s:g} s of thinking")


def _script(name: str, think_s: float) -> Script:
    """List files, then write some and read them again, like an agent."""
    actions: list[Shell | Write] = [Shell("ls")]
    for number in range((_ANSWERS - 2) // 2):
        path = f"{name}/{number}.txt"
        actions += [Write(path, f"{path}\n" * 20), Shell(f"cat {path}")]
    return Script(tuple(actions), think_s=think_s)


def _plan(agent: AgentSpec, tasks: int) -> bytes:
    """Return a plan of independent tasks, whose agents run under a stopwatch."""
    # Its own home is in the usual place: another one would have to exist in a sandbox, too.
    env = {name: value for name, value in agent.env.items() if name != "CODEX_HOME"}
    watched = replace(
        agent, env=env, command=(*_STOPWATCH, f"{_NOTE}{{task}}", *agent.command), stream="codex"
    )
    plan = {
        "holdfast": 1,
        "goal": "Work beside agents",
        "agent": "codex",
        "agents": {"codex": watched},
        "limits": {"jobs": _AGENTS},
        "tasks": [{"id": f"t{number}", "prompt": f"Write part {number}."} for number in range(tasks)],
    }
    return msgspec.json.encode(plan)


def _run(project: Project, tasks: int) -> _Taken:
    began = time.perf_counter()
    os.environ[SHOW_VARIABLE] = f"{_STOPWATCH[-1]}:{CODEX.program.parent}"  # a sandbox would hide both
    runner = project.start("run", str(project.plan), "--yes")
    usage = ProcessUsage(runner.pid)
    while not (ended := os.wait4(runner.pid, os.WNOHANG))[0]:
        usage.sample()
        time.sleep(_SAMPLE_S)
    wall_s, resources = time.perf_counter() - began, ended[2]
    runner.returncode = os.waitstatus_to_exitcode(ended[1])
    assert runner.returncode == 0, f"holdfast run ended with {runner.returncode}"
    agents, watching = zip(*(_noted(project, f"t{number}") for number in range(tasks)), strict=True)
    time.sleep(_ORPHANS_S)
    return _Taken(
        wall_s=wall_s,
        cpu_s=resources.ru_utime + resources.ru_stime,
        agents_cpu_s=sum(agents),
        watching_cpu_s=sum(watching),
        usage=usage,
        orphans=len({*usage.survivors(), *_token_holders(project)}),
    )


def _noted(project: Project, task: str) -> tuple[float, float]:
    """Return the processor time of a task's agent and of its stopwatch, as landed with its work."""
    branch = project.reader().runs()[-1].row.branch
    agent, watching = run_git(project.checkout, "show", f"{branch}:{_NOTE}{task}").split()
    return float(agent), float(watching)


def _token_holders(project: Project) -> list[int]:
    """Return every live process that carries the token of an attempt, seen before or not."""
    records = project.state.root.glob("runs/*/attempts/*/*/*/supervisor.json")
    tokens = {msgspec.json.decode(record.read_bytes())["token"] for record in records}
    return [pid for pid in procfs.pids() if procfs.token(pid) in tokens]


def _figures(taken: _Taken, tasks: int, note: str) -> list[Figure]:
    own, usage = taken.own_cpu_s, taken.usage
    git = own - usage.runner_cpu_s - usage.supervisors_cpu_s
    return [
        _figure(f"{tasks} tasks, {_AGENTS} Codex agents at a time", taken.wall_s, "s", note=note),
        _figure("agents, CPU", taken.agents_cpu_s, "s"),
        _figure("Holdfast, CPU", own, "s"),
        _figure("Holdfast, CPU / wall time of the run", own / taken.wall_s * 100, "%", 3),
        _figure("Holdfast, CPU / agents' CPU", own / taken.agents_cpu_s * 100, "%"),
        _figure("runner, CPU", usage.runner_cpu_s / tasks * 1000, "ms/task"),
        _figure("supervisors, CPU", usage.supervisors_cpu_s / tasks * 1000, "ms/task"),
        _figure("git and fork server, CPU", git / tasks * 1000, "ms/task"),
        _figure("agents, peak memory", usage.agents_mb, "MB", note="PSS"),
        _figure(
            "Holdfast, peak memory",
            usage.own_mb,
            "MB",
            60,
            note=f"PSS, with {usage.supervisors} supervisors",
        ),
        _figure(f"processes left {_ORPHANS_S:g} s after the end", taken.orphans, "", 0),
    ]


def _figure(name: str, value: float, unit: str, bound: float | None = None, note: str = "") -> Figure:
    return Figure("W8", name, value, unit, bound=bound, sense="<=", note=note)
