"""The core under thousands of seeded runs with crashes, and proof that the simulation notices planted bugs."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import msgspec
import pytest

from holdfast.core import events as ev
from holdfast.core.commands import Command
from holdfast.core.facts import Facts
from holdfast.core.status import TaskStatus
from holdfast.core.task_transitions import IllegalEventError
from tests.core.simulation import Simulation, ViolatedError

_CHUNKS = 10
_SEEDS_PER_CHUNK = 500
_PLANTED_SEEDS = 400

FAULTS = (
    "limit", "needs person", "clock jump", "recovered ProviderParked",
    "crash", "branch had moved", "commit by somebody", "rewind by somebody", "refused", "skip or reset",
    "recovered AttemptLost", "recovered BranchMoved", "recovered ChecksInterrupted", "recovered LandingInterrupted",
    "recovered LandingVanished", "recovered StageGateReset", "recovered TaskLanded",
    "resumed when blocked", "resumed when paused", "resumed when stopped", "run blocked", "run completed",
)  # fmt: skip


@pytest.mark.parametrize("chunk", range(_CHUNKS))
def test_no_crash_loses_or_repeats_anything(chunk: int) -> None:
    """Whatever dies, whenever: every run ends or blocks with a reason, and every invariant holds on the way."""
    tally: Counter[str] = Counter()
    for seed in range(chunk * _SEEDS_PER_CHUNK, (chunk + 1) * _SEEDS_PER_CHUNK):
        tally.update(Simulation(seed).run())
    assert [fault for fault in FAULTS if not tally[fault]] == []


def test_a_seed_is_always_the_same_run() -> None:
    """A seed that fails can be played again: the same events in the same order."""
    runs = [Simulation(7), Simulation(7)]
    tallies = [run.run() for run in runs]
    assert tallies[0] == tallies[1]
    assert runs[0].disk.events == runs[1].disk.events


class WithoutCompareAndSwap(Simulation):
    """Moves the branch without looking where it is."""

    def _swap(self, old: str, new: str) -> bool:  # noqa: ARG002 (that it goes unused is the bug)
        self.repository.move(new)
        return True


class BlindToLandings(Simulation):
    """Recovers without asking git whether an interrupted landing had happened."""

    def _facts(self) -> Facts:
        facts = super()._facts()
        known = tuple(
            landing
            for landing in facts.branch.landings
            if self.state.tasks[landing.task].status is TaskStatus.COMPLETED
        )
        return replace(facts, branch=replace(facts.branch, landings=known))


class TakesStaleResults(Simulation):
    """Believes every result, whichever attempt it comes from."""

    def _take(self, event: ev.Event) -> ev.Event | None:
        if self._is_stale(event):
            row = self.state.tasks[event.task]  # type: ignore[attr-defined]
            fields = {"attempt": row.attempt, "token": row.latest.token}
            present = {name: fields[name] for name in fields if name in event.__struct_fields__}
            event = msgspec.structs.replace(event, **present)
        try:
            self.state.apply(event)
        except IllegalEventError:
            return None
        return event


class ActsBeforeDurable(Simulation):
    """Starts effects first and writes their intents down afterwards."""

    def _carry_out(self, events: list[ev.Event], commands: list[Command]) -> None:
        for command in commands:
            self._act(command)
        self._append(events)


@pytest.mark.parametrize(
    ("bug", "broken"),
    [(WithoutCompareAndSwap, 3), (BlindToLandings, 2), (TakesStaleResults, 9), (ActsBeforeDurable, 9)],
)
def test_a_planted_bug_is_caught(bug: type[Simulation], broken: int) -> None:
    """The simulation would notice each of the classic mistakes, and names the invariant that it breaks."""
    assert broken in _first_violation(bug)


def _first_violation(bug: type[Simulation]) -> set[int]:
    for seed in range(_PLANTED_SEEDS):
        try:
            bug(seed).run()
        except ViolatedError as error:
            return error.numbers
    return set()
