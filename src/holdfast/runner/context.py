"""Everything the effects of one run share: the doors to git, processes and the journal, and the run's own facts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from holdfast.agents.presets import Presets
from holdfast.core.events import Event
from holdfast.core.projection import TaskRow
from holdfast.core.state import RunState
from holdfast.fleet.protocol import AGENT_STEP, Fleet, LaunchKey
from holdfast.journal.lease import Lease
from holdfast.journal.protocol import Journal
from holdfast.paths import RunDir
from holdfast.repo.repository import Repository
from holdfast.repo.workspaces import Workspaces
from holdfast.runner.attempts.reports import AttemptReports
from holdfast.runner.attempts.stream_position import StreamListener
from holdfast.runner.requests import SaveRequests
from holdfast.runner.verification.slots import CheckSlots

LANDING_WORKSPACE = "landing"
GATE_WORKSPACE = "gate"


@dataclass(slots=True)
class RunContext:
    """What an effect needs to act. `record` makes events durable and returns once they are.

    Remembered for this runner's life alone: `intact`, attempts whose workspace nobody disturbed; `parsed`, contents
    without syntax errors; `captured`, what was committed of a workspace that nothing has written to since; `mirrored`,
    the native files below the checkout that we write ourselves; `ears`, what was heard of each attempt's stream.
    """

    repo: Repository
    workspaces: Workspaces
    fleet: Fleet
    journal: Journal
    lease: Lease
    state: RunState
    directory: RunDir
    epoch: int
    record: Callable[[Sequence[Event]], Awaitable[None]]
    clock: Callable[[], float]
    presets: Presets
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    gate_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    intact: set[tuple[str, int]] = field(default_factory=set)
    parsed: set[str] = field(default_factory=set)
    captured: dict[str, str] = field(default_factory=dict)
    mirrored: set[str] = field(default_factory=set)
    serial: count[int] = field(default_factory=count)
    reports: AttemptReports = field(default_factory=AttemptReports)
    ears: dict[tuple[str, int], StreamListener] = field(default_factory=dict)
    checkpoints: SaveRequests = field(default_factory=SaveRequests)
    slots: CheckSlots = field(init=False)

    def __post_init__(self) -> None:
        self.slots = CheckSlots(self.repo.state, self.state.plan.slots)

    @property
    def run(self) -> str:
        """The run's id."""
        return self.state.row.run

    def agent_key(self, task: TaskRow) -> LaunchKey:
        """Return the key under which the agent of a task's present attempt runs."""
        return LaunchKey(self.run, task.id, task.attempt, AGENT_STEP)

    def check_key(self, owner: str, attempt: int, label: str) -> LaunchKey:
        """Return a key for one execution of a check. It is never used again: checks cut short run anew."""
        return LaunchKey(self.run, owner, attempt, f"{label}-{self.epoch}.{next(self.serial)}")

    def slot_path(self, task: TaskRow) -> Path:
        """Return the workspace that a task's present attempt works in."""
        return self.workspaces.path(str(task.latest.workspace_number))
