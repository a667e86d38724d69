"""One seed, one run: its plan, its world, and its life through every fault until its end."""

from __future__ import annotations

from collections import Counter
from random import Random

import msgspec
from msgspec.structs import replace

from holdfast.core import events as ev
from holdfast.core.status import RunStatus
from holdfast.core.task_transitions import IllegalEventError
from tests.core.builders import STARTED
from tests.core.simulation.counts import RowCounts
from tests.core.simulation.hands import Hands
from tests.core.simulation.journal import SimulatedJournal
from tests.core.simulation.judge import Judge
from tests.core.simulation.machine import SimulatedMachine
from tests.core.simulation.people import People
from tests.core.simulation.plans import random_fault_rates, random_plan
from tests.core.simulation.repository import SimulatedRepository
from tests.core.simulation.runner import RunnerEndedError, SimulatedRunner

_STEPS_MAX = 5_000
DAY_S = 86400.0
ClockFault = tuple[float, str, float]
"""When the clock jumps or the machine sleeps, which of them, and by or for how many seconds."""
_OVER = (RunStatus.COMPLETED, RunStatus.ABANDONED)


class CrashedError(Exception):
    """The runner is gone; only the world is left."""


class Simulation:
    """One run under one seed. `tally` counts what happened, so that a test can tell that each fault was met.

    `meddle`: somebody works on the run branch all the time, as in a few of the other runs.
    """

    def __init__(
        self, seed: int, *, meddle: bool = False, runner_type: type[SimulatedRunner] = SimulatedRunner
    ) -> None:
        self.seed = seed
        self.runner_type = runner_type
        self.rng = Random(seed)
        self.random = self.rng.random
        self.plan = random_plan(self.rng)
        self.rates = random_fault_rates(self.rng)
        self.tally: Counter[str] = Counter()
        self.story: list[str] | None = None
        self.rows = RowCounts()
        self.repository = SimulatedRepository(STARTED.base)
        self.machine = SimulatedMachine()
        self.judge = Judge(self)
        self.people = People(self, meddle=meddle)
        self.hands = Hands(self)
        # Not by chance, so that the other runs stay what they were.
        self.journal = SimulatedJournal(self.plan, replace(STARTED, check_base=seed % 4 == 2))
        self.runner: SimulatedRunner | None = None
        self.said: list[ev.Event] = []
        self.room = True
        self.rewound = self.rebuilt = False
        self.acknowledged = 0
        self.faults = self.interferences = 0
        self.resumes = int(self.random() * 3) + 4 * self.people.meddles + self.people.decides
        self.steps = 0
        self.prepared: set[str] = set()
        self.skipped: set[str] = set()
        self._stale_mark: tuple[object, ...] | None = None
        self._set_clock_faults(self._random_clock_faults())
        self._set_fuse()
        if self.random() < 0.04:
            self.people.adopt()

    # -- the life of a run ----------------------------------------------------------------------------------

    def run(self) -> Counter[str]:
        """Play the run to its end, through all its faults; raise ViolatedError, with the seed, if it goes wrong."""
        try:
            runner = self._play()
            self.fuse = _STEPS_MAX + self.steps
            self.judge.end(runner)
            self.met(f"run {runner.state.row.status}")
        except IllegalEventError as error:
            self.judge.violated(8, f"the runner was led to something impossible: {error}")
        return self.tally

    def play_until_rest(self, clock_faults: list[ClockFault]) -> list[ev.Event]:
        """Play without any other faults until the run first rests; return its events."""
        self.rates = self.rates._replace(faults=0, interferences=0)
        self.people.meddles = False
        self._set_fuse()
        self._set_clock_faults(clock_faults)
        runner = self._take_lease()
        runner.attach()
        runner.loop()
        return self.journal.events()

    def _play(self) -> SimulatedRunner:
        while True:
            runner = self.runner
            try:
                if runner is None:
                    runner = self._take_lease()
                    if runner.state.row.status in _OVER:
                        return runner
                    runner.attach()
                runner.loop()
            except (CrashedError, RunnerEndedError):
                self._after_end_of(runner)
                continue
            if self.runner is runner and not self._is_carried_on(runner):
                return runner

    def _take_lease(self) -> SimulatedRunner:
        self.runner = None
        runner = self.runner = self.runner_type(self)
        self.people.give_options(runner.state)
        return runner

    def _after_end_of(self, runner: SimulatedRunner | None) -> None:
        """A runner is gone: the one with the lease, or one that had lost it."""
        if self.runner is runner:
            self.runner = None
        elif self._stale_mark is not None:
            self.judge.stale(self._stale_mark, self._effects_so_far())
            self._stale_mark = None
        if self.runner is None:
            self._after_crash()

    def _is_carried_on(self, runner: SimulatedRunner) -> bool:
        """Say whether the user resumes a run that rests; a blocked one only with a mind to mend it."""
        status = runner.state.row.status
        self.room, self.journal.full = True, False
        if status in _OVER or (status is RunStatus.BLOCKED and self.resumes <= 0):
            return False
        self.runner = None
        self.resumes -= 1
        self.met(f"resumed when {status}")
        if self.resumes >= 0:
            self.people.at_rest()
        return True

    # -- faults ---------------------------------------------------------------------------------------------

    def _set_fuse(self) -> None:
        """Choose the step before which the next fault comes. A second one often hits the recovery from the first."""
        self.fuse = self.steps + _STEPS_MAX
        if self.faults < self.rates.faults:
            within = self.rng.choice((6, 12, 60) if self.faults else (6, 30, 100))
            self.fuse = self.steps + int(within * self.random())

    def step(self, weight: int = 1) -> None:
        """Stand between two steps: here a fault may come, the more likely the greater the weight."""
        self.steps += weight
        if self.steps > self.fuse:
            self._strike()

    def _strike(self) -> None:
        if self.steps > _STEPS_MAX:
            self.judge.violated(14, "the run does not end")
        self.faults += 1
        self._stale_mark = None
        self._set_fuse()
        kind = self.random()
        if kind < 0.35:
            self.kill()
        if kind < 0.55:
            self._cut_power()
        elif kind < 0.7:
            self.met("journal disk full")
            self.journal.full = True
        elif kind < 0.8:
            self.met("workspace disk full")
            self.room = False
        else:
            self._lose_lease()

    def kill(self) -> None:
        """Kill the runner: what it has written and what it has started goes on existing."""
        self.met("crash")
        raise CrashedError

    def _cut_power(self) -> None:
        self.met("power cut")
        self.machine.lose_power(writes_lost=self.random() < 0.5)
        self.journal.lose_unsynced()
        self.repository.lose_unsynced()
        self.runner = None
        raise CrashedError

    def _lose_lease(self) -> None:
        """Another runner takes over while this one stands still; then this one goes on, and must have no effect."""
        self.met("lease lost")
        boot, epoch = self.machine.boot, self.journal.epoch
        try:
            successor = self._take_lease()
            if successor.state.row.status not in _OVER:
                successor.attach()
                successor.loop(turns=int(self.random() * 6))
        except (CrashedError, RunnerEndedError):
            self.runner = None
        if self.machine.boot != boot:
            raise CrashedError
        if self.journal.epoch != epoch:
            self._stale_mark = self._effects_so_far()

    def _effects_so_far(self) -> tuple[object, ...]:
        """Return what only the runner with the lease may change."""
        cancelled = sum(agent.cancelled for agent in self.machine.agents.values())
        return len(self.journal.appends), self.repository.moves, len(self.machine.agents), cancelled

    def require_commit(self) -> None:
        """Work that exists nowhere else cannot be committed on a full disk: the runner ends, the work stays."""
        if not self.room:
            self.met("work uncollected on a full disk")
            raise RunnerEndedError

    def _after_crash(self) -> None:
        for agent in self.machine.agents.values():
            agent.record_lost = agent.record_lost or self.random() < 0.05
        self.judge.after_crash()
        self.machine.now += self.random() * 20
        if self.journal.full or not self.room:
            full = self.random() < 0.3
            if full:
                self.met("resumed on a full disk")
            self.journal.full = self.journal.full and full
            self.room = self.room or not full
        if self.random() < 0.2:
            self.met("clock jump while dead")
            self.machine.skew += self.rng.choice((-DAY_S, DAY_S))
        if not self.journal.full:
            self.people.while_dead()

    def met(self, what: str) -> None:
        """Count something that happened, and tell it if somebody wants the story."""
        self.tally[what] += 1
        if self.story is not None:
            self.story.append(f"{self.machine.now:8.2f}  * {what}")

    def tell(self, events: list[ev.Event]) -> None:
        """Events are acknowledged; tell them if somebody wants the story."""
        self.acknowledged = len(self.journal.appends)
        if self.story is not None:
            epoch = self.journal.epoch
            self.story += [f"{self.machine.now:8.2f}  {epoch:>3} {_in_words(event)}" for event in events]

    # -- time -----------------------------------------------------------------------------------------------

    def _random_clock_faults(self) -> list[ClockFault]:
        """Return when the time of day jumps and when the machine sleeps, the first last."""
        if self.random() < 0.7:
            return []
        kinds = (("clock jump", -DAY_S), ("clock jump", DAY_S), ("suspend", self.random() * 3600))
        return sorted(((self.random() * 100, *self.rng.choice(kinds)) for _ in range(2)), reverse=True)

    def _set_clock_faults(self, faults: list[ClockFault]) -> None:
        self._clock_faults = faults
        self._next_clock_fault = faults[-1][0] if faults else float("inf")

    def pass_time(self, until: float) -> None:
        """Let time pass; on the way the clock may jump and the machine may sleep."""
        machine = self.machine
        while until > self._next_clock_fault:
            at, kind, seconds = self._clock_faults.pop()
            self._set_clock_faults(self._clock_faults)
            machine.now = max(machine.now, at)
            self.met(kind)
            if kind == "suspend":
                machine.suspend(seconds)
            else:
                machine.skew += seconds
        machine.now = max(machine.now, until)


def _in_words(event: ev.Event) -> str:
    """Return an event without its defaults, in one line."""
    fields = msgspec.to_builtins(event)
    kind = type(event).__name__
    return f"{kind:<20} " + " ".join(f"{name}={value}" for name, value in fields.items() if name != "kind")
