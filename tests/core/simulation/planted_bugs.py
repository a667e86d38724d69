"""Classic mistakes, each planted in the simulated runner: what the simulation must notice, or it is worth nothing."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from holdfast.core import events as ev
from holdfast.core.commands import Command
from holdfast.core.facts import Facts, Sighting
from holdfast.core.projection import TaskRow
from holdfast.core.status import TaskStatus
from holdfast.core.task_transitions import IllegalEventError
from tests.core.simulation.runner import RunnerEndedError, SimulatedRunner


class WithoutCompareAndSwap(SimulatedRunner):
    """Moves the branch without looking where it is."""

    def swap(self, old: str, new: str) -> bool:  # noqa: ARG002 (that it goes unused is the bug)
        """Move it, whatever it points at."""
        self.world.repository.move(new)
        return True


class BlindToLandings(SimulatedRunner):
    """Recovers without asking git whether an interrupted landing had happened."""

    def gather_facts(self, sightings: dict[str, Sighting]) -> Facts:
        """Leave out what the journal does not know."""
        facts = super().gather_facts(sightings)
        known = tuple(
            landing
            for landing in facts.branch.landings
            if self.state.tasks[landing.task].status is TaskStatus.COMPLETED
        )
        return replace(facts, branch=replace(facts.branch, landings=known))


class TakesOutdatedResults(SimulatedRunner):
    """Believes every result, whichever attempt it comes from."""

    def take(self, event: ev.Event) -> ev.Event | None:
        """Take the result of an old attempt for that of the present one."""
        if self.is_outdated(event):
            row = self.state.tasks[event.task]  # type: ignore[attr-defined]
            fields = {"attempt": row.attempt, "token": row.latest.token}
            present = {name: fields[name] for name in fields if name in event.__struct_fields__}
            event = msgspec.structs.replace(event, **present)
        try:
            self.state.apply(event)
        except IllegalEventError:
            return None
        return event


class ActsBeforeDurable(SimulatedRunner):
    """Starts effects first and writes their intents down afterwards."""

    def carry_out(self, events: list[ev.Event], commands: list[Command]) -> None:
        """Act, then write."""
        for command in commands:
            self.act(command)
        self.append(events)


class ActsAfterFailedAppend(SimulatedRunner):
    """Goes on when the journal's disk is full, as if the events had been written."""

    def append(self, events: list[ev.Event]) -> None:
        """Write if there is room."""
        if not self.world.journal.full:
            super().append(events)


class AcknowledgesBeforeSync(SimulatedRunner):
    """Tells people what is written but not synced."""

    def append(self, events: list[ev.Event]) -> None:
        """Write, tell, sync."""
        if not events:
            return
        self.world.step()
        if self.world.journal.full or self.epoch != self.world.journal.epoch:
            raise RunnerEndedError
        self.world.journal.append(self.epoch, events, self.state)
        self.world.tell(events)
        self.world.step()
        self.world.journal.sync()


class BelievesUnsyncedBranch(SimulatedRunner):
    """Records as landed what a killed runner had moved the branch to, without making that survive a power cut."""

    def gather_facts(self, sightings: dict[str, Sighting]) -> Facts:
        """Look at the branch and forget to sync it."""
        synced, self.world.repository.sync = self.world.repository.sync, lambda: None  # type: ignore[method-assign]
        try:
            return super().gather_facts(sightings)
        finally:
            self.world.repository.sync = synced  # type: ignore[method-assign]


class AppendsWithoutLease(SimulatedRunner):
    """Writes to the journal without looking whether another runner has taken over."""

    def append(self, events: list[ev.Event]) -> None:
        """Write under whatever epoch the journal is at."""
        self.epoch = self.world.journal.epoch
        super().append(events)


class ActsWithoutLease(SimulatedRunner):
    """Starts agents and moves the branch without looking whether another runner has taken over."""

    def require_lease(self) -> None:
        """Look away."""


class BuildsOnTornFiles(SimulatedRunner):
    """Goes on from the files of a lost agent, also if a power cut may have torn them."""

    def keep_lost_work(self, task: TaskRow, *, rebooted: bool) -> list[ev.Event]:  # noqa: ARG002 (the bug)
        """Save them as if only the agent had been killed."""
        return super().keep_lost_work(task, rebooted=False)


class ReadsBeforeFencing(SimulatedRunner):
    """Reads the run first and fences off the last runner afterwards."""

    def read_run(self) -> None:
        """Read, then take the epoch: whoever writes in between is overlooked."""
        state = self.world.journal.load()
        self.world.step()
        super().read_run()
        state.providers = self.state.providers
        self.state = state


class ForgetsEffectsOnFullDisks(SimulatedRunner):
    """Does not undo the intent of an effect that a full disk prevented."""

    def undo(self, command: Command | None) -> list[ev.Event]:  # noqa: ARG002 (that it goes unused is the bug)
        """Undo nothing."""
        return []


class RunsOnTheTimeOfDay(SimulatedRunner):
    """Measures waits by the time of day."""

    def read_run(self) -> None:
        """Look at the clock on the wall."""
        super().read_run()
        self._began_at_wall = self.machine.wall

    @property
    def clock(self) -> float:
        """The time of day since this runner began."""
        return self._clock_before + self.machine.wall - self._began_at_wall


class StopsNoAgents(SimulatedRunner):
    """Comes to rest without ending its agents."""

    def cancel_agents(self) -> None:
        """Say that they are gone."""
        for task in list(self.state.active.values()):
            if task.status is TaskStatus.RUNNING:
                self.deliver([ev.AttemptLost(task=task.id, attempt=task.attempt, cause="stop")])


class ContinuesCommands(SimulatedRunner):
    """Lets a command that was cut short go on from its own half-done work, as if it were an agent."""

    def read_run(self) -> None:
        """Take every command for an agent."""
        super().read_run()
        self.state.starts_clean = lambda task: False  # type: ignore[method-assign]


class LandsWhatHasLanded(SimulatedRunner):
    """Takes a branch that somebody else moved for one with another commit on it, and lands again."""

    def about_moved_branch(self) -> ev.Event:
        """Build on it, whatever it holds."""
        return ev.BranchMoved(commit=self.world.repository.tip)
