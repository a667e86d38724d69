"""What every effect of one run needs: the repository, the fleet, the journal and the state, and how to record events.

The loop owns the state. An effect reads it and asks for changes by `record`; it never changes the state itself.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import msgspec

from holdfast.agents.presets import Presets, agent_providers
from holdfast.core.events import Event
from holdfast.core.projection import TaskRow
from holdfast.core.state import RunState
from holdfast.core.status import SandboxLevel
from holdfast.errors import LeaseLostError
from holdfast.fleet.protocol import Fleet, LaunchKey, new_secret, token_of
from holdfast.journal.lease import Lease
from holdfast.journal.protocol import Journal
from holdfast.paths import RunDir
from holdfast.redaction import redact
from holdfast.repo.repository import Repository
from holdfast.repo.workspaces import Workspaces
from holdfast.runner.attempts.reports import AttemptReports
from holdfast.runner.held_run import HeldRun
from holdfast.runner.requests import SaveRequests
from holdfast.runner.sandbox import Sandbox
from holdfast.runner.sandbox_setting import SandboxSetting
from holdfast.runner.task_workspaces import TaskWorkspaces
from holdfast.runner.verification.slots import CheckSlots
from holdfast.runner.workspace_variables import WorkspaceVariables

Observer = Callable[[Sequence[Event], RunState], None]
"""Sees events once they are durable, with the state that they led to. It must return at once."""
_Batch = tuple[Sequence[Event], "asyncio.Future[None] | None"]


_WORDS = frozenset(
    {
        "error",
        "detail",
        "summary",
        "words",
        "reason",
        "feedback",
        "blocked",
        "blocked_by",
        "activity",
        "question",
        "answer",
        "message",
    }
)
"""The fields of events that quote an agent, a tool, git or a person."""


def _without_secrets(event: Event) -> Event:
    """Return an event as it may be kept. Logs and reports are clean already; what git says, or a file's name, is not."""
    said = {name: getattr(event, name) for name in event.__struct_fields__ if name in _WORDS}
    clean = {name: redact(text) for name, text in said.items() if isinstance(text, str) and text}
    changed = {name: text for name, text in clean.items() if text != said[name]}
    return msgspec.structs.replace(event, **changed) if changed else event


class Inbox:
    """Events on their way to the loop. Each batch may have an effect that waits until the batch is durable."""

    def __init__(self) -> None:
        self._batches: list[_Batch] = []
        self.woken = asyncio.Event()

    def deliver(self, events: Sequence[Event]) -> None:
        """Give events to the loop and return at once."""
        if events:
            self._put(events, None)

    async def record(self, events: Sequence[Event]) -> None:
        """Give events to the loop; return once they are durable. Raises OvertakenError if one was refused."""
        durable: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._put(events, durable)
        await durable

    def take(self) -> list[_Batch]:
        """Return what has arrived since the last call."""
        batches, self._batches = self._batches, []
        return batches

    def _put(self, events: Sequence[Event], durable: asyncio.Future[None] | None) -> None:
        self._batches.append(([_without_secrets(event) for event in events], durable))
        self.woken.set()


