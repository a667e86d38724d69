"""The core under thousands of seeded runs with faults: nothing is lost or repeated, and nothing is left untried.

And proof that the simulation notices planted bugs.
"""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from holdfast.core import budgets, decide, events as ev, native_resume, provider_limits, reconcile, retry
from tests.core.simulation import planted_bugs
from tests.core.simulation.__main__ import main
from tests.core.simulation.conditions import ConditionCounts
from tests.core.simulation.counts import RowCounts
from tests.core.simulation.judge import ViolatedError
from tests.core.simulation.runner import SimulatedRunner
from tests.core.simulation.simulation import DAY_S, Simulation

_CHUNKS = 4
_SEEDS_PER_CHUNK = 3750
_SEEDS_FOR_ROWS = range(15_000, 17_000)
_SEEDS_FOR_CONDITIONS = range(17_000, 20_000)
_PLANTED_SEEDS = 6000

FAULTS = (
    "crash", "power cut", "lease lost", "journal disk full", "workspace disk full",
    "append on a full disk", "effect on a full disk", "work uncollected on a full disk", "resumed on a full disk",
    "append of a stale runner refused", "effect of a stale runner refused",
    "clock jump", "clock jump while dead", "suspend",
    "limit", "limit of a validator", "outage", "outage of a validator", "outage told", "probe", "answered",
    "outage after an answer", "session lost", "model refused", "needs person", "work waits", "refused",
    "amended under a runner", "amendment refused", "decided PlanAmended", "retried with a hint",
    "branch had moved", "branch deleted", "commit by somebody", "commit lost", "rewind by somebody",
    "rewind under a runner", "squash by somebody", "journal rebuilt", "decided RunAdopted", "decided RunAbandoned",
    "decided StageGateWaived", "decided StageRewound", "decided TaskRewound", "skip or retry",
    "recovered AttemptLost", "recovered BranchMoved", "recovered ChecksInterrupted", "recovered LandingInterrupted",
    "recovered LandingReplaced", "recovered LandingVanished", "recovered ProviderParked", "recovered StageGateReset",
    "recovered TaskLanded", "resumed when blocked", "resumed when paused", "resumed when stopped",
    "run abandoned", "run blocked", "run completed",
    "question", "handed over", "given", "recovered HandOverInterrupted",
    "decided QuestionAnswered", "decided TaskTaken", "decided TaskGiven",
)  # fmt: skip

FAULTS_OF_THE_BRANCH = (
    *FAULTS, "put back by somebody", "put back under a runner",
    "gate waived under a runner",
)  # fmt: skip

NEVER_OTHERWISE = {
    "decide.py: '; '.join(obstacles(state, now)) was never False": "the last resort of a message",
    "reconcile.py: facts.branch.tip was never False": "only a preview sees a branch that is gone with its commit",
    "reconcile.py: tip in facts.foreign was never True": "no simulated store loses what it acknowledged; `test_store_faults.py` has it",
    "provider_limits.py: new_wait was never True": "simulated agents end before; `test_provider_limits_in_outages.py` has it",
}
"""Conditions that come out one way in any whole run, and why they are there."""


@pytest.mark.parametrize("chunk", range(_CHUNKS))
def test_no_fault_loses_or_repeats_anything(chunk: int) -> None:
    """Whatever fails, whenever: every run ends or blocks with a reason, and every invariant holds on the way."""
    tally: Counter[str] = Counter()
    for seed in range(chunk * _SEEDS_PER_CHUNK, (chunk + 1) * _SEEDS_PER_CHUNK):
        tally.update(Simulation(seed).run())
    assert [fault for fault in FAULTS if not tally[fault]] == []


def test_every_row_of_the_transition_tables_is_taken() -> None:
    """Each event happens in each status in which it may happen, also with somebody who works on the run branch."""
    tally: Counter[str] = Counter()
    rows = RowCounts()
    for seed in _SEEDS_FOR_ROWS:
        run = Simulation(seed, meddle=True)
        tally.update(run.run())
        rows.update(run.rows)
    assert rows.never_taken() == []
    assert [fault for fault in FAULTS_OF_THE_BRANCH if not tally[fault]] == []


