"""The simulated machine: its clocks, and the agents and commands that run on it, each with a fate of its own.

It does what a machine promises and no more. Agents outlive the runner, but no power cut.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast.core.facts import Presence
from holdfast.core.invariants import LiveAttempt
from holdfast.core.status import FailureKind
from tests.core.simulation.repository import NO_WORK, TORN_WORK, SimulatedWork

AttemptKey = tuple[str, int]
_WALL_AT_START = 1e9
_NEVER = float("inf")


@dataclass(slots=True)
class SimulatedAgent:
    """One launched process: when it ends by itself and how, what it works on, and what cut it short."""

    token: str
    fate: str
    began_at: float
    ends_at: float
    found: SimulatedWork = NO_WORK
    is_command: bool = False
    tokens: int = 0
    failure: FailureKind = FailureKind.AGENT
    resets_in: float | None = None
    talks: bool = False
    """Whether it reports in the middle of its work."""
    collected: str = ""
    """The commit of its finished work, once there is one."""
    stopped_at: float = _NEVER
    killed: bool = False
    cancelled: bool = False
    record_lost: bool = False
    kept: SimulatedWork | None = None
    """What a power cut left of its work, if one came."""

    def work(self, now: float) -> SimulatedWork:
        """Return what is in its workspace: the first half from the middle of its time on, the second at a good end."""
        if self.kept is not None:
            return self.kept
        first, second = self.found
        at = min(now, self.stopped_at)
        if self.fate != "idle" and at >= (self.began_at + self.ends_at) / 2:
            first += self.is_command or not first
            if self.fate == "done" and at >= self.ends_at:
                second += self.is_command or not second
        return SimulatedWork(first, second)


@dataclass(slots=True)
class SimulatedMachine:
    """Every agent that was ever launched, by task and attempt.

    `now` goes on steadily; `booted_at` is when the machine last booted, where its own clock begins again; `skew` is
    how far the time of day is off. Suspended, the machine's clock goes on and its processes stand still.
    """

    now: float = 0.0
    skew: float = 0.0
    booted_at: float = 0.0
    boot: int = 1
    agents: dict[AttemptKey, SimulatedAgent] = field(default_factory=dict)

    @property
    def wall(self) -> float:
        """The time of day, as far as this machine knows it."""
        return _WALL_AT_START + self.now + self.skew

    @property
    def since_boot(self) -> float:
        """The clock that no jump of the time of day moves; it begins again with each boot."""
        return self.now - self.booted_at

    def launch(self, key: AttemptKey, agent: SimulatedAgent) -> SimulatedAgent:
        """Start an agent; if the key was launched before, nothing starts anew. Return the one that there is."""
        return self.agents.setdefault(key, agent)

    def inspect(self, key: AttemptKey) -> Presence:
        """Return what has become of a launch."""
        agent = self.agents.get(key)
        if agent is None:
            return Presence.UNKNOWN
        ended = self.now >= agent.ends_at
        if agent.killed or (agent.record_lost and (ended or agent.cancelled)):
            return Presence.LOST
        return Presence.ENDED if ended or agent.cancelled else Presence.ALIVE

    def live(self) -> tuple[LiveAttempt, ...]:
        """Return the agents that live."""
        now = self.now
        return tuple(
            LiveAttempt(*key)
            for key, agent in self.agents.items()
            if agent.ends_at > now and not (agent.killed or agent.cancelled)
        )

    def cancel(self, key: AttemptKey) -> None:
        """Stop an agent; if it ended before, nothing happens."""
        if self.inspect(key) is Presence.ALIVE:
            agent = self.agents[key]
            agent.cancelled, agent.stopped_at = True, self.now

    def suspend(self, seconds: float) -> None:
        """Sleep: what lives ends that much later."""
        for live in self.live():
            agent = self.agents[live.task, live.attempt]
            agent.ends_at += seconds
            agent.began_at += seconds
        self.now += seconds

    def lose_power(self, *, writes_lost: bool) -> None:
        """Every agent dies without a record of it, and perhaps with its files torn."""
        for live in self.live():
            agent = self.agents[live.task, live.attempt]
            agent.killed, agent.stopped_at = True, self.now
            agent.kept = TORN_WORK if writes_lost else agent.work(self.now)
        self.booted_at = self.now
        self.boot += 1
