"""Agents that ask, and people who answer them, take tasks into their own hands and give them back.

All of it is drawn from a source of chance of its own: a run without it is the same run as before. What a person has written is in
nobody's process: no crash touches it.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from holdfast.core import events as ev
from holdfast.core.people import asked_in_latest, open_questions
from holdfast.core.projection import TaskRow
from holdfast.core.state import RunState
from holdfast.core.status import FailureKind
from holdfast.core.task_transitions import TASK_EVENTS
from tests.core.simulation.journal import NoRoomError
from tests.core.simulation.machine import SimulatedAgent
from tests.core.simulation.repository import NO_WORK, SimulatedWork

if TYPE_CHECKING:
    from tests.core.simulation.runner import SimulatedEffect, SimulatedRunner
    from tests.core.simulation.simulation import Simulation

_SEED = 10**9
MAY_COME_TOO_LATE = (
    ev.QuestionAnswered,
    ev.TaskTaken,
    ev.TaskGiven,
    ev.TaskHandedOver,
    ev.HandOverInterrupted,
)
"""What a person decided, or was handed, while the task moved on."""


class Hands:
    """Those who work by hand in one run. `files` are what is in their workspaces.

    `cut_short` are the tasks that somebody took without a runner and was killed before the workspace was there.
    """

    def __init__(self, world: Simulation) -> None:
        self.world = world
        self.rng = Random(_SEED + world.seed)
        self.random = self.rng.random
        self.are_busy = self.random() < 0.35
        self.asks = self.rng.choice((0.1, 0.5)) if self.are_busy else 0.0
        self.files: dict[str, SimulatedWork] = {}
        self.cut_short: set[str] = set()

    # -- agents that ask ------------------------------------------------------------------------------------

    def question(self, task: TaskRow) -> list[ev.Event]:
        """Return what an agent asks while it works, or when it gives up; mostly nothing."""
        if self.random() >= self.asks:
            return []
        self.world.met("question")
        text = self.rng.choice(("Which?", "Really?"))
        return [ev.QuestionAsked(task=task.id, attempt=task.attempt, question=text)]

    def ended_at_question(self, task: TaskRow, carry: str, *, failed: bool) -> list[ev.Event]:
        """Return the end of an attempt that asked, or that failed and said what keeps it; nothing for others."""
        asked = [] if asked_in_latest(task) or not failed else self.question(task)
        if not asked and not asked_in_latest(task):
            return []
        token = task.latest.token
        return [*asked, ev.AttemptAsked(task=task.id, attempt=task.attempt, token=token, carry=carry)]

    # -- people ---------------------------------------------------------------------------------------------

    def meet(self, runner: SimulatedRunner) -> SimulatedEffect:
        """Do this and that by hand while a runner lives."""
        for _ in range(4 if self.are_busy else 0):
            yield self.random() * 15
            if decided := self._decide(runner.state):
                runner.deliver(decided)

    def at_rest(self) -> None:
        """Decide something about a run without a runner, under its lease."""
        if not self.are_busy or self.random() < 0.4:
            return
        world = self.world
        state = world.journal.load()
        for event in self._decide(state):
            world.people.record(state, [event])
            if isinstance(event, ev.TaskTaken):
                self._take_at_rest(state, state.tasks[event.task])

    def _take_at_rest(self, state: RunState, task: TaskRow) -> None:
        """Hand a task over without a runner. Whoever does that may be killed in the middle."""
        start = task.set_aside or task.carry or state.row.tip
        self.world.people.record(state, [ev.HandOverStarted(task=task.id, start=start)])
        self.cut_short.add(task.id)
        if self.random() < 0.7:
            self.cut_short.discard(task.id)
            self.files[task.id] = self.world.repository.work.get(start, NO_WORK)
            self.world.people.record(state, [ev.TaskHandedOver(task=task.id, place="p")])

    def _decide(self, state: RunState) -> list[ev.Event]:
        kind = self.random()
        tasks = list(state.tasks.values())
        if kind < 0.3:
            asked = [task for task in tasks if open_questions(task)]
            allowed = [task for task in asked if task.status in TASK_EVENTS[ev.QuestionAnswered].moves]
            return [ev.QuestionAnswered(task=self._one(allowed).id, answer="this")] if allowed else []
        if kind < 0.55:
            free = [task for task in tasks if self._can_be_taken(state, task)]
            return [ev.TaskTaken(task=self._one(free).id)] if free else []
        held = [task for task in tasks if task.taken and task.taken.ready and not task.taken.given]
        held = [task for task in held if task.status in TASK_EVENTS[ev.TaskGiven].moves]
        return [self._give(state, self._one(held))] if held else []

    def _one(self, tasks: list[TaskRow]) -> TaskRow:
        return self.rng.choice(tasks)

    def _can_be_taken(self, state: RunState, task: TaskRow) -> bool:
        may = task.status in TASK_EVENTS[ev.TaskTaken].moves and state.needs_met(task)
        return may and (task.taken is None or (task.taken.ready and not task.taken.given))

    def _give(self, state: RunState, task: TaskRow) -> ev.Event:
        """Finish the work, or do a part of it and return it. A person leaves no command's work half done."""
        self.world.met("given")
        back = self.random() < 0.3
        first, second = self.files[task.id]
        if state.specs[task.id].run:
            whole = max(first, second, 1)
            self.files[task.id] = SimulatedWork(whole, whole)
        else:
            self.files[task.id] = SimulatedWork(1, second if back else 1)
        return ev.TaskGiven(task=task.id, back=back)

    # -- what the runner does for them ----------------------------------------------------------------------

    def hand_over(self, runner: SimulatedRunner, name: str, start: str) -> SimulatedEffect:
        """Make the workspace of the person who took a task."""
        if not self.world.room:
            raise NoRoomError
        yield self.random() * 3
        self.world.step()
        runner.require_lease()
        self.files[name] = self.world.repository.work.get(start, NO_WORK)
        self.world.met("handed over")
        runner.deliver([ev.TaskHandedOver(task=name, place="p")])

    def take_in(self, runner: SimulatedRunner, task: TaskRow) -> SimulatedEffect:
        """Commit what a person gave, once, and say how that attempt ended."""
        yield self.random() * 3
        runner.require_lease()
        made = self._committed(runner, task)
        self.world.step()
        taken, work = task.taken, self.world.repository.work.get(made.collected, NO_WORK)
        name, number, token = task.id, task.attempt, task.latest.token
        carry = made.collected if work != NO_WORK else ""
        if taken is not None and taken.given == "back":
            runner.deliver([ev.AttemptReturned(task=name, attempt=number, token=token, carry=carry)])
        elif made.fate == "fail":
            failed = ev.AttemptFailed(
                task=name, attempt=number, token=token, failure=FailureKind.REJECTED, error="no", carry=carry
            )
            runner.deliver([failed])
        else:
            head = made.collected
            runner.deliver(
                [
                    ev.AttemptDone(
                        task=name,
                        attempt=number,
                        token=token,
                        head=head,
                        tree=f"tree{work.first}{work.second}",
                    )
                ]
            )

    def _committed(self, runner: SimulatedRunner, task: TaskRow) -> SimulatedAgent:
        """Return the record of a person's attempt, with the commit that was made of it."""
        agents, key = runner.machine.agents, (task.id, task.attempt)
        if key not in agents:
            self.world.require_commit()
            now = runner.machine.now
            fate = "fail" if self.random() < self.world.rates.agent_fails else "done"
            made = SimulatedAgent(token=task.latest.token, fate=fate, began_at=now, ends_at=now)
            made.collected = self.world.repository.commit(task.latest.start, self.files[task.id])
            agents[key] = made
        return agents[key]
