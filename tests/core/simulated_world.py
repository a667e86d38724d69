"""The simulated world around the core: a repository, a machine with agents, and a journal on disk.

Each does what the real thing promises and no more. Nothing here knows how a run is driven.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast.core import events as ev
from holdfast.core.facts import BranchFacts, Landing, Presence
from holdfast.core.invariants import LiveAttempt
from holdfast.core.plan import Plan
from holdfast.core.projection import RunRow, TaskRow, decode_run_row, decode_task_row, encode_row
from holdfast.core.state import RunState

AttemptKey = tuple[str, int]


class SimulatedRepository:
    """The run branch as its first-parent line, and every commit that was ever made."""

    def __init__(self, base: str) -> None:
        self.line = [base]
        self.lost: list[str] = []
        self._parents: dict[str, str] = {}
        self._landings: dict[str, Landing] = {}

    @property
    def tip(self) -> str:
        """The commit that the run branch points at."""
        return self.line[-1]

    def commit(self, parent: str) -> str:
        """Make a commit that no branch points at yet."""
        name = f"c{len(self._parents) + 1}"
        self._parents[name] = parent
        return name

    def merge(self, onto: str, task: str, attempt: int, head: str) -> str:
        """Make a merge with our trailers that no branch points at yet."""
        commit = self.commit(onto)
        self._landings[commit] = Landing(task=task, attempt=attempt, commit=commit, head=head, tree=commit)
        return commit

    def swap(self, old: str, new: str) -> bool:
        """Move the run branch to `new` if it is at `old`; tell whether it was."""
        if self.tip != old:
            return False
        self.move(new)
        return True

    def move(self, new: str) -> None:
        """Move the run branch, whatever it pointed at. What falls off its line is remembered as lost."""
        chain = [new]
        while (parent := self._parents[chain[-1]]) not in self.line:
            chain.append(parent)
        cut = self.line.index(parent) + 1
        self.lost += self.line[cut:]
        self.line[cut:] = reversed(chain)

    def commit_by_somebody(self) -> None:
        """A commit that is not ours appears on the run branch."""
        self.line.append(self.commit(self.tip))

    def rewind_by_somebody(self) -> None:
        """The user takes the last commit off the run branch; that it is gone is nobody's fault."""
        if len(self.line) > 1:
            self.line.pop()

    def facts(self) -> BranchFacts:
        """Return what the repository shows."""
        landings = tuple(self._landings[commit] for commit in self.line if commit in self._landings)
        return BranchFacts(tip=self.tip, landings=landings)


@dataclass
class SimulatedAgent:
    """One launched process: when it ends by itself, and what cut it short."""

    token: str
    ends_at: float
    ends_well: bool
    tokens: int = 0
    killed: bool = False
    cancelled: bool = False
    record_lost: bool = False


@dataclass
class SimulatedMachine:
    """Every agent that was ever launched, by task and attempt. Agents outlive the runner.

    `now` goes on steadily, as monotonic clocks do; `skew` is how far the wall clock is off.
    """

    now: float = 0.0
    skew: float = 0.0
    agents: dict[AttemptKey, SimulatedAgent] = field(default_factory=dict)

    @property
    def wall(self) -> float:
        """The time of day, as far as this machine knows it."""
        return 1e9 + self.now + self.skew

    def launch(self, key: AttemptKey, agent: SimulatedAgent) -> None:
        """Start an agent; if the key was launched before, nothing starts anew."""
        self.agents.setdefault(key, agent)

    def inspect(self, key: AttemptKey) -> Presence:
        """Return what has become of a launch."""
        agent = self.agents.get(key)
        if agent is None:
            return Presence.UNKNOWN
        if agent.killed or (agent.record_lost and self.now >= agent.ends_at):
            return Presence.LOST
        ended = agent.cancelled or self.now >= agent.ends_at
        return Presence.ENDED if ended else Presence.ALIVE

    def live(self) -> tuple[LiveAttempt, ...]:
        """Return the agents that live."""
        return tuple(LiveAttempt(*key) for key in self.agents if self.inspect(key) is Presence.ALIVE)

    def cancel(self, key: AttemptKey) -> None:
        """Stop an agent; if it ended before, nothing happens."""
        if self.inspect(key) is Presence.ALIVE:
            self.agents[key].cancelled = True

    def lose_power(self) -> None:
        """Every agent dies without a record of it."""
        for key, agent in self.agents.items():
            agent.killed = agent.killed or self.inspect(key) is Presence.ALIVE


class SimulatedDisk:
    """The journal: events and the rows they add up to. An append is there as a whole or not at all."""

    def __init__(self, plan: Plan, first: ev.RunStarted, row: RunRow) -> None:
        self.plan = plan
        self.events: list[ev.Event] = [first]
        self.prepared: set[str] = set()
        self.skipped: set[str] = set()
        self._row = encode_row(row)
        self._tasks: dict[str, bytes] = {}

    def append(self, events: list[ev.Event], state: RunState) -> None:
        """Make events and the rows that they changed durable."""
        self.events += events
        self.prepared |= {event.commit for event in events if isinstance(event, ev.MergePrepared)}
        self.skipped |= {event.task for event in events if isinstance(event, ev.TaskSkipped)}
        self._row = encode_row(state.row)
        self._tasks.update((row.id, encode_row(row)) for row in state.take_changed())

    def rows(self) -> tuple[RunRow, list[TaskRow]]:
        """Return the stored rows."""
        return decode_run_row(self._row), [decode_task_row(row) for row in self._tasks.values()]

    def load(self) -> RunState:
        """Return the run as it was last written."""
        return RunState(self.plan, *self.rows())