@dataclass(slots=True)
class RunContext:
    """One runner at work on one run."""

    repo: Repository
    held: HeldRun
    fleet: Fleet
    lease: Lease
    state: RunState
    presets: Presets
    """The agents that this machine and this project know."""
    setting: SandboxSetting = field(default_factory=SandboxSetting)
    accepted_tip: str = ""
    """The tip at which the user takes the run branch as it is, whoever made its commits."""
    launches: bool = True
    """Whether anything may be started; otherwise the run is only brought to rest."""
    inbox: Inbox = field(default_factory=Inbox)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once a stop is durable: agents and checks end."""
    reports: AttemptReports = field(default_factory=AttemptReports)
    save_requests: SaveRequests = field(default_factory=SaveRequests)
    secrets: dict[str, str] = field(default_factory=dict)
    """The secrets of attempts that were not launched yet, by token; never stored."""
    ready_homes: set[Path] = field(default_factory=set)
    """Where an agent was seen to have made its home ready, by the file that is locked meanwhile."""
    home_turns: dict[Path, asyncio.Lock] = field(default_factory=dict)
    """Whose turn it is to be the first agent in a home."""
    outages_told: dict[str, float] = field(default_factory=dict)
    """Until when, by the wall clock, each provider is waited for whose outage this runner has told."""
    parsed: set[str] = field(default_factory=set)
    """The blobs in which no syntax error was found."""
    workspaces: TaskWorkspaces = field(init=False)
    variables: WorkspaceVariables = field(init=False)
    """The variables of each workspace, its ports among them."""
    slots: CheckSlots = field(init=False)
    clock: Callable[[], float] = field(init=False)
    """The run's own clock in seconds: it runs while the machine sleeps and stops without a runner."""
    _taken: dict[tuple[str, int], asyncio.Event] = field(default_factory=dict)
    _serial: count[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        clones = self.setting.level is not SandboxLevel.OFF
        setting = self.state.plan.workspace
        pool = Workspaces(self.repo, self.directory.workspaces, clones=clones, setting=setting)
        self.workspaces = TaskWorkspaces(pool, self.state)
        self.variables = WorkspaceVariables(pool, setting)
        self.slots = CheckSlots(self.repo.state_dir, self.state.plan.slots)
        began, offset = time.clock_gettime(time.CLOCK_BOOTTIME), self.state.row.clock
        self.clock = lambda: offset + time.clock_gettime(time.CLOCK_BOOTTIME) - began

    def take_amended_plan(self) -> None:
        """Bring what follows from the plan in line with it, after the state took another one."""
        self.state.providers = agent_providers(self.state.plan, self.presets)
        self.slots.set_counts(self.state.plan.slots)

    @property
    def journal(self) -> Journal:
        """Where the run's events are."""
        return self.held.journal

    @property
    def epoch(self) -> int:
        """The number of this take-over of the run."""
        return self.held.epoch

    @property
    def run(self) -> str:
        """The run's id."""
        return self.state.row.run

    @property
    def sandbox(self) -> Sandbox | None:
        """What keeps launches away from the rest of the machine; None if nothing does."""
        if self.setting.level is SandboxLevel.OFF:
            return None
        return Sandbox(
            self.repo, self.directory, self.setting, self.state.row.base, self.state.plan.network.allow
        )

    @property
    def linked(self) -> tuple[Path, ...]:
        """What every workspace has a link to, in the user's checkout."""
        return tuple(self.repo.checkout / path for path in self.state.plan.workspace.link)

    @property
    def directory(self) -> RunDir:
        """The run's folder below the state folder."""
        return self.repo.state_dir.run(self.run)

    def new_token(self) -> str:
        """Return the token of an attempt that is about to start. Its secret is known only to this runner."""
        secret = new_secret()
        self.secrets[token_of(secret)] = secret
        return token_of(secret)

    def agent_key(self, task: TaskRow) -> LaunchKey:
        """Return the key under which the agent of a task's present attempt runs."""
        return LaunchKey.of_agent(self.run, task)

    def check_key(self, owner: str, attempt: int, label: str) -> LaunchKey:
        """Return a key for one execution of a check, never used again: a repeated check gets a new key."""
        return LaunchKey(self.run, owner, attempt, f"{label}-{self.epoch}.{next(self._serial)}")

    def taken_by_person(self, task: TaskRow) -> asyncio.Event:
        """Return what is set once a person has taken the task during this attempt: its agent is to end then."""
        event = self._taken.setdefault((task.id, task.attempt), asyncio.Event())
        if task.taken is not None:
            event.set()
        return event

    async def require_lease(self) -> None:
        """Look at the lease right before an effect that another runner would suffer from.

        Raises LeaseLostError if somebody took it away: then this runner must have no further effect. If a store that has
        the lease does not answer, this waits: another runner may have it by now.
        """
        await self.held.confirm()
        if not self.lease.is_ours():
            if not self.directory.root.is_dir():
                raise LeaseLostError(
                    f"the folder of run {self.run} is gone: {self.repo.checkout} was moved or deleted",
                    f"`holdfast resume {self.run}`, where the repository is now, continues; agents live on until then",
                )
            raise LeaseLostError(f"the lease of run {self.run} was taken away", "Look at `holdfast status`.")

    async def record(self, events: Sequence[Event]) -> None:
        """Make events durable and return once they are. Raises OvertakenError if one may no longer happen."""
        await self.inbox.record(events)

    async def append(self, events: Sequence[Event]) -> None:
        """Write events applied to the state, with the rows they changed. Only the loop's side calls this."""
        await self.held.append(events, self.state.row, self.state.take_changed(), time.time())
