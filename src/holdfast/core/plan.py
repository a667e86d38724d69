"""The plan: the immutable input of a run, normalised, and the order that its needs impose.

Plan files are read in `plans/`, which yields these types. What must hold between the parts is in `plan_rules.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

import msgspec

from holdfast.core.status import NetworkAccess, SandboxLevel
from holdfast.core.stored_names import Id, OptionalId
from holdfast.escapes import without_controls

PromptMode = Literal["file", "stdin", "arg"]
OnLimit = Literal["wait", "stop"]
ResumeMode = Literal["continue", "clean"]
"""Where the attempt after one that was cut short begins: at its half-done work, or where that one began."""
Occasion = Literal[
    "finished", "needs_decision", "waiting_limit", "outage", "question", "task_abandoned", "task_failed"
]
"""What a notification may be about."""
STREAMS = (
    "raw",
    "claude",
    "codex",
    "gemini",
    "goose",
    "opencode",
    "qwen",
    "aider",
    "copilot",
    "vibe",
    "mini-swe-agent",
    "acp",
    "cline",
    "droid",
    "pi",
    "openhands",
)
"""The event streams that have a reader; `raw` is plain output."""
PORTS_MAX = 20
"""The most ports that a plan may want for each workspace."""
PLACEHOLDERS = ("brief", "workspace", "task", "attempt", "run")
"""The placeholders of an agent's command, written as `{brief}`."""


class ListKind(StrEnum):
    """The task lists that can be imported, by the names that `plan import --from` takes."""

    SPEC_KIT = "spec-kit"
    TASK_MASTER = "task-master"
    BACKLOG = "backlog"
    CHECKLIST = "checklist"


class AgentSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An agent of the plan's own: an argv template, never a shell line, or a preset with changes.

    Omitted fields come from the preset. Without a preset the brief is a file and the output plain.
    """

    command: tuple[str, ...] = ()
    preset: str = ""
    prompt: PromptMode | None = None
    stream: str = ""
    model: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    fallback: str = ""
    native_resume: bool | None = None
    resume: ResumeMode | None = None
    closing_line: bool | None = None
    pass_env: tuple[str, ...] = ()


class Limits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Bounds of a run. Times are seconds; a plan file writes them as `60m`. The last three are for each launch; memory is bytes."""

    jobs: int = 4
    attempts: int = 5
    timeout_s: float = 3600.0
    stall_s: float = 600.0
    check_timeout_s: float = 1800.0
    retry_delay_s: float = 1.0
    restart_below: float = 10.0
    snapshot_s: float = 30.0
    cost_usd: float | None = None
    tokens: int | None = None
    attempt_cost_usd: float | None = None
    attempt_tokens: int | None = None
    on_limit: OnLimit = "wait"
    limit_wait_s: float = 60.0
    limit_patience_s: float = 120.0
    keep_going: bool = False
    pids: int = 4096
    memory: int | None = None
    cpus: float | None = None


