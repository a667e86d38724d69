"""What people do to a run: decisions while it lives or rests, commits on its branch, other files, a lost journal.

None of it may break an invariant. What somebody takes off the branch is gone by his own hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from holdfast.core import events as ev
from holdfast.core.adoption import (
    Claim,
    ClaimedStatus,
    InheritedWork,
    JudgedClaim,
    Verdict,
    inherited_events,
)
from holdfast.core.projection import PastFailure
from holdfast.core.rebuild import passed_over, rebuild_events
from holdfast.core.run_transitions import first_row
from holdfast.core.state import RunState
from holdfast.core.status import StageStatus, TaskStatus
from holdfast.core.task_transitions import TASK_EVENTS
from holdfast.core.user_decisions import first_redone, gate_waivers, rewind_events, rewind_scope
from tests.core.simulation.amendments import random_amendment
from tests.core.simulation.journal import SimulatedJournal
from tests.core.simulation.machine import SimulatedAgent
from tests.core.simulation.repository import NO_WORK, SimulatedWork

if TYPE_CHECKING:
    from tests.core.simulation.runner import SimulatedEffect, SimulatedRunner
    from tests.core.simulation.simulation import Simulation

_ABOVE_ANY_EPOCH = 1000
_LATE_RESULTS = 3
_LASTS_SHORTLY = (TaskStatus.FAILED, TaskStatus.VERIFYING, TaskStatus.VERIFIED)
_BEFORE_PUT_BACK = (*TASK_EVENTS[ev.TaskLanded].moves, *_LASTS_SHORTLY * 4)
"""Every status that a task can be in when somebody puts its landing back; those more often that do not last."""


class People:
    """Everybody who is not Holdfast."""

    def __init__(self, world: Simulation, *, meddle: bool) -> None:
        self.world = world
        self.inherited: list[ev.Event] = []
        self.dropped: dict[str, int] = {}
        # Each run gets people with habits of their own: so what is rare meets what is rare.
        self.meddles = meddle or world.random() < 0.03
        self.decides = world.random() < 0.2

    # -- a runner that lives --------------------------------------------------------------------------------

    def welcome(self, runner: SimulatedRunner) -> None:
        """Decide what to do about abandoned tasks, and plan what else to do meanwhile."""
        world, state, random = self.world, runner.state, self.world.random
        if world.resumes > 0:
            for name in [name for name, task in state.tasks.items() if task.status is TaskStatus.ABANDONED]:
                event = ev.TaskRetried(task=name) if random() < 0.5 else ev.TaskSkipped(task=name)
                runner.deliver([event])
        if self.meddles and world.resumes > 0:
            runner.begin(self._halt(runner))
        runner.begin(world.hands.meet(runner))
        if random() < 0.2:
            runner.begin(self._repeat_results(runner))
        if self.meddles and random() < 0.5:
            runner.begin(self._look_after_gates(runner))
        for _ in range(world.rates.interferences):
            if world.interferences < world.rates.interferences and random() < 0.7:
                world.interferences += 1
                runner.begin(self._interfere(runner))

    def _halt(self, runner: SimulatedRunner) -> SimulatedEffect:
        """Interrupt the run, for somebody who then works on its branch.

        If he took a landing off, that is when its task, which is done again, has come to some status.
        """
        task, random = self.world.repository.taken_off(), self.world.random
        if not task:
            yield random() * 60
            runner.deliver([ev.StopRequested() if random() < 0.5 else ev.PauseRequested(now=True)])
            return
        wanted, row = self.world.rng.choice(_BEFORE_PUT_BACK), runner.state.tasks[task]
        for _ in range(60):
            yield random()
            if wanted is TaskStatus.SKIPPED and row.status in TASK_EVENTS[ev.TaskSkipped].moves:
                runner.deliver([ev.TaskSkipped(task=task)])
            if wanted is TaskStatus.VERIFIED and row.status is TaskStatus.MERGING:
                runner.deliver([ev.StopRequested()])
                return
            if row.status is wanted:
                break
        if random() < 0.2:
            self._work_under_runner()
        else:
            self.world.kill()

    def give_options(self, state: RunState) -> None:
        """The user resumes with options: only some tasks, more or fewer jobs, larger budgets, native sessions."""
        world, random = self.world, self.world.random
        state.accepts_base = world.resumes <= 0
        if world.resumes > 0 and random() < 0.1:
            state.select(frozenset(name for name in state.tasks if random() < 0.5))
        elif self.meddles and random() < 0.1:
            # He wants nothing but what was abandoned, also if that builds on what he has just taken off.
            state.select(
                frozenset(n for n, task in state.tasks.items() if task.status is TaskStatus.ABANDONED)
            )
        if random() < 0.1:
            state.jobs, state.native_resume = world.rng.randint(1, 4), True
        if state.tokens_max is not None and random() < 0.5:
            state.tokens_max += 100
        if state.cost_max is not None and random() < 0.5:
            state.cost_max += 10.0

    def _interfere(self, runner: SimulatedRunner) -> SimulatedEffect:
        world, random = self.world, self.world.random
        yield random() * 40
        match int(random() * 10):
            case 0:
                runner.deliver([ev.StopRequested()])
            case 1 | 2:
                runner.deliver([ev.PauseRequested(now=random() < 0.5)])
            case 3 | 4 | 5 | 6:
                self._decide(runner)
            case 7:
                world.met("commit by somebody")
                world.repository.commit_by_somebody()
            case 8:
                self._use_mirrors(runner)
                runner.amend()
            case _:
                self._work_under_runner()

    def _look_after_gates(self, runner: SimulatedRunner) -> SimulatedEffect:
        """Waive a gate as soon as it has failed. A run that has nothing else to do blocks then, so there is not much time."""
        for _ in range(120):
            yield self.world.random()
            if self._failed_gates(runner):
                self._decide(runner)
                return

    def _repeat_results(self, runner: SimulatedRunner) -> SimulatedEffect:
        """Results of attempts that are over come in again."""
        yield self.world.random() * 60
        late = [event for event in self.world.said if runner.is_outdated(event)]
        if late:
            runner.deliver(late[-_LATE_RESULTS:])

    def _failed_gates(self, runner: SimulatedRunner) -> list[str]:
        return [name for name, row in runner.state.row.stages.items() if row.status is StageStatus.BLOCKED]

    def _decide(self, runner: SimulatedRunner) -> None:
        """Waive the gates that failed, or else retry or skip a task."""
        if blocked := self._failed_gates(runner):
            self.world.met("gate waived under a runner")
            runner.deliver([*gate_waivers(runner.state, blocked)])
        elif decided := self._retry_or_skip(runner.state):
            self.world.met("skip or retry")
            runner.deliver(decided)

    def _work_under_runner(self) -> None:
        """Somebody takes the last commit off the branch while a runner lives, or puts it back."""
        world = self.world
        if world.repository.taken_off():
            world.met("put back under a runner")
            world.rewound = True
            world.repository.put_back_by_somebody()
        elif world.repository.rewind_by_somebody():
            world.met("rewind under a runner")
            world.rewound = True

    def _use_mirrors(self, runner: SimulatedRunner) -> None:
        """Want another system's files, or no longer; and what else is only noted."""
        wanted = [ev.MirrorKept(system="apex", folder="f"), ev.MirrorFailed(system="apex", error="e")]
        noted = [
            ev.IntrusionNoticed(tasks=(), place=".", paths=("f",)),
            ev.NotificationFailed(channel="c", error="e"),
        ]
        landed = [name for name, task in runner.state.tasks.items() if task.status is TaskStatus.COMPLETED]
        ticked = [ev.TickFailed(task=landed[0], error="e"), ev.PointsTicked(task=landed[0])] if landed else []
        runner.deliver([*wanted, *noted, ev.TickingStarted(), *ticked, ev.TickingEnded()])
        if self.world.random() < 0.5:
            runner.deliver([ev.MirrorEnded(system="apex")])

    # -- no runner ------------------------------------------------------------------------------------------

    def while_dead(self) -> None:
        """After a crash somebody works on the branch, the disk loses a commit, or the journal is lost."""
        world, random = self.world, self.world.random
        if self.meddles or random() < 0.1:
            self._work_on_branch()
        if random() < 0.15:
            self._lose_a_commit()
        if random() < 0.05:
            world.met("journal rebuilt")
            self.rebuild()

    def _work_on_branch(self) -> None:
        """Somebody commits on the run branch, takes the last commit off or puts it back, squashes or deletes."""
        world, repository = self.world, self.world.repository
        if repository.taken_off():
            if world.random() < 0.8:
                world.met("put back by somebody")
                world.rewound = True
                repository.put_back_by_somebody()
            return
        kind = int(world.random() * 6)
        if kind < 3 and repository.rewind_by_somebody():
            world.met("rewind by somebody")
            world.rewound = True
            if self.meddles:
                # The task that is done again comes to rest in every possible status before its landing is put back.
                world.rates = world.rates._replace(
                    agent_fails=0.2, check_fails=0.2, needs_person=0.2, limits=0.2
                )
        elif kind == 3 and repository.squash_by_somebody():
            world.met("squash by somebody")
            world.rewound = True
        elif kind == 4:
            world.met("branch deleted")
            repository.exists = False
            world.rewound = True
        elif kind == 5:
            world.met("commit by somebody")
            repository.commit_by_somebody()

    def _lose_a_commit(self) -> None:
        """A commit that is being verified disappears: a damaged disk, or somebody's `git gc --prune=now`."""
        state = self.world.journal.look()
        rows = [*state.awaiting_restart.values(), *state.active.values()]
        heads = [task.latest.head for task in rows if task.latest.head]
        if heads:
            self.world.met("commit lost")
            self.world.repository.missing.add(heads[0])

    def at_rest(self) -> None:
        """Decide something about a run that rests, under its lease."""
        world, random = self.world, self.world.random
        world.hands.at_rest()
        if self.meddles:
            self._work_on_branch()
            self._retry_waiting_work()
        if random() < (0.2 if self.decides or self.meddles else 0.9):
            return
        state = world.journal.load()
        closed = any(row.status is StageStatus.COMPLETED for row in state.row.stages.values())
        match 7 if closed and random() < 0.3 else int(random() * 10):
            case 0:
                self._amend(state)
            case 1:
                blocked = [n for n, row in state.row.stages.items() if row.status is StageStatus.BLOCKED]
                self.record(state, [*gate_waivers(state, blocked)])
            case 2 | 3 | 4:
                self.record(state, self._retry_or_skip(state))
            case 5:
                self.record(state, self._skip_stage(state))
            case 6:
                self.record(state, self._reset(state))
            case 7 | 8:
                self.record(state, self._rewind(state))
            case _:
                if random() < 0.3 and not world.repository.missing:
                    self.record(state, [ev.RunAbandoned(reason="enough")])

    def _amend(self, state: RunState) -> None:
        """Somebody edits the plan of a run that rests."""
        world = self.world
        unclear = world.repository.taken_off() or world.repository.has_more_than(state)
        event = None if unclear else random_amendment(world.rng, state)
        if event is None:
            world.met("amendment refused")
            return
        self.record(state, [event])
        if world.random() < 0.9:  # whoever is killed before git keeps it leaves that to the next runner
            world.plan = state.plan

    def _retry_waiting_work(self) -> None:
        """Somebody has finished work verified again; now and then its commit is gone before that."""
        state = self.world.journal.load()
        if self.world.random() < 0.6:
            self.record(state, [ev.TaskRetried(task=name) for name in list(state.awaiting_restart)])
        if state.awaiting_restart and self.world.random() < 0.5:
            self._lose_a_commit()

    def _retry_or_skip(self, state: RunState) -> list[ev.Event]:
        """Return the decision about one task, rather about one that is neither pending nor settled."""
        if self.world.random() < 0.1:
            return self._retry_otherwise(state)
        kind = ev.TaskSkipped if self.world.random() < 0.5 else ev.TaskRetried
        names = [name for name, task in state.tasks.items() if task.status in TASK_EVENTS[kind].moves]
        between = [name for name in (*state.failed, *state.on_hold) if name in names]
        return [kind(task=self.world.rng.choice(between or names))] if names else []

    def _retry_otherwise(self, state: RunState) -> list[ev.Event]:
        """Return the retry of a task with a hint, by another agent, perhaps from a clean start."""
        names = [
            name for name, task in state.tasks.items() if task.status in TASK_EVENTS[ev.TaskRetried].moves
        ]
        if not names:
            return []
        name, clean = self.world.rng.choice(names), self.world.random() < 0.5
        self.world.met("retried with a hint")
        return [ev.TaskRetried(task=name, hint="use SQLite", agent="u", clean=clean)]

    def _skip_stage(self, state: RunState) -> list[ev.Event]:
        """Return what skips all that is left of a stage."""
        allowed = TASK_EVENTS[ev.TaskSkipped].moves
        tasks = [task.id for stage in [*state.current_stages][:1] for task in state.stages[stage].tasks]
        return [ev.TaskSkipped(task=name) for name in tasks if state.tasks[name].status in allowed]

    def _reset(self, state: RunState) -> list[ev.Event]:
        """Return the reset of a task that has not landed."""
        rule = TASK_EVENTS[ev.TaskRewound]
        names = [name for name, task in state.tasks.items() if task.status in rule.moves]
        return [ev.TaskRewound(task=self.world.rng.choice(names))] if names else []

    def _rewind(self, state: RunState) -> list[ev.Event]:
        """Return what begins the run again at a stage or a task of which nothing has landed."""
        places = {landing.task: at for at, landing in enumerate(self.world.repository.landed())}
        places |= {name: 0 for name, task in state.tasks.items() if task.status is TaskStatus.COMPLETED}
        scopes = [rewind_scope(state.plan, name) for name in (*state.stages, *state.names)]
        free = [scope for scope in scopes if scope is not None and first_redone(places, scope) is None]
        closed = [s for s in free if any(state.stage(n).status is StageStatus.COMPLETED for n in s.stages)]
        return rewind_events(state, self.world.rng.choice(closed or free)) if free else []

    def record(self, state: RunState, events: list[ev.Event]) -> None:
        """Record a decision about a run without a runner, under its lease."""
        if not events:
            return
        world = self.world
        for event in events:
            world.met(f"decided {type(event).__name__}")
            if isinstance(event, ev.TaskSkipped):
                world.skipped.add(event.task)
        state.apply_all(events)
        world.journal.take_epoch()
        world.journal.append(world.journal.epoch, events, state)
        world.journal.sync()
        world.tell(events)

    # -- a journal that is lost, a run that is adopted ------------------------------------------------------

    def rebuild(self) -> None:
        """The journal is lost; a new one is made from what git and the attempts' folders show."""
        world = self.world
        world.judge.history(world.journal)
        begun = list(self._begun_tasks())
        world.repository.sync()
        branch = world.repository.facts()
        started = replace(world.journal.first, epoch=world.journal.epoch + _ABOVE_ANY_EPOCH)
        journal = world.journal = SimulatedJournal(world.plan, started)
        state = RunState(world.plan, first_row(started))
        # The user is asked about each: he skipped it, or he squashed it himself.
        world.skipped |= world.repository.squashed
        skipped = [name for name in passed_over(world.plan, branch) if name in world.skipped]
        skipped += [event.task for event in self.inherited if isinstance(event, ev.TaskSkipped)]
        began = [event for event in self.inherited if isinstance(event, ev.RunAdopted | ev.TaskInherited)]
        events = rebuild_events(state, branch, begun, skipped, began, self.dropped)
        if not state.current_stages:
            events += state.apply_all([ev.RunCompleted()])
        journal.append(journal.take_epoch(), events, state)
        journal.sync()
        world.tell(events)
        world.rebuilt = True

    def _begun_tasks(self) -> list[ev.TaskRestored]:
        """Return what is left of every task that was ever begun, and has not landed. Nothing of it runs any more."""
        world, machine = self.world, self.world.machine
        last = {}
        for (name, number), agent in machine.agents.items():
            machine.cancel((name, number))
            last[name] = (number, agent)
        landed = {landing.task for landing in world.repository.landed()}
        specs = {task.id: task for _, task in world.plan.tasks()}
        found = []
        self.dropped = {name: number for name, (number, _) in last.items() if name not in specs}
        for name, (number, agent) in last.items():
            if name not in specs:
                continue
            left = "" if name in landed else self._left_by(agent)
            carry = left if world.plan.resume_mode(specs[name]) == "continue" else ""
            found.append(
                ev.TaskRestored(
                    task=name,
                    attempts=number,
                    carry=carry,
                    set_aside="" if carry else left,
                    base=world.repository.base if carry else "",
                )
            )
        return found

    def _left_by(self, agent: SimulatedAgent) -> str:
        """Return the commit with what an agent left, unless a power cut may have torn it."""
        work = agent.work(self.world.machine.now)
        if agent.collected or work == NO_WORK or agent.kept is not None:
            return agent.collected
        return self.world.repository.commit(self.world.repository.base, work)

    def adopt(self) -> None:
        """The run begins as one of another system, of which some tasks are done, skipped, tried or abandoned."""
        world = self.world
        state = world.journal.load()
        claims, judged, work = self._claims(state)
        limits = {name: state.limits_of(name).attempts for name in state.names}
        clean = {name for name, task in state.tasks.items() if state.starts_clean(task)}
        adopted = ev.RunAdopted(system="apex", name="n", main="m", digest="d")
        self.inherited = [adopted, *inherited_events(claims, judged, work, limits, clean)]
        events = [*self.inherited]
        finished = {name: one.evidence for name, one in judged.items() if one.verdict is Verdict.PROVEN}
        if finished:
            commit = world.repository.commit_adoption(finished)
            events += [
                ev.TaskLanded(task=name, attempt=1, commit=commit, head=head)
                for name, head in finished.items()
            ]
        self.record(state, events)

    def _claims(
        self, state: RunState
    ) -> tuple[list[Claim], dict[str, JudgedClaim], dict[str, InheritedWork]]:
        world, claims, judged, work = self.world, [], {}, {}
        kinds = (
            (ClaimedStatus.PENDING, Verdict.OPEN),
            (ClaimedStatus.DONE, Verdict.PROVEN),
            (ClaimedStatus.FAILED, Verdict.OPEN),
            (ClaimedStatus.SKIPPED, Verdict.SKIPPED),
            (ClaimedStatus.ABANDONED, Verdict.GIVEN_UP),
        )
        for name in state.names:
            standing, verdict = world.rng.choice(kinds)
            failures = (PastFailure(attempt=1, error="e"),) if standing is ClaimedStatus.FAILED else ()
            tried = len(failures)
            claims.append(Claim(task=name, standing=standing, attempts=tried, spent=tried, failures=failures))
            evidence = world.repository.commit(world.repository.base) if verdict is Verdict.PROVEN else ""
            judged[name] = JudgedClaim(task=name, verdict=verdict, evidence=evidence)
            if failures:
                half = world.repository.commit(world.repository.base, SimulatedWork(1, 0))
                work[name] = InheritedWork(half, world.repository.base, "w")
        return claims, judged, work
