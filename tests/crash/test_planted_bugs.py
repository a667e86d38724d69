"""The judge can convict: each planted bug is found within a few points, and the same trial acquits the sound program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from holdfast.core.invariants import Violation
from tests.crash.evidence import BRANCH, look
from tests.crash.faults import Point
from tests.crash.invariants import Promise, judge_crash, judge_end
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
def arena(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[CrashTrial]:
    """An arena whose program has the bug that the test names."""
    bug, plan = request.param
    made = CrashTrial(tmp_path, bug, *([plan] if plan else []))
    made.reset()
    yield made
    made.close()


def bug(name: str, plan: str = "") -> pytest.MarkDecorator:
    """Choose the arena of a test."""
    return pytest.mark.parametrize("arena", [(name, plan)], indirect=True, ids=[name or "sound"])


def stranger_was_lost(arena: CrashTrial) -> bool:
    """Run the plan in which somebody else commits on the run branch; tell whether that commit is gone from it."""
    ended = arena.run(*START)
    assert ended.code == 0, ended.output
    theirs = git(arena.repository, "rev-parse", "refs/stranger").strip()
    return theirs not in git(arena.repository, "rev-list", BRANCH)


@bug("", FOREIGN_PLAN)
def test_a_strangers_commit_on_the_run_branch_is_kept(arena: CrashTrial) -> None:
    """The compare-and-swap fails, and the task lands on top of what the stranger did."""
    assert not stranger_was_lost(arena)


@bug("move-without-comparing", FOREIGN_PLAN)
def test_a_branch_moved_without_comparing_is_noticed(arena: CrashTrial) -> None:
    """Without the old value in the update, the same trial loses the stranger's commit."""
    assert stranger_was_lost(arena)


def convicted(arena: CrashTrial, blows: Sequence[PlannedFault], invariant: int) -> bool:
    """Break the program at one point after the other until the judge says that this invariant is broken."""
    return any(
        invariant in {violation.number for violation in arena.cycle([blow]).violations} for blow in blows
    )


def landings(points: Sequence[Point]) -> list[int]:
    """Return the points at which the run branch moves."""
    return [p.number for p in points if p.syscall == "rename" and p.path.startswith(f".git/{BRANCH}")]


def around(moves: Sequence[int], kind: str, later: int) -> list[PlannedFault]:
    """Return faults so many points after each move, then ever further off: agents run side by side, so what was point
    433 in one run may be 431 in the next."""
    offsets = [0, *(offset for step in range(1, 6) for offset in (step, -step))]
    return [PlannedFault(kind, number + later + offset) for offset in offsets for number in moves]


@bug("forget-landings")
def test_a_recovery_that_does_not_look_for_landings_is_noticed(arena: CrashTrial) -> None:
    """Killed right after the branch moved, a task lands a second time."""
    assert convicted(arena, around(landings(arena.points()), "after", 0), invariant=2)


@bug("write-afterwards")
def test_events_that_are_written_after_their_effects_are_noticed(arena: CrashTrial) -> None:
    """What the program said is not in its journal when it is killed."""
    assert convicted(arena, around(landings(arena.points()), "kill", 5), invariant=7)


def judged(arena: CrashTrial) -> list[Violation]:
    """Run without a fault and judge all that came of it."""
    ended = arena.run(*START)
    end = look(arena.repository)
    found = [*judge_crash(Promise((), end)), *judge_end(arena.repository, end, [])]
    return found if ended.code == 0 else [*found, Violation(14, ended.output)]


@bug("deliver-late")
def test_the_late_result_of_an_old_attempt_changes_nothing(arena: CrashTrial) -> None:
    """It is refused, and the run goes on as if it had not come."""
    assert judged(arena) == []


@bug("believe-anybody")
def test_a_late_result_that_is_believed_is_noticed(arena: CrashTrial) -> None:
    """With the check of attempt and token gone, the history contradicts itself."""
    assert {1, 8} & {violation.number for violation in judged(arena)}