def test_every_condition_of_the_decisions_comes_out_both_ways() -> None:
    """No branch of what decides, recovers, retries and waits is left untried."""
    with ConditionCounts(decide, reconcile, retry, provider_limits, budgets, native_resume) as counts:
        for seed in _SEEDS_FOR_CONDITIONS:
            Simulation(seed, meddle=seed % 2 == 0).run()
    assert [found for found in counts.one_sided() if _without_line(found) not in NEVER_OTHERWISE] == []


def _without_line(found: str) -> str:
    file, _, rest = found.partition(":")
    return f"{file}:{rest.partition(':')[2]}"


def test_a_seed_is_always_the_same_run() -> None:
    """A seed that fails can be played again: the same events in the same order."""
    runs = [Simulation(7), Simulation(7)]
    tallies = [run.run() for run in runs]
    assert tallies[0] == tallies[1]
    assert runs[0].journal.events() == runs[1].journal.events()


@pytest.mark.parametrize("jump", [DAY_S, -DAY_S])
def test_a_jump_of_the_clock_changes_no_decision(jump: float) -> None:
    """A day forward or back: the same events until the run rests, but for the time of day at which limits end."""
    jumps = [0, 0]
    for seed in range(200):  # as many as it takes to meet limits more than twenty times
        steady, jumping = Simulation(seed), Simulation(seed)
        faults = [(at, "clock jump", jump) for at in (40.0, 10.0)]
        assert _timeless(jumping.play_until_rest(faults)) == _timeless(steady.play_until_rest([]))
        jumps[0] += jumping.tally["clock jump"]
        jumps[1] += jumping.tally["limit"]
    assert min(jumps) > 20


def _timeless(events: list[ev.Event]) -> list[ev.Event]:
    parked = [event for event in events if isinstance(event, ev.ProviderParked)]
    return [
        msgspec.structs.replace(event, until=0.0, since=0.0) if event in parked else event for event in events
    ]


def test_the_story_of_a_seed_can_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    """`python -m tests.core.simulation 7` tells what happened, in order: events as they became durable, and faults."""
    assert main(["7"]) == 0
    story = capsys.readouterr().out
    assert "RunnerAttached" in story
    assert "* run completed" in story


@pytest.mark.parametrize(
    ("bug", "broken"),
    [
        (planted_bugs.WithoutCompareAndSwap, 3),
        (planted_bugs.BlindToLandings, 2),
        (planted_bugs.TakesOutdatedResults, 9),
        (planted_bugs.ActsBeforeDurable, 9),
        (planted_bugs.ActsAfterFailedAppend, 2),
        (planted_bugs.AcknowledgesBeforeSync, 7),
        (planted_bugs.BelievesUnsyncedBranch, 1),
        (planted_bugs.BuildsOnTornFiles, 2),
        (planted_bugs.AppendsWithoutLease, 10),
        (planted_bugs.ActsWithoutLease, 10),
        (planted_bugs.ReadsBeforeFencing, 8),
        (planted_bugs.ForgetsEffectsOnFullDisks, 14),
        (planted_bugs.RunsOnTheTimeOfDay, 14),
        (planted_bugs.StopsNoAgents, 11),
        (planted_bugs.ContinuesCommands, 2),
        (planted_bugs.LandsWhatHasLanded, 2),
    ],
)
def test_a_planted_bug_is_caught(bug: type[SimulatedRunner], broken: int) -> None:
    """The simulation would notice each of the classic mistakes, and names the invariant that it breaks."""
    assert any(broken in _violated(bug, seed) for seed in range(_PLANTED_SEEDS))


def _violated(bug: type[SimulatedRunner], seed: int) -> set[int]:
    try:
        Simulation(seed, meddle=seed % 4 == 0, runner_type=bug).run()
    except ViolatedError as error:
        return error.numbers
    except KeyError:
        pass  # the bug broke the simulated runner itself, which the judge does not see
    return set()
