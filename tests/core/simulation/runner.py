"""The simulated runner: what `runner/loop.py` and `runner/recovery/recover.py` do, on simulated time.

It takes the lease, recovers, and takes turns: apply results, decide, make it all durable, act. Between any two steps
the world may strike. What an effect does is in `effects.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from holdfast.core import events as ev
from holdfast.core.commands import (
    CheckBase,
    CheckTask,
    CloseStage,
    Command,
    HandOver,
    LandTasks,
    OpenStage,
    RecordEvent,
    StartAttempt,
    ValidateTask,
    intents,
    undo_intents,
)
from holdfast.core.decide import decide, leads_on, next_wake
from holdfast.core.facts import Facts, Presence, Sighting
from holdfast.core.projection import TaskRow
from holdfast.core.reconcile import reconcile, vanished
from holdfast.core.status import RunStatus, TaskStatus
from holdfast.core.task_transitions import IllegalEventError
from tests.core.simulation import effects, hands
from tests.core.simulation.amendments import random_amendment
from tests.core.simulation.journal import FencedError, NoRoomError
from tests.core.simulation.plans import PROVIDERS

if TYPE_CHECKING:
    from tests.core.simulation.simulation import Simulation

SimulatedEffect = Iterator[float | list[ev.Event]]
"""An effect yields how long it waits, or events that must be durable before it goes on."""
MAY_COME_TOO_LATE = (ev.TaskSkipped, ev.TaskRetried, ev.StageGateWaived, *hands.MAY_COME_TOO_LATE)
"""What the user decided about what has moved on."""
_SOON = 1e-6
_RETRY_DELAY_MAX_S = 60.0


class RunnerEndedError(Exception):
    """The runner ended by itself: the journal refused it, or work could not be committed. Agents live on."""


class SimulatedRunner:
    """One runner's turn at the run."""

    def __init__(self, world: Simulation) -> None:
        self.world = world
        self.machine = world.machine
        self.stopping = False
        self.inbox: list[tuple[list[ev.Event], SimulatedEffect | None, Command | None]] = []
        self.waiting: list[tuple[float, int, SimulatedEffect, Command | None]] = []
        self.amendments = 0
        self._serial = 0
        self._decided_at = 0.0
        self._wake_at: float | None = None
        self.read_run()
        self._began_at, self._clock_before = self.machine.since_boot, self.state.row.clock

    def read_run(self) -> None:
        """Fence off whoever wrote before, then read the run: nothing that is read can still change."""
        self.world.step()
        try:
            self.epoch = self.world.journal.take_epoch()
        except NoRoomError:
            raise RunnerEndedError from None
        self.state = self.world.journal.load()
        self.state.providers = PROVIDERS

    @property
    def clock(self) -> float:
        """The run's own clock: it goes on from where the last runner left it."""
        return self._clock_before + self.machine.since_boot - self._began_at

    @property
    def is_stale(self) -> bool:
        """Whether another runner has taken the lease."""
        return self.world.runner is not self

    @property
    def rests(self) -> bool:
        """Whether the run rests."""
        return self.state.row.status is not RunStatus.RUNNING

    # -- recovery -------------------------------------------------------------------------------------------

    def attach(self) -> None:
        """Bring the journal in line with the facts, and watch what still runs."""
        world, state = self.world, self.state
        rebooted = bool(state.row.boot_id) and state.row.boot_id != f"boot{self.machine.boot}"
        attached = ev.RunnerAttached(epoch=self.epoch, pid=1, host="host", boot_id=f"boot{self.machine.boot}")
        state.apply(attached)
        self.append([attached, *self._recover(rebooted=rebooted)])
        if not self.is_stale:
            world.judge.after_recovery(self)
        self._end_taken()
        for task in list(state.active.values()):
            if task.status is TaskStatus.RUNNING:
                self._start(effects.attempt(self, task), _watch(task))
        world.people.welcome(self)

    def _recover(self, *, rebooted: bool) -> list[ev.Event]:
        state, machine = self.state, self.machine
        running = [task for task in state.active.values() if task.status is TaskStatus.RUNNING]
        sightings = {task.id: Sighting(machine.inspect((task.id, task.attempt))) for task in running}
        self._end_strays()
        events: list[ev.Event] = []
        for task in running:
            if sightings[task.id].presence is Presence.LOST:
                events += effects.observations(self, task)
                events += self.keep_lost_work(task, rebooted=rebooted)
        self.world.plan = state.plan
        facts = self.gather_facts(sightings)
        state.apply_all(events)
        found = reconcile(state, facts)
        state.apply_all(found)
        for event in found:
            self.world.met(f"recovered {type(event).__name__}")
        self.world.judge.recovered(reconcile(state, facts))
        self._end_strays()
        met = {
            kind: tuple(name for name, seen in sightings.items() if seen.presence is kind)
            for kind in Presence
        }
        if met[Presence.ALIVE] or met[Presence.ENDED]:
            reattached = ev.AgentsReattached(working=met[Presence.ALIVE], finished=met[Presence.ENDED])
            state.apply(reattached)
            found.append(reattached)
        return [*events, *found]

    def keep_lost_work(self, task: TaskRow, *, rebooted: bool) -> list[ev.Event]:
        """Save what a lost agent left. After a reboot it may be torn: then only the last snapshot counts."""
        if rebooted:
            return [effects.lost(self, task, "crash", task.latest.snapshot)]
        commit = effects.save_last_snapshot(self, task)
        if commit == task.latest.snapshot:
            return []
        return [ev.SnapshotSaved(task=task.id, attempt=task.attempt, commit=commit)]

    def gather_facts(self, sightings: dict[str, Sighting]) -> Facts:
        """Return the facts; make the run branch again if somebody deleted it."""
        repository, state = self.world.repository, self.state
        repository.restore(state.row.tip)
        repository.sync()  # a runner that was killed may have moved the branch and no more
        branch = repository.facts()
        gone = {task.id: task.merge_commit for task in vanished(state, branch)}
        heads = {task.latest.head for task in (*state.active.values(), *state.awaiting_restart.values())}
        return Facts(
            branch=branch,
            sightings=sightings,
            equivalents=repository.equivalents(gone) if gone else {},
            missing_commits=frozenset(repository.missing & heads),
            wall=self.machine.wall,
        )

    def _end_taken(self) -> None:
        """Whoever works on a task that a person took is stopped."""
        for task in self.state.active.values():
            key = (task.id, task.attempt)
            if task.taken is not None and self.machine.inspect(key) is Presence.ALIVE:
                self.world.step()
                self.require_lease()
                self.machine.cancel(key)

    def _end_strays(self) -> None:
        """Whatever lives and is not the present attempt of a running task is stopped."""
        for live in self.machine.live():
            row = self.state.tasks[live.task]
            if row.status is not TaskStatus.RUNNING or row.attempt != live.attempt:
                self.world.step()
                self.require_lease()
                self.machine.cancel((live.task, live.attempt))

    # -- the loop -------------------------------------------------------------------------------------------

    def loop(self, turns: float = float("inf")) -> None:
        """Take turns until the run rests, or so many."""
        while turns > 0 and not self.rests:
            turns -= 1
            self.turn()
            self._wait()

    def _wait(self) -> None:
        """Let time pass until something has arrived, or a task's waiting time is over."""
        self._wake_at = next_wake(self.state, self._decided_at)
        if self.rests:
            self.world.judge.resting(self)
            return
        woken = bool(self.inbox)
        # Several results may arrive before the next turn.
        while not woken or (self.waiting and self.world.random() < 0.3):
            woken = self._advance() or bool(self.inbox)

    def turn(self) -> None:
        """Take in what arrived, decide until nothing is left to decide, make it all durable, then act."""
        state = self.state
        events: list[ev.Event] = []
        durable: list[tuple[SimulatedEffect, Command | None]] = []
        inbox, self.inbox = self.inbox, []
        for batch, effect, command in inbox:
            accepted = self._accept(batch, events)
            if effect is not None and accepted:
                durable.append((effect, command))
        self._take_amendments(events)
        commands: list[Command] = []
        self._decided_at = self.clock
        while decided := decide(state, self._decided_at):
            for one in decided:
                token = f"token{self.world.random()}" if type(one) is StartAttempt else ""
                for event in intents(one, token):
                    state.apply(event)
                    events.append(event)
            commands += decided
            if not leads_on(decided):
                self.world.judge.decided(state, self._decided_at)
                break
        self.carry_out(events, commands)
        self._end_taken()
        for effect, command in durable:
            self._start(effect, command)
        if state.row.stopping and not self.stopping:
            self.stopping = True
            self.cancel_agents()
        if any(type(event) is ev.PlanAmended for event in events):
            self._follow_amendment()

    def amend(self) -> None:
        """Somebody wants another plan; the next turn judges it by the state of that moment."""
        self.amendments += 1
        self.inbox.append(([], None, None))

    def _take_amendments(self, events: list[ev.Event]) -> None:
        wanted, self.amendments = self.amendments, 0
        for _ in range(wanted):
            event = random_amendment(self.world.rng, self.state)
            repository = self.world.repository
            if event is None or repository.taken_off() or repository.has_more_than(self.state):
                self.world.met("amendment refused")
                continue
            self.world.met("amended under a runner")
            blocked = {name for name, row in self.state.tasks.items() if row.status is TaskStatus.BLOCKED}
            self.state.apply(event)
            self.world.judge.amended(blocked, self.state)
            events.append(event)

    def _follow_amendment(self) -> None:
        """Git keeps the plan, and agents end whose task begins again. Whoever is killed before leaves it to the next runner."""
        self.world.step(5)
        self.world.plan = self.state.plan
        for task in list(self.state.active.values()):
            if task.latest.restart and task.status is TaskStatus.RUNNING:
                self.world.step()
                self.require_lease()
                self.machine.cancel((task.id, task.attempt))

    def carry_out(self, events: list[ev.Event], commands: list[Command]) -> None:
        """First durable, then acted on."""
        self.append(events)
        for command in commands:
            self.act(command)

    def _accept(self, batch: list[ev.Event], events: list[ev.Event]) -> bool:
        """Apply results and tell whether all of them could be taken; leave out what may no longer happen."""
        accepted = True
        for event in batch:
            taken = self.take(event)
            if taken is not None:
                events.append(taken)
                if isinstance(taken, ev.AttemptEnded):
                    self.world.judge.ended(taken, is_stale=self.epoch != self.world.journal.epoch)
                elif isinstance(taken, ev.VerificationBlocked):
                    self.world.judge.needs_help(taken.task)
                elif isinstance(taken, ev.TaskSkipped):
                    self.world.skipped.add(taken.task)
                if isinstance(taken, ev.TaskRetried | ev.QuestionAnswered | ev.AttemptReturned):
                    self.world.judge.helped(taken.task)
            else:
                accepted = False
        return accepted

    def take(self, event: ev.Event) -> ev.Event | None:
        """Apply a result and return it, or refuse it if it comes from an attempt that is over."""
        try:
            self.state.apply(event)
        except IllegalEventError:
            if not self.is_outdated(event) and not isinstance(event, MAY_COME_TOO_LATE):
                raise
            self.world.met("refused")
            return None
        if self.is_outdated(event):
            self.world.judge.violated(9, f"the result of an old attempt was taken: {event}")
        return event

    def is_outdated(self, event: ev.Event) -> bool:
        """Tell whether an event is the result of an attempt that is not the task's latest, or of a task that was dropped."""
        if not isinstance(event, ev.AttemptEvent | ev.TaskLanded):
            return False
        row = self.state.tasks.get(event.task)
        return row is None or event.attempt < row.attempt

    def append(self, events: list[ev.Event]) -> None:
        """Make events durable. If that fails, nothing has been acted on and the runner ends."""
        world = self.world
        world.step()
        if not events:
            return
        try:
            world.journal.append(self.epoch, events, self.state)
        except NoRoomError:
            world.met("append on a full disk")
            raise RunnerEndedError from None
        except FencedError:
            world.met("append of a stale runner refused")
            raise RunnerEndedError from None
        world.step()
        world.journal.sync()
        world.tell(events)

    def _advance(self) -> bool:
        """Let time pass until the next effect has something to do; tell whether a task's waiting time is over."""
        machine = self.machine
        wake = self._wake_at
        waits = max(0.0, wake - self.clock) if wake is not None else 0.0
        if wake is not None and (not self.waiting or self.waiting[0][0] > machine.now + waits):
            self.world.judge.waiting(waits)
            self.world.pass_time(machine.now + waits + _SOON)
            return True
        if not self.waiting:
            if self.is_stale:
                raise RunnerEndedError
            self.world.judge.violated(14, f"nothing is under way, yet the run is {self.state.row.status}")
        at, _, effect, command = heappop(self.waiting)
        self.world.pass_time(at)
        self.world.step()
        self._start(effect, command)
        return False

    # -- effects --------------------------------------------------------------------------------------------

    def act(self, command: Command) -> None:
        """Start the effect of a command, which is durable. A runner without the lease starts nothing."""
        self.world.step()
        self.require_lease()
        state = self.state
        match command:
            case HandOver(task, start):
                self._start(self.world.hands.hand_over(self, task, start), command)
            case StartAttempt(task=task, provider=provider):
                self.world.judge.starting(self, task, provider)
                self._start(effects.attempt(self, state.tasks[task]), command)
            case RecordEvent(ev.VerificationRestarted(task=task)):
                self.world.judge.restarting(self, task)
            case CheckTask(task=task):
                self._start(effects.checks(self, state.tasks[task]), command)
            case ValidateTask(task=task):
                self._start(effects.validation(self, state.tasks[task]), command)
            case LandTasks():
                self._start(effects.landing(self, command), command)
            case CheckBase():
                self._start(effects.base_check(self), command)
            case OpenStage(stage):
                self._start(effects.gate(self, stage, "entry"), command)
            case CloseStage(stage):
                self._start(effects.gate(self, stage, "exit"), command)

    def _start(self, effect: SimulatedEffect, command: Command | None) -> None:
        """Run an effect up to its next wait. A full disk undoes its intent and blocks the run."""
        try:
            wanted = next(effect, None)
        except NoRoomError:
            self.world.met("effect on a full disk")
            self.deliver([*self.undo(command), ev.StopRequested(blocked_by="no space left on device")])
            return
        if isinstance(wanted, list):
            self.inbox.append((wanted, effect, command))
        elif wanted is not None:
            self._serial += 1
            heappush(self.waiting, (self.machine.now + wanted, self._serial, effect, command))

    def undo(self, command: Command | None) -> list[ev.Event]:
        """Return what undoes the intent of a command that could not be acted on."""
        return undo_intents(command) if command is not None else []

    def begin(self, effect: SimulatedEffect) -> None:
        """Start something that no command asked for."""
        self._start(effect, None)

    def deliver(self, events: list[ev.Event]) -> None:
        """Report results, and remember them: they may come again when nobody waits for them any more."""
        self.inbox.append((events, None, None))
        # A landing is read off the branch, not reported by anybody.
        self.world.said += [event for event in events if type(event) is not ev.TaskLanded]

    def swap(self, old: str, new: str) -> bool:
        """Move the run branch by compare-and-swap, if the lease is still ours."""
        self.require_lease()
        return self.world.repository.swap(old, new)

    def require_lease(self) -> None:
        """Look at the lease right before an effect that another runner would suffer from."""
        if self.is_stale:
            self.world.met("effect of a stale runner refused")
            raise RunnerEndedError

    def about_moved_branch(self) -> ev.Event:
        """Return what follows from a branch that somebody else moved: a person looks at it first."""
        return ev.StopRequested(blocked_by="somebody moved the branch")

    def cancel_agents(self) -> None:
        """The run is to stop: end what works for it."""
        for task in self.state.active.values():
            if task.status is TaskStatus.RUNNING:
                self.world.step()
                self.require_lease()
                self.machine.cancel((task.id, task.attempt))


def _watch(task: TaskRow) -> Command:
    """Return the command under which an attempt of an earlier runner is watched."""
    latest = task.latest
    return StartAttempt(task.id, task.attempt, latest.workspace_number, latest.start, latest.kind)
