"""The sweep can fail: it finds each planted bug within a few points, and finds nothing in the sound program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from holdfast.core.invariants import Violation
from holdfast.errors import ExitCode
from tests.crash.evidence import BRANCH, look
from tests.crash.faults import Point
from tests.crash.invariants import BeforeCrash, Harm, crash_violations, end_violations
from tests.crash.operations import CONFLICTING_RUN, run_of
from tests.crash.sample_run import START, git
from tests.crash.trial import CrashTrial, PlannedFault

pytestmark = pytest.mark.crash

# The agent itself plays the stranger: it puts a commit of its own on the run branch, once.
FOREIGN_PLAN = f"""\
holdfast: 1
goal: crash sweep
stages:
  - id: one
    tasks:
      - id: left
        run:
          - sh
          - -c
          - |
            stranger=$(git commit-tree -p HEAD -m stranger HEAD^{{tree}})
            git rev-parse -q --verify refs/stranger || git update-ref {BRANCH} $stranger
            git update-ref refs/stranger $stranger
            echo left > left
"""


@pytest.fixture
def trial(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[CrashTrial]:
    """An trial whose program has the bug that the test names."""
    bug, plan = request.param
    made = CrashTrial(tmp_path, run_of(plan) if plan else CONFLICTING_RUN, bug)
    made.reset()
    yield made
    made.close()


def bug(name: str, plan: str = "") -> pytest.MarkDecorator:
    """Choose the trial of a test."""
    return pytest.mark.parametrize("trial", [(name, plan)], indirect=True, ids=[name or "sound"])


def stranger_was_lost(trial: CrashTrial) -> bool:
    """Run the plan in which somebody else commits on the run branch; tell whether that commit is gone from it."""
    ended = trial.run(*START)
    assert ended.code in (ExitCode.DONE, ExitCode.NEEDS_DECISION), ended.output
    theirs = git(trial.repository, "rev-parse", "refs/stranger").strip()
    return theirs not in git(trial.repository, "rev-list", BRANCH)


@bug("", FOREIGN_PLAN)
def test_a_strangers_commit_on_the_run_branch_is_kept(trial: CrashTrial) -> None:
    """The compare-and-swap fails, the run rests, and what the stranger did is there for a person to look at."""
    assert not stranger_was_lost(trial)


@bug("move-without-comparing", FOREIGN_PLAN)
def test_a_branch_moved_without_comparing_is_noticed(trial: CrashTrial) -> None:
    """Without the old value in the update, the same trial loses the stranger's commit."""
    assert stranger_was_lost(trial)


def is_noticed(trial: CrashTrial, planned: Sequence[PlannedFault], invariant: int) -> bool:
    """Break the program at one point after the other until this invariant is broken."""
    return any(
        invariant in {violation.number for violation in trial.cycle([fault]).violations} for fault in planned
    )


def landings(points: Sequence[Point]) -> list[int]:
    """Return the points at which the run branch moves."""
    return [p.number for p in points if p.syscall == "rename" and p.path.startswith(f".git/{BRANCH}")]


def around(moves: Sequence[int], kind: str, later: int) -> list[PlannedFault]:
    """Return faults so many points after each move, then ever further off: agents run side by side, so what was point
    433 in one run may be 431 in the next."""
    offsets = [0, *(offset for step in range(1, 26) for offset in (step, -step))]
    return [PlannedFault(kind, number + later + offset) for offset in offsets for number in moves]


@bug("forget-landings")
def test_a_recovery_that_does_not_look_for_landings_is_noticed(trial: CrashTrial) -> None:
    """Killed right after the branch moved, a task lands a second time."""
    assert is_noticed(trial, around(landings(trial.points()), "after", 0), invariant=2)


@bug("write-afterwards")
def test_events_that_are_written_after_their_effects_are_noticed(trial: CrashTrial) -> None:
    """What the program said is not in its journal when it is killed."""
    assert is_noticed(trial, around(landings(trial.points()), "kill", 5), invariant=7)


@bug("continue-commands")
def test_a_command_that_goes_on_from_its_own_work_is_noticed(trial: CrashTrial) -> None:
    """Killed when it has done its work and nobody knows, it does it once more, and the result has it twice."""
    exits = [
        p.number for p in trial.points() if p.syscall == "rename" and p.path.endswith("/agent/exit.json")
    ]
    outcomes = (trial.cycle([fault]) for fault in around(exits, "kill", 0))
    assert any(Harm.DOUBLED in outcome.harms() for outcome in outcomes)


def violations_without_fault(trial: CrashTrial) -> list[Violation]:
    """Run without a fault and return what is violated."""
    ended = trial.run(*START)
    end = look(trial.repository)
    found = [*crash_violations(BeforeCrash((), end)), *end_violations(trial.repository, end, [])]
    return found if ended.code == 0 else [*found, Violation(14, ended.output)]


@bug("deliver-late")
def test_the_late_result_of_an_old_attempt_changes_nothing(trial: CrashTrial) -> None:
    """It is refused, and the run goes on as if it had not come."""
    assert violations_without_fault(trial) == []


@bug("believe-anybody")
def test_a_late_result_that_is_believed_is_noticed(trial: CrashTrial) -> None:
    """With the check of attempt and token gone, the history contradicts itself."""
    assert {1, 8} & {violation.number for violation in violations_without_fault(trial)}
