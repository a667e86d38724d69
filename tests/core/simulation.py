"""The real core in a simulated world: virtual time, random order, and a crash between any two steps.

The driver does what the runner does: apply results, decide, make it all durable, act. One seed is one run, from
its plan to its end, and the same seed is always the same run: `Simulation(seed).run()` plays it again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from heapq import heappop, heappush
from random import Random

import msgspec

from holdfast.core import events as ev
from holdfast.core.commands import CheckTask, CloseStage, Command, LandTasks, OpenStage, StartAttempt, intents
from holdfast.core.decide import decide, next_wake
from holdfast.core.event_codec import Recorded
from holdfast.core.facts import Facts, Presence, Sighting
from holdfast.core.invariants import Evidence, Violation, fold_violations, violations
from holdfast.core.provider_limits import park_provider
from holdfast.core.reconcile import reconcile
from holdfast.core.run_transitions import first_row
from holdfast.core.state import RunState, replay
from holdfast.core.status import TASK_IS_SETTLED, FailureKind, Gate, RunStatus, TaskStatus
from holdfast.core.task_transitions import TASK_EVENTS, IllegalEventError
from tests.core.builders import STARTED, queues
from tests.core.random_plans import PROVIDERS, random_fault_rates, random_plan
from tests.core.simulated_world import SimulatedAgent, SimulatedDisk, SimulatedMachine, SimulatedRepository

SimulatedEffect = Iterator[float]
_STEPS_MAX = 20_000
_MAY_COME_TOO_LATE = (ev.TaskSkipped, ev.TaskRetried, ev.StageClosed, ev.StageGateFailed)
"""What the user decided about a task that has moved on, and an exit gate of a stage that was reopened meanwhile."""


class CrashedError(Exception):
    """The runner is gone; only the world is left."""


class ViolatedError(Exception):
    """An invariant does not hold."""

    def __init__(self, seed: int, found: list[Violation]) -> None:
        super().__init__(f"seed {seed}: " + "; ".join(f"({v.number}) {v.sentence}" for v in found))
        self.numbers = {violation.number for violation in found}


class Simulation:
    """One run under one seed. `tally` counts what happened, so that a test can tell that each fault was met."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = Random(seed)
        self.plan = random_plan(self.rng)
        self.rates = random_fault_rates(self.rng)
        self.tally: Counter[str] = Counter()
        self.repository = SimulatedRepository(STARTED.base)
        self.machine = SimulatedMachine()
        row = RunState(self.plan, first_row(STARTED)).row
        self.disk = SimulatedDisk(self.plan, STARTED, row)
        self.state = self.disk.load()
        self.inbox: list[ev.Event] = []
        self.said: list[ev.Event] = []
        self.effects: list[tuple[float, int, SimulatedEffect]] = []
        self.attached_at = self.clock_before = 0.0
        self.resumes = 4
        self.rewound = False
        self._set_fuse()

    # -- the life of a run ----------------------------------------------------------------------------------

    def run(self) -> Counter[str]:
        """Play the run to its end, through all its crashes; raise ViolatedError, with the seed, if it goes wrong."""
        try:
            self._play()
        except IllegalEventError as error:
            self._violated(8, f"the driver was led to something impossible: {error}")
        self.tally[f"run {self.state.row.status}"] += 1
        return self.tally

    def _play(self) -> None:
        while True:
            try:
                self._attach()
                self._loop()
            except CrashedError:
                self._after_crash()
                continue
            if not self._is_carried_on():
                break
        self.fuse = float("inf")
        self._check_end()

    def _set_fuse(self) -> None:
        """Choose the step before which the next crash comes; now and then one that hits the recovery itself."""
        more = self.tally["crash"] < self.rates.crashes
        self.fuse = self.rng.choice((4, 30, 120)) * self.rng.random() if more else float("inf")

    def _step(self) -> None:
        """Stand between two steps: here the runner may die."""
        self.tally["step"] += 1
        if self.tally["step"] > _STEPS_MAX:
            self._violated(14, "the run does not end")
        self.fuse -= 1
        if self.fuse < 0:
            raise CrashedError

    def _after_crash(self) -> None:
        self.tally["crash"] += 1
        if self.rng.random() < 0.5:
            self.machine.lose_power()
        for agent in self.machine.agents.values():
            agent.record_lost = agent.record_lost or self.rng.random() < 0.05
        if not self.rewound:
            self._check(self.disk.load(), settled=False)
        self.machine.now += self.rng.random() * 20
        if self.rng.random() < 0.2:
            self.tally["clock jump"] += 1
            self.machine.skew += self.rng.choice((-86400.0, 86400.0))
        if self.rng.random() < 0.1:
            self.tally["commit by somebody"] += 1
            self.repository.commit_by_somebody()
        if self.rng.random() < 0.05:
            self.tally["rewind by somebody"] += 1
            self.repository.rewind_by_somebody()
            self.rewound = True
        self._set_fuse()

    def _is_carried_on(self) -> bool:
        """Say whether the user resumes a run that rests; a blocked one only with a mind to mend it."""
        status = self.state.row.status
        if status is RunStatus.COMPLETED or (status is RunStatus.BLOCKED and self.resumes <= 0):
            return False
        self.resumes -= 1
        self.tally[f"resumed when {status}"] += 1
        return True

    # -- recovery -------------------------------------------------------------------------------------------

    def _attach(self) -> None:
        self._step()
        self.effects, self.inbox = [], []
        self.state = self.disk.load()
        self.state.providers = PROVIDERS
        self.attached_at, self.clock_before = self.machine.now, self.state.row.clock
        epoch = self.state.row.epoch + 1
        self._commit([ev.RunnerAttached(epoch=epoch, pid=1, host="host", boot_id="boot")])
        facts = self._facts()
        found = reconcile(self.state, facts)
        self.tally.update(f"recovered {type(event).__name__}" for event in found)
        self._commit(found)
        if reconcile(self.state, facts):
            self._violated(13, "recovery has more to say the second time")
        self._check_waits()
        self._stop_strays()
        self.rewound = False
        self._check(self.state, settled=True)
        for task in self.state.active.values():
            if task.status is TaskStatus.RUNNING:
                self._start(self._attempt(task.id, task.attempt, task.latest.token))
        self._mend()
        self._plan_interference()

    def _facts(self) -> Facts:
        sightings = {
            task.id: Sighting(self.machine.inspect((task.id, task.attempt)))
            for task in self.state.active.values()
        }
        return Facts(branch=self.repository.facts(), sightings=sightings, wall=self.machine.wall)

    def _check_waits(self) -> None:
        """Whatever the wall clock says, no wait is longer than it was meant to be."""
        for provider, parked in self.state.row.parked.items():
            if parked.not_before - self._clock > parked.wait_s + 1e-6:
                self._violated(14, f"{provider} is waited for longer than its limit lasts")

    def _stop_strays(self) -> None:
        """Whatever lives and is not the present attempt of a running task is stopped."""
        for live in self.machine.live():
            row = self.state.tasks[live.task]
            if row.status is not TaskStatus.RUNNING or row.attempt != live.attempt:
                self._step()
                self.machine.cancel((live.task, live.attempt))

    def _mend(self) -> None:
        """The user gives tasks that were abandoned another chance, or does without them."""
        for task in self.state.tasks.values():
            if task.status is TaskStatus.ABANDONED and self.resumes > 0:
                chance = self.rng.random() < 0.5
                self.inbox.append(ev.TaskRetried(task=task.id) if chance else ev.TaskSkipped(task=task.id))
        if self.resumes > 0 and self.rng.random() < 0.1:
            self.state.select(frozenset(name for name in self.state.tasks if self.rng.random() < 0.5))

    # -- the loop -------------------------------------------------------------------------------------------

    def _loop(self) -> None:
        while self.state.row.status is RunStatus.RUNNING:
            self._turn()
            if self.state.row.status is RunStatus.RUNNING:
                self._advance()
            while self.effects and self.rng.random() < 0.3:
                self._advance()

    @property
    def _clock(self) -> float:
        """The run's own clock: it goes on from where the last runner left it."""
        return self.clock_before + self.machine.now - self.attached_at

    def _turn(self) -> None:
        events = [taken for event in self.inbox if (taken := self._take(event)) is not None]
        self.inbox = []
        commands: list[Command] = []
        while decided := decide(self.state, self._clock):
            for command in decided:
                for event in intents(command, token=f"token{self.rng.random()}"):
                    self.state.apply(event)
                    events.append(event)
            commands += decided
        self._carry_out(events, commands)
        if any(isinstance(event, ev.StopRequested) for event in events):
            self._cancel_agents()

    def _carry_out(self, events: list[ev.Event], commands: list[Command]) -> None:
        """First durable, then acted on."""
        self._append(events)
        for command in commands:
            self._act(command)

    def _take(self, event: ev.Event) -> ev.Event | None:
        """Apply a result and return it, or refuse it if it comes from an attempt that is over."""
        try:
            self.state.apply(event)
        except IllegalEventError:
            if not self._is_stale(event) and not isinstance(event, _MAY_COME_TOO_LATE):
                raise
            self.tally["refused"] += 1
            return None
        if self._is_stale(event):
            self._violated(9, f"the result of an old attempt was taken: {event}")
        return event

    def _is_stale(self, event: ev.Event) -> bool:
        if not isinstance(event, ev.AttemptEvent | ev.TaskLanded):
            return False
        return event.attempt < self.state.tasks[event.task].attempt

    def _append(self, events: list[ev.Event]) -> None:
        self._step()
        if events:
            self.disk.append(events, self.state)

    def _commit(self, events: list[ev.Event]) -> None:
        for event in events:
            self.state.apply(event)
        self._append(events)

    def _advance(self) -> None:
        """Let time pass until the next effect has something to do, or a task's waiting time is over."""
        wake = next_wake(self.state, self._clock)
        waits = wake - self._clock if wake is not None else -1.0
        if waits > 0 and (not self.effects or self.effects[0][0] > self.machine.now + waits):
            self.machine.now += waits + 1e-6
            return
        if not self.effects:
            self._violated(14, f"nothing is under way, yet the run is {self.state.row.status}")
        at, _, effect = heappop(self.effects)
        self.machine.now = max(at, self.machine.now)
        self._step()
        self._start(effect)

    def _start(self, effect: SimulatedEffect) -> None:
        """Run an effect up to its next wait."""
        pause = next(effect, None)
        if pause is not None:
            self.tally["effect"] += 1
            heappush(self.effects, (self.machine.now + pause, self.tally["effect"], effect))

    # -- effects --------------------------------------------------------------------------------------------

    def _act(self, command: Command) -> None:
        self._step()
        match command:
            case StartAttempt(task, attempt, provider=provider):
                parked = self.state.row.parked.get(provider)
                if parked is not None and (
                    parked.not_before > self._clock or parked.shut_in == self.state.row.epoch
                ):
                    self._violated(14, f"task {task} starts through {provider}, which is parked")
                self._start(self._attempt(task, attempt, self.state.tasks[task].latest.token))
            case CheckTask(task, attempt):
                self._start(self._checks(task, attempt))
            case LandTasks(tasks):
                self._start(self._landing(tasks))
            case OpenStage(stage):
                self._start(self._gate(stage, "entry", ev.StageOpened(stage=stage)))
            case CloseStage(stage):
                self._start(self._gate(stage, "exit", ev.StageClosed(stage=stage)))

    def _attempt(self, name: str, attempt: int, token: str) -> SimulatedEffect:
        key = (name, attempt)
        ends_at = self.machine.now + self.rng.random() * 30
        if self.machine.inspect((name, attempt - 1)) is Presence.ALIVE:
            self._violated(9, f"task {name} is tried again while its last agent lives")
        ends_well = self.rng.random() >= self.rates.agent_fails
        self.machine.launch(
            key, SimulatedAgent(token, ends_at, ends_well=ends_well, tokens=self.rng.randint(0, 9))
        )
        agent = self.machine.agents[key]
        tokens = ev.AgentObserved(task=name, attempt=attempt, tokens=agent.tokens, session=f"of {token}")
        if self.rng.random() < 0.2:
            yield (agent.ends_at - self.machine.now) / 2
            if self.machine.inspect(key) is Presence.ALIVE:
                self._say(ev.SnapshotSaved(task=name, attempt=attempt, commit=self.repository.commit("wip")))
                self._say(tokens)
        yield max(0.0, agent.ends_at - self.machine.now)
        if self.machine.inspect(key) is Presence.LOST:
            self._say(ev.AttemptLost(task=name, attempt=attempt))
        elif agent.cancelled:
            self._say(ev.AttemptLost(task=name, attempt=attempt, cause="stop"))
        elif self.rng.random() < self.rates.limits:
            self._hit_limit(name, attempt, agent.token)
        elif self.rng.random() < self.rates.needs_person:
            self._need_person(name, attempt, agent.token)
        elif agent.ends_well:
            self._say(tokens)
            head = self.repository.commit(self.state.tasks[name].latest.start)
            self._step()
            self._say(ev.AttemptDone(task=name, attempt=attempt, token=agent.token, head=head, tree=head))
        else:
            kind = self.rng.choice((FailureKind.AGENT, FailureKind.ENVIRONMENT))
            self._say(
                ev.AttemptFailed(
                    task=name,
                    attempt=attempt,
                    token=agent.token,
                    failure=kind,
                    error="failed",
                    clock=self._clock,
                )
            )

    def _hit_limit(self, name: str, attempt: int, token: str) -> None:
        self.tally["limit"] += 1
        task = self.state.tasks[name]
        reset = self.rng.choice((None, self.machine.wall + self.rng.random() * 7200))
        if task.attempt == attempt:
            parked = park_provider(
                self.state, task.latest.provider, token, reset, self.machine.wall, self._clock
            )
            self._say(msgspec.structs.replace(parked, words="limit"))
        provider = task.latest.provider
        limited = ev.AttemptLimited(task=name, attempt=attempt, token=token, provider=provider, error="limit")
        self._say(limited)

    def _need_person(self, name: str, attempt: int, token: str) -> None:
        self.tally["needs person"] += 1
        failure = self.rng.choice((FailureKind.AUTH, FailureKind.PERMISSION))
        if failure is FailureKind.AUTH:
            self._say(ev.ProviderShut(provider=self.state.tasks[name].latest.provider, words="log in"))
        self._say(ev.AttemptBlocked(task=name, attempt=attempt, token=token, failure=failure, error="help"))

    def _checks(self, name: str, attempt: int) -> SimulatedEffect:
        yield self.rng.random() * 10
        if self.state.row.stopping:
            self._say(ev.ChecksInterrupted(task=name, attempt=attempt))
        elif self.rng.random() < self.rates.check_fails:
            self._say(ev.ChecksFailed(task=name, attempt=attempt, check="check", error="failed"))
        else:
            self._say(ev.TaskVerified(task=name, attempt=attempt))

    def _gate(self, stage: str, gate: Gate, held: ev.Event) -> SimulatedEffect:
        yield self.rng.random() * 3
        if self.plan_has_gate(stage, gate) and self.rng.random() < self.rates.gate_fails:
            self._say(ev.StageGateFailed(stage=stage, gate=gate, error="failed"))
        else:
            self._say(held)

    def plan_has_gate(self, stage: str, gate: Gate) -> bool:
        """Tell whether a stage has such a check at all."""
        spec = self.state.stages[stage]
        return bool(spec.entry if gate == "entry" else spec.exit)

    def _landing(self, batch: tuple[tuple[str, int], ...]) -> SimulatedEffect:
        onto = tip = self.repository.tip
        prepared: list[ev.MergePrepared] = []
        for name, attempt in batch:
            yield self.rng.random() * 3
            commit = self._merge(name, attempt, tip)
            if commit:
                prepared.append(ev.MergePrepared(task=name, attempt=attempt, commit=commit, onto=tip))
                tip = commit
        if not prepared:
            return
        self._commit([*prepared])
        yield self.rng.random()
        landed = self._swap(onto, tip)
        self._step()
        for merge in prepared:
            name, attempt = merge.task, merge.attempt
            head = self.state.tasks[name].latest.head
            self._say(
                ev.TaskLanded(task=name, attempt=attempt, commit=merge.commit, head=head)
                if landed
                else ev.LandingInterrupted(task=name, attempt=attempt)
            )
        if not landed:
            self.tally["branch had moved"] += 1
            self._say(ev.BranchMoved(commit=self.repository.tip))

    def _merge(self, name: str, attempt: int, onto: str) -> str:
        """Return the merge commit that may land; empty when it conflicts or its tree fails a check."""
        head = self.state.tasks[name].latest.head
        if self.rng.random() < self.rates.conflicts:
            carry = self.repository.commit(head)
            self._say(ev.MergeConflicted(task=name, attempt=attempt, onto=onto, carry=carry, files=("f",)))
            return ""
        if self.state.checks_of(name) and self.rng.random() < self.rates.merged_check_fails:
            self._say(ev.MergeRefused(task=name, attempt=attempt, check="check", error="failed"))
            return ""
        return self.repository.merge(onto, name, attempt, head)

    def _swap(self, old: str, new: str) -> bool:
        return self.repository.swap(old, new)

    def _say(self, event: ev.Event) -> None:
        """Report a result, and remember it: it may come again when nobody waits for it any more."""
        self.inbox.append(event)
        if not isinstance(event, ev.TaskLanded):  # That one is read off the branch, not reported by anybody.
            self.said.append(event)

    def _cancel_agents(self) -> None:
        for task in self.state.active.values():
            if task.status is TaskStatus.RUNNING:
                self._step()
                self.machine.cancel((task.id, task.attempt))

    # -- what others do meanwhile ---------------------------------------------------------------------------

    def _plan_interference(self) -> None:
        while self.tally["interference"] < self.rates.interferences and self.rng.random() < 0.7:
            self.tally["interference"] += 1
            self._start(self._interfere())

    def _interfere(self) -> SimulatedEffect:
        yield self.rng.random() * 60
        match self.rng.randrange(7):
            case 0:
                self.inbox.append(ev.StopRequested())
            case 1:
                self.inbox.append(ev.PauseRequested())
            case 2:
                self._skip_or_reset()
            case 3 | 4:
                self.tally["commit by somebody"] += 1
                self.repository.commit_by_somebody()
            case _:
                self.inbox += [event for event in self.said if self._is_stale(event)][-3:]

    def _skip_or_reset(self) -> None:
        name = self.rng.choice(self.state.names)
        event = self.rng.choice((ev.TaskSkipped(task=name), ev.TaskRetried(task=name)))
        if self.state.tasks[name].status in TASK_EVENTS[type(event)].moves:
            self.tally["skip or reset"] += 1
            self.inbox.append(event)

    # -- judgement ------------------------------------------------------------------------------------------

    def _violated(self, number: int, sentence: str) -> None:
        raise ViolatedError(self.seed, [Violation(number, sentence)])

    def _check(self, state: RunState, *, settled: bool) -> None:
        evidence = Evidence(
            settled=settled,
            branch=self.repository.facts(),
            lost_tips=tuple(self.repository.lost),
            prepared=frozenset(self.disk.prepared),
            once_skipped=frozenset(self.disk.skipped),
            live=self.machine.live(),
        )
        recorded = (Recorded(seq, 0.0, event) for seq, event in enumerate(self.disk.events, start=1))
        found = violations(state, evidence) + fold_violations(self.plan, recorded, *self.disk.rows())
        if found:
            raise ViolatedError(self.seed, found)

    def _check_end(self) -> None:
        row = self.state.row
        self._notice_last_commits()
        self._check(self.state, settled=True)
        unsettled = [task.id for task in self.state.tasks.values() if task.status not in TASK_IS_SETTLED]
        if row.status is RunStatus.COMPLETED and unsettled:
            self._violated(14, f"the run is completed without {unsettled}")
        if row.status is RunStatus.BLOCKED and not row.reason:
            self._violated(14, "the run is blocked for no reason")
        if row.tokens > sum(agent.tokens for agent in self.machine.agents.values()):
            self._violated(9, "tokens were counted twice")
        if self.machine.live():
            self._violated(11, "agents outlive their run")
        stored = queues(self.disk.load())
        if stored != queues(replay(self.plan, self.disk.events)):
            self._violated(8, "the queues of the stored run are not those of its events")
        if self.state.selected is None and stored != queues(self.state):
            self._violated(8, "the queues of the stored run are not those it ended with")
        self._check_nothing_redone()

    def _notice_last_commits(self) -> None:
        """Somebody may have committed after our last landing; nothing else may be left to notice."""
        moved = [event for event in reconcile(self.state, self._facts()) if isinstance(event, ev.BranchMoved)]
        self._commit([*moved])
        may_come = (ev.StageGateReset, ev.ProviderParked)
        if any(not isinstance(event, may_come) for event in reconcile(self.state, self._facts())):
            self._violated(13, "the run ended with something left to recover")

    def _check_nothing_redone(self) -> None:
        landed: set[str] = set()
        for event in self.disk.events:
            if isinstance(event, ev.TaskLanded):
                landed.add(event.task)
            elif isinstance(event, ev.LandingVanished):
                landed.discard(event.task)
            elif isinstance(event, ev.AttemptStarted) and event.task in landed:
                self._violated(2, f"task {event.task} was done again")
