"""The judge of a simulated run: what must hold after each crash, each recovery and at the end.

The invariants of `core/invariants.py` are asked after every crash and every recovery. That the stored rows are what
the events add up to is asked at the end, for every moment at which the rows were read, in one walk through the
history: so it is folded only once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from holdfast.core import events as ev
from holdfast.core.commands import HandOver
from holdfast.core.decide import check_is_unrunnable, decide
from holdfast.core.facts import Presence
from holdfast.core.invariants import Evidence, Violation, replacements, violations
from holdfast.core.people import waits_for_person
from holdfast.core.plan import Plan
from holdfast.core.projection import Parked, TaskRow, encode_row
from holdfast.core.reconcile import reconcile
from holdfast.core.run_transitions import first_row
from holdfast.core.state import RunState
from holdfast.core.status import (
    TASK_IS_SETTLED,
    AttemptKind,
    BaseStatus,
    FailureKind,
    ParkReason,
    RunStatus,
    TaskStatus,
)
from holdfast.core.task_transitions import IllegalEventError
from tests.core.builders import queues
from tests.core.simulation.repository import NO_WORK, SimulatedWork

if TYPE_CHECKING:
    from tests.core.simulation.journal import SimulatedJournal, StoredRows
    from tests.core.simulation.runner import SimulatedRunner
    from tests.core.simulation.simulation import Simulation

_RETRY_DELAY_MAX_S = 60.0
_LEAVES: dict[type[ev.Event], str] = {
    ev.AttemptDone: "head",
    ev.AttemptFailed: "carry",
    ev.AttemptLimited: "carry",
    ev.AttemptBlocked: "carry",
    ev.AttemptAsked: "carry",
    ev.AttemptReturned: "carry",
    ev.AttemptLost: "carry",
    ev.MergeConflicted: "carry",
    ev.TaskRestored: "carry",
    ev.TaskInherited: "carry",
}
"""The events that say what is left of a task, and where."""
_CONCERNS_WORK = _LEAVES.keys() | {
    ev.AttemptStarted,
    ev.TaskLanded,
    ev.LandingVanished,
    ev.TaskRewound,
    ev.TaskRetried,
    ev.PlanAmended,
}
_TOLERANCE_S = 0.01
_BASE_IS_OPEN = (BaseStatus.PENDING, BaseStatus.RUNNING, BaseStatus.FAILED)


class ViolatedError(Exception):
    """An invariant does not hold."""

    def __init__(self, seed: int, found: list[Violation]) -> None:
        super().__init__(f"seed {seed}: " + "; ".join(f"({v.number}) {v.sentence}" for v in found))
        self.numbers = {violation.number for violation in found}


class Judge:
    """Looks at everything, changes nothing."""

    def __init__(self, world: Simulation) -> None:
        self.world = world
        self._due: dict[str, float] = {}
        self._helped: set[str] = set()

    def violated(self, number: int, sentence: str) -> NoReturn:
        """Give up on the run: an invariant does not hold."""
        raise ViolatedError(self.world.seed, [Violation(number, sentence)])

    # -- on the way -----------------------------------------------------------------------------------------

    def recovered(self, more: list[ev.Event]) -> None:
        """Recovery says everything the first time."""
        if more:
            self.violated(13, f"recovery has more to say the second time: {more}")

    def after_recovery(self, runner: SimulatedRunner) -> None:
        """All invariants hold, and no wait is longer than it was meant to be, whatever the time of day."""
        for provider, parked in runner.state.row.parked.items():
            left = parked.not_before - runner.clock
            if left > parked.wait_s + _TOLERANCE_S:
                self.violated(14, f"{provider} is waited for longer than its limit lasts")
            self._due[provider] = self.world.machine.now + left
        self.world.rewound = False
        self.check(runner.state, settled=True)

    def parked(self, event: ev.ProviderParked) -> None:
        """Remember until when a provider may be waited for."""
        due = self.world.machine.now + event.wait_s
        self._due[event.provider] = max(due, self._due.get(event.provider, 0.0))

    def waiting(self, seconds: float) -> None:
        """Nobody waits longer than the longest limit and the longest delay before a retry."""
        now = self.world.machine.now
        longest = max((due - now for due in self._due.values()), default=0.0)
        if seconds > max(longest, _RETRY_DELAY_MAX_S) + _TOLERANCE_S:
            self.violated(14, f"the run waits for {seconds:.0f} s, and no limit lasts that long")

    def ended(self, event: ev.AttemptEnded, *, is_stale: bool) -> None:
        """An attempt is over only if its agent is. A stale runner may think so: its launch failed, its successor's did not."""
        if isinstance(event, ev.AttemptBlocked):
            self.needs_help(event.task)
        if not is_stale and self.world.machine.inspect((event.task, event.attempt)) is Presence.ALIVE:
            self.violated(9, f"attempt {event.attempt} of task {event.task} ended while its agent lives")

    def needs_help(self, task: str) -> None:
        """A task waits for a person from now on."""
        self._helped.discard(task)

    def amended(self, before: set[str], state: RunState) -> None:
        """Another plan helps the tasks that waited for a person and do not wait any more."""
        for name in before:
            if name in state.tasks and state.tasks[name].status is not TaskStatus.BLOCKED:
                self.helped(name)

    def helped(self, task: str) -> None:
        """Somebody did what a task waited for, and says so."""
        self._helped.add(task)

    def decided(self, state: RunState, now: float) -> None:
        """Nothing is left to decide after a turn. Asked in every eighth run: it doubles what deciding costs."""
        if self.world.seed % 8 == 0 and (more := decide(state, now)):
            self.violated(14, f"there was more to decide: {more}")

    def starting(self, runner: SimulatedRunner, task: str, provider: str) -> None:
        """What starts may start: it is wanted, it has a workspace, a budget and a provider, and keeps earlier work."""
        state, row = runner.state, runner.state.row
        if state.tasks[task].latest.kind is AttemptKind.PERSON:
            return  # A person's work costs nothing, and needs no provider.
        if waits_for_person(state.tasks[task]):
            self.violated(14, f"task {task} starts although it waits for a person")
        stage = state.stage_of[task]
        self._require_provider(runner, task, provider)
        if row.pausing or row.stopping:
            self.violated(14, f"task {task} starts although the run is to rest")
        if row.base_check.status in _BASE_IS_OPEN and sum(one.attempt for one in state.tasks.values()) == 1:
            self.violated(14, f"task {task} starts before anybody knows the base")
        if len(state.active) > state.jobs:
            self.violated(9, f"{len(state.active)} tasks are under way, more than {state.jobs}")
        if state.abandoned[stage] and not state.plan.limits.keep_going:
            self.violated(14, f"task {task} starts in stage {stage}, which an abandoned task stopped")
        if state.selected is not None and task not in state.selected:
            self.violated(14, f"task {task} starts, and nobody selected it")
        if check_is_unrunnable(state):
            self.violated(14, f"task {task} starts although a check cannot be executed")
        if state.tokens_max is not None and row.tokens >= state.tokens_max:
            self.violated(14, f"task {task} starts although the run's tokens are spent")
        self._require_help(runner, task)

    def _require_provider(self, runner: SimulatedRunner, task: str, provider: str) -> None:
        """Nobody starts through a provider that is parked or refuses us, nor with a model that is refused."""
        state, row = runner.state, runner.state.row
        parked = row.parked.get(provider)
        if parked is not None and (parked.not_before > runner.clock or parked.shut_in == row.epoch):
            self.violated(14, f"task {task} starts through {provider}, which is parked")
        if parked is not None and parked.probe:
            self.world.met("probe")
            self._require_only_probe(state, task, provider)
        refused = row.shut_agents.get(state.tasks[task].latest.agent)
        if refused is not None and refused.shut_in == row.epoch:
            self.violated(14, f"task {task} starts with an agent whose model is refused")

    def _require_only_probe(self, state: RunState, task: str, provider: str) -> None:
        """Whoever starts through a provider that may still be out of reach is its only probe."""
        others = [one for one in state.active.values() if one.id != task and one.status is TaskStatus.RUNNING]
        if not state.tasks[task].latest.probes:
            self.violated(
                14, f"task {task} starts through {provider}, and does not know that it is its probe"
            )
        if any(one.latest.probes and one.latest.provider == provider for one in others):
            self.violated(14, f"task {task} is the second probe of {provider}")

    def restarting(self, runner: SimulatedRunner, task: str) -> None:
        """Finished work is verified again only if it is wanted, somebody could help it, and it has a workspace."""
        state = runner.state
        if len(state.active) > state.jobs:
            self.violated(9, f"{len(state.active)} tasks are under way, more than {state.jobs}")
        if state.row.pausing or state.row.stopping:
            self.violated(14, f"task {task} is verified again although the run is to rest")
        if state.selected is not None and task not in state.selected:
            self.violated(14, f"task {task} is verified again, and nobody selected it")
        self._require_help(runner, task)

    def _require_help(self, runner: SimulatedRunner, task: str) -> None:
        if runner.state.tasks[task].blocked_in == runner.state.row.epoch and task not in self._helped:
            self.violated(14, f"task {task} is tried again before anybody could help it")

    def resting(self, runner: SimulatedRunner) -> None:
        """A run that rests has nothing under way, but for the workspace of a task that was skipped while it was made.

        The runner ends after that; nothing of the run depends on it.
        """
        if any(not isinstance(command, HandOver | None) for _, _, _, command in runner.waiting):
            self.violated(11, "the run rests while something of it is under way")

    def after_crash(self) -> None:
        """Whatever was acknowledged is still there, and the stored run contradicts nothing."""
        world = self.world
        if len(world.journal.appends) < world.acknowledged:
            self.violated(7, "events that were acknowledged are gone")
        if not world.rewound:
            self.check(world.journal.look(), settled=False)

    def stale(self, before: tuple[object, ...], after: tuple[object, ...]) -> None:
        """A runner that lost its lease has had no effect since."""
        if before != after:
            self.violated(10, f"a runner without the lease went from {before} to {after}")

    def check(self, state: RunState, *, settled: bool) -> None:
        """Ask for every invariant that a moment shows."""
        world = self.world
        repository = world.repository
        replaced = replacements(state)
        evidence = Evidence(
            settled=settled,
            branch=repository.facts(),
            lost_tips=tuple(repository.lost),
            prepared=None if world.rebuilt else frozenset(world.prepared),
            once_skipped=frozenset(world.skipped),
            off_branch=frozenset(commit for commit in replaced if not repository.contains(commit)),
            live=world.machine.live(),
        )
        found = violations(state, evidence)
        if found:
            raise ViolatedError(world.seed, found)

    # -- the end --------------------------------------------------------------------------------------------

    def end(self, runner: SimulatedRunner) -> None:
        """The run has come to its end: nothing is left to do, nothing lives, nothing was done twice."""
        world, state = self.world, runner.state
        row = state.row
        unsettled = [task.id for task in state.tasks.values() if task.status not in TASK_IS_SETTLED]
        if row.status is RunStatus.COMPLETED and unsettled:
            self.violated(14, f"the run is completed without {unsettled}")
        self._notice_last_commits(runner)
        self.check(state, settled=True)
        if row.status is RunStatus.BLOCKED and not row.reason:
            self.violated(14, "the run is blocked for no reason")
        if row.tokens > sum(agent.tokens for agent in world.machine.agents.values()):
            self.violated(9, "tokens were counted twice")
        if world.machine.live():
            self.violated(11, "agents outlive their run")
        folded = self.history(world.journal)
        self._check_landed_work()
        # The queues of a run that is completed are empty: a quarter of those is enough.
        if row.status is not RunStatus.COMPLETED or world.seed % 4 == 0:
            self._check_queues(state, folded)

    def _check_queues(self, state: RunState, folded: RunState) -> None:
        """Queues are not stored: those built from the rows are those that the events led to, on disk and in memory."""
        stored = queues(RunState(folded.plan, folded.row, folded.tasks.values()))
        if stored != queues(folded):
            self.violated(8, "the queues of the stored rows are not those of the events")
        if state.selected is None and stored != queues(state):
            self.violated(8, "the queues of the stored rows are not those the run ended with")

    def _notice_last_commits(self, runner: SimulatedRunner) -> None:
        """Somebody may have worked on the branch after our last landing; nothing else may be left to notice."""
        state = runner.state
        if any(task.status is TaskStatus.RUNNING for task in state.active.values()):
            self.violated(13, "the run ended while a task was worked on")
        found = reconcile(state, runner.gather_facts({}))
        noticed = [event for event in found if self.world.rewound or type(event) is ev.BranchMoved]
        if noticed:
            state.apply_all(noticed)
            runner.append(noticed)
            found = reconcile(state, runner.gather_facts({}))
        if any(not self._may_come(event) for event in found):
            self.violated(13, "the run ended with something left to recover")

    def _may_come(self, event: ev.Event) -> bool:
        """Tell whether a run may end with this left to recover: with a runner, no hand-over is."""
        if isinstance(event, ev.HandOverInterrupted):
            return event.task in self.world.hands.cut_short
        return isinstance(event, ev.StageGateReset | ev.ProviderParked)

    def history(self, journal: SimulatedJournal) -> RunState:
        """Fold all events and compare with what was stored, each time that somebody read it and at the end."""
        state = RunState(journal.first_plan, first_row(journal.first))
        count, landed, left = self.world.rows.count, set[str](), dict[str, SimulatedWork]()
        answered: dict[str, Parked] = {}
        for number, events in enumerate(journal.appends, start=1):
            try:
                for event in events:
                    count(state, event)
                    if type(event) in _CONCERNS_WORK:
                        self._check_work(state, event, landed, left)
                    self._check_outage(state, event, answered)
                    state.apply(event)
            except IllegalEventError as error:
                self.violated(8, f"the journal's events contradict each other: {error}")
            if number in journal.reads:
                self._compare(state, journal.reads[number])
        if journal.appends:
            self._compare(state, journal.rows)
        return state

    def _compare(self, state: RunState, stored: StoredRows) -> None:
        if encode_row(state.row) != stored.run:
            self.violated(8, "the stored row of the run is not what its events add up to")
        for name, row in state.tasks.items():
            if encode_row(row) != (stored.tasks.get(name) or encode_row(TaskRow(id=name))):
                self.violated(8, f"the stored row of task {name} is not what its events add up to")

    def _check_work(
        self, state: RunState, event: Any, landed: set[str], left: dict[str, SimulatedWork]
    ) -> None:
        """Nothing that landed is done again, and an agent that goes on begins with all the work that was left."""
        kind = type(event)
        work = self.world.repository.work
        if kind is ev.PlanAmended:
            self._check_amended(event.plan, landed, left)
        elif kind is ev.AttemptStarted:
            self._check_started(state, event, landed, left)
        elif kind is ev.TaskLanded:
            landed.add(event.task)
        elif kind is ev.LandingVanished:
            landed.discard(event.task)
        elif self._starts_clean(state, event):
            left.pop(event.task, None)
        elif kind in _LEAVES and not state.specs[event.task].run:
            commit = getattr(event, _LEAVES[kind])
            if commit and getattr(event, "failure", None) is not FailureKind.SIDE_LOST:
                left[event.task] = work.get(commit, NO_WORK)

    def _check_outage(self, state: RunState, event: ev.Event, answered: dict[str, Parked]) -> None:
        """After first words an outage is the same one, and counted on, until an attempt ends otherwise."""
        match event:
            case ev.ProviderParked(provider=provider, reason=ParkReason.OUTAGE):
                before = answered.pop(provider, None)
                if before is not None and (event.since != before.since or event.hits <= before.hits):
                    self.violated(14, f"the outage of {provider} was forgotten before it was over")
            case ev.ProviderAnswered(provider=provider, provisional=True):
                parked = state.row.parked[provider]
                if parked.reason is ParkReason.OUTAGE:
                    answered[provider] = parked
            case ev.ProviderParked() | ev.ProviderAnswered() | ev.ProviderShut():
                answered.pop(event.provider, None)
            case ev.AttemptDone() | ev.AttemptFailed() | ev.AttemptAsked():
                answered.pop(state.tasks[event.task].latest.provider, None)

    def _check_started(
        self, state: RunState, event: ev.AttemptStarted, landed: set[str], left: dict[str, SimulatedWork]
    ) -> None:
        name = event.task
        if name in landed:
            self.violated(2, f"task {name} was done again")
        if event.attempt_kind is AttemptKind.PERSON:
            return  # it begins with what a person gives
        first, second = left.get(name, NO_WORK)
        found = self.world.repository.work.get(event.start, NO_WORK)
        if state.tasks[name].recheck:
            self.violated(6, f"task {name} is done again although its finished work waits")
        if found.first < first or found.second < second:
            self.violated(6, f"task {name} begins with {found}, although {first, second} was left")

    def _check_amended(self, plan: Plan, landed: set[str], left: dict[str, SimulatedWork]) -> None:
        """What landed stays in the plan; what a dropped task left is at its refs, and nobody goes on from it."""
        stay = {task.id for _, task in plan.tasks()}
        for name in left.keys() - stay:
            del left[name]
        if gone := landed - stay:
            self.violated(2, f"{gone} landed and is not in the amended plan")

    def _starts_clean(self, state: RunState, event: Any) -> bool:
        """Tell whether the next attempt starts without what was left: somebody wants that, or it is not carried on."""
        if isinstance(event, ev.TaskRewound) or (isinstance(event, ev.TaskRetried) and event.clean):
            return True
        return isinstance(event, ev.AttemptLost) and self._is_dropped(state, event)

    def _is_dropped(self, state: RunState, event: ev.AttemptLost) -> bool:
        """Tell whether work is not carried on: its commit is gone, or it had hardly begun."""
        task = state.tasks[event.task]
        report = task.latest.report
        hardly_begun = report is not None and (report.progress or 0.0) < state.plan.limits.restart_below
        return (hardly_begun and event.is_accident) or task.status is not TaskStatus.RUNNING

    def _check_landed_work(self) -> None:
        """No half-done work of a command is in what landed, and nothing of an agent's twice."""
        specs = {task.id: task for _, task in self.world.plan.tasks()}
        for landing in self.world.repository.landed():
            if landing.task not in specs:
                continue  # somebody took it off the branch, dropped it, and put it back
            work = self.world.repository.work.get(landing.head, NO_WORK)
            whole = work.first == work.second if specs[landing.task].run else work == (1, 1)
            if not landing.adopted and not whole:
                self.violated(2, f"task {landing.task} landed with {work}")