class Validator(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Judges the work of a task with a score from 0 to 1: an agent with a prompt, or a command."""

    id: Id
    prompt: str = ""
    run: tuple[str, ...] = ()
    agent: str = ""


class Notify(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who gets notifications of a run, and on which occasions; without `on`, on the usual ones."""

    command: tuple[str, ...] = ()
    webhook: str = ""
    on: tuple[Occasion, ...] = ()


class TaskList(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The list that a plan was made from: a file or folder of the project. `tag` names one of the lists in it.

    With `tick`, a task that lands ticks its points there.
    """

    path: str
    kind: ListKind
    tag: str = ""
    tick: bool = False


class Task(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One workspace, one merge. Either `prompt` (an agent works on it) or `run` (a command does)."""

    id: Id
    title: str = ""
    prompt: str = ""
    run: tuple[str, ...] = ()
    agent: str = ""
    resume: ResumeMode | None = None
    needs: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    needs_interface: tuple[str, ...] = ()
    verify: tuple[str, ...] = ()
    slot: OptionalId = ""
    validators: tuple[Validator, ...] = ()
    gate: float = 0.8
    acceptance: tuple[str, ...] = ()
    points: tuple[str, ...] = ()
    allow_empty: bool = False
    attempts: int | None = None
    timeout_s: float | None = None
    stall_s: float | None = None
    cost_usd: float | None = None
    tokens: int | None = None

    @property
    def headline(self) -> str:
        """Its id and its title in one line, for the subject of a commit."""
        title = without_controls(" ".join(self.title.split()))
        return f"{self.id}: {title}" if title else self.id


class Stage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An ordered group of tasks with checks before it opens and before it closes."""

    id: Id
    title: str = ""
    needs: tuple[str, ...] = ()
    entry: tuple[str, ...] = ()
    exit: tuple[str, ...] = ()
    tasks: tuple[Task, ...] = ()

    def batches(self) -> Iterator[tuple[Task, ...]]:
        """Yield the tasks that may run side by side: what each needs is in an earlier batch or an earlier stage.

        The needs have no cycle.
        """
        # Imported here because `status` reads plans and never sorts them.
        from graphlib import TopologicalSorter

        places = {task.id: place for place, task in enumerate(self.tasks)}
        order = TopologicalSorter({task.id: places.keys() & set(task.needs) for task in self.tasks})
        order.prepare()
        while ready := order.get_ready():
            yield tuple(self.tasks[place] for place in sorted(places[name] for name in ready))
            order.done(*ready)


class PlanNetwork(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The most that agents and checks of a plan reach, and the hosts that it adds to the allow-list."""

    access: NetworkAccess = NetworkAccess.ON
    allow: tuple[str, ...] = ()


class PlanWorkspace(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What makes a workspace ready to work in. Paths are relative to the repository; none of them ever lands.

    `setup` commands run before the first agent in a workspace, and again when they or a `setup_when` file changed.
    """

    setup: tuple[str, ...] = ()
    setup_when: tuple[str, ...] = ()
    copy: tuple[str, ...] = ()
    link: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    env: dict[str, str] = {}
    ports: int = 0

    @property
    def brought(self) -> tuple[str, ...]:
        """The paths that are in a workspace besides what its commit holds."""
        return (*self.copy, *self.link, *self.keep)


class Plan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A whole plan. `stages[i].needs` is filled in: the default is the stage before.

    `sandbox` is the least that the run gets, and `network` the most; the user's own settings may be stricter.
    """

    goal: str
    base: str = "HEAD"
    agent: str = ""
    agents: dict[str, AgentSpec] = {}
    limits: Limits = Limits()
    slots: dict[Id, int] = {}
    notify: Notify = Notify()
    syntax: bool = True
    sandbox: SandboxLevel = SandboxLevel.OFF
    network: PlanNetwork = PlanNetwork()
    pass_env: tuple[str, ...] = ()
    workspace: PlanWorkspace = PlanWorkspace()
    verify: tuple[str, ...] = ()
    task_list: TaskList | None = None
    stages: tuple[Stage, ...] = ()

    def tasks(self) -> Iterator[tuple[Stage, Task]]:
        """Yield every task with its stage, in plan order."""
        for stage in self.stages:
            for task in stage.tasks:
                yield stage, task

    def resume_mode(self, task: Task, agent: str = "") -> ResumeMode:
        """Return where an attempt at `task` begins after one by `agent` that was cut short.

        The task's word stands above its agent's. By default agents continue. A command cannot know what it had
        done before: it starts clean.
        """
        if task.resume is not None or task.run:
            return task.resume or "clean"
        named = self.agents.get(agent or task.agent or self.agent)
        return (named.resume if named is not None else None) or "continue"

    def ticked_list(self, wanted: bool | None) -> TaskList | None:
        """Return the list that landed tasks are ticked in, if they are: as the user wants it, else as the plan says."""
        if self.task_list is None or wanted is False:
            return None
        return self.task_list if wanted or self.task_list.tick else None

    def agent_of(self, who: Task | Validator) -> str:
        """Return the agent that works on a task, or as a validator; empty for a command."""
        return "" if who.run else who.agent or self.agent

    def agents_named(self) -> list[str]:
        """Return the agents that work on tasks or validate them, each once, in plan order."""
        workers: list[Task | Validator] = []
        for _, task in self.tasks():
            workers += [task, *task.validators]
        return list(dict.fromkeys(self.agent_of(who) for who in workers if not who.run))


def encode_plan(plan: Plan) -> bytes:
    """Return the canonical JSON of a plan: equal plans give equal bytes."""
    return msgspec.json.encode(plan, order="deterministic")


def decode_plan(data: bytes) -> Plan:
    """Return the plan that `encode_plan` wrote."""
    return msgspec.json.decode(data, type=Plan)


def plan_hash(plan: Plan) -> str:
    """Return the digest that a user confirms and a run records: equal plans, equal digests."""
    # Imported here because it loads OpenSSL, which would slow down every command.
    import hashlib

    # As a journal gives it back: a default that the author wrote out is left out only there.
    return hashlib.sha256(encode_plan(decode_plan(encode_plan(plan)))).hexdigest()


def find_cycle(edges: Mapping[str, Iterable[str]]) -> list[str]:
    """Return one cycle as the path that closes it (`[a, b, a]`), or an empty list."""
    # Imported here because `status` reads plans and never checks them.
    from graphlib import CycleError, TopologicalSorter

    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []


@dataclass(frozen=True, slots=True)
class AgentProvider:
    """One agent of the run. Agents of one provider share its limits; `fallback` works where they are parked.

    `resumable`: it can resume a session of its own. `native`: it should, if possible. `closing_line`: it must end its last
    message with one.
    """

    provider: str
    fallback: str = ""
    resumable: bool = False
    native: bool = False
    closing_line: bool = False
