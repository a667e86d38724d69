"""The judgement of claims by facts, pure: what counts as done, and what the rest inherits."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core import events as ev
from holdfast.core.adoption import (
    Claim,
    ClaimedStatus,
    CommitFact,
    InheritedWork,
    JudgedClaim,
    Proofs,
    TrustPolicy,
    Verdict,
    attempts_of,
    inherited_events,
    judge_claim,
    prepare_plan,
)
from holdfast.core.event_codec import encode_event
from holdfast.core.projection import PastFailure
from tests.core.builders import plan, task

MERGED, ASTRAY, GONE = CommitFact("m" * 40, merged=True), CommitFact("a" * 40), CommitFact()
SQUASHED = CommitFact("a" * 40, same="s" * 40)


def _claim(standing: ClaimedStatus = ClaimedStatus.DONE, **more: Any) -> Claim:
    return Claim(task="t", standing=standing, said=str(standing), **more)


def _judge(claim: Claim, *facts: CommitFact, policy: TrustPolicy | None = None, **proofs: Any) -> JudgedClaim:
    known = dict(zip(claim.commits, facts, strict=True))
    return judge_claim(claim, Proofs("base", known, **proofs), policy or TrustPolicy())


@pytest.mark.parametrize(
    ("facts", "verdict"),
    [
        ((MERGED,), Verdict.PROVEN),
        ((SQUASHED,), Verdict.PROVEN),
        ((GONE,), Verdict.GONE),
        ((ASTRAY,), Verdict.UNMERGED),
        ((GONE, MERGED), Verdict.PROVEN),
        ((MERGED, GONE), Verdict.GONE),
        ((ASTRAY, MERGED), Verdict.UNMERGED),
    ],
)
def test_a_done_task_is_judged_by_its_commits(facts: tuple[CommitFact, ...], verdict: Verdict) -> None:
    """The last commit must be below the base, and none may lie anywhere else."""
    claim = _claim(commits=tuple(f"c{number}" for number in range(len(facts))))
    assert _judge(claim, *facts).verdict is verdict


@pytest.mark.parametrize(
    "standing", [ClaimedStatus.PENDING, ClaimedStatus.RUNNING, ClaimedStatus.FAILED, ClaimedStatus.BLOCKED]
)
def test_a_task_that_is_not_called_done_is_open_whatever_it_committed(standing: ClaimedStatus) -> None:
    """A commit on the way is no completion."""
    assert _judge(_claim(standing, commits=("c",)), MERGED).verdict is Verdict.OPEN


@pytest.mark.parametrize(("policy", "verdict"), [
    (TrustPolicy(), Verdict.CLAIMED),
    (TrustPolicy(accept_named=True), Verdict.ACCEPTED),
    (TrustPolicy(trust_claims=True), Verdict.ACCEPTED),
])  # fmt: skip
def test_trust_is_the_users_to_give(policy: TrustPolicy, verdict: Verdict) -> None:
    """What no commit is recorded for counts only if the user says so."""
    assert _judge(_claim(), policy=policy, named={"t": "n" * 40}).verdict is verdict


def test_a_doubtful_task_may_need_no_change() -> None:
    """An agent that finds the work there must not fail for changing nothing; a new task must change something."""
    claims = [_claim(), Claim(task="u")]
    judged = {claim.task: judge_claim(claim, Proofs("base"), TrustPolicy()) for claim in claims}
    made = prepare_plan(plan((task("t"), task("u"))), claims, judged, {})
    assert {one.id: one.allow_empty for _, one in made.tasks()} == {"t": True, "u": False}


def test_attempts_are_the_most_that_any_number_tells() -> None:
    """Files that count in several places do not agree; none is forgotten."""
    failure = PastFailure(attempt=4, error="x")
    assert attempts_of(_claim(ClaimedStatus.FAILED, attempts=2, spent=3, failures=(failure,))) == 4
    assert attempts_of(_claim(ClaimedStatus.RUNNING)) == 1
    assert attempts_of(_claim(ClaimedStatus.PENDING)) == 0


def _inherited(claim: Claim, verdict: Verdict, limit: int = 3, **work: InheritedWork) -> list[ev.Event]:
    judged = {"t": JudgedClaim(task="t", verdict=verdict, evidence="e")}
    return list(inherited_events([claim], judged, work, {"t": limit}))


def test_an_untouched_task_inherits_nothing() -> None:
    """A fresh task begins like any other."""
    assert _inherited(_claim(ClaimedStatus.PENDING), Verdict.OPEN) == []


def test_a_spent_budget_is_inherited_up_to_the_limit_and_ends_the_task() -> None:
    """However often it was tried, no more than the limit is charged, and nothing is left."""
    claim = _claim(ClaimedStatus.FAILED, attempts=51, spent=50)
    inherited, given_up = _inherited(claim, Verdict.OPEN)
    assert isinstance(inherited, ev.TaskInherited)
    assert (inherited.attempts, inherited.spent) == (51, 3)
    assert isinstance(given_up, ev.TaskAbandoned)


def test_a_finished_task_charges_nothing_and_carries_nothing() -> None:
    """What it cost over there is history; what it left is below the base."""
    work = InheritedWork("w" * 40, "b" * 40, "tree")
    (inherited,) = _inherited(_claim(attempts=5, spent=5), Verdict.PROVEN, t=work)
    assert isinstance(inherited, ev.TaskInherited)
    assert (inherited.spent, inherited.carry, inherited.commits) == (0, "", ("e",))


def test_long_texts_and_endless_failures_are_cut() -> None:
    """A log of megabytes in a state file does not become an event of megabytes."""
    failures = tuple(PastFailure(attempt=n, error="e" * 10**6, feedback="f" * 10**6) for n in range(100))
    (inherited, *_) = _inherited(_claim(ClaimedStatus.FAILED, failures=failures), Verdict.OPEN)
    assert len(encode_event(inherited)) < 400_000


def test_a_task_that_starts_clean_inherits_no_work_to_continue_from() -> None:
    """Nobody here saw the other system's command end: what it left is kept, and its effect is had once."""
    work = {"t": InheritedWork("w" * 40, "b" * 40, "tree")}
    judged = {"t": JudgedClaim(task="t", verdict=Verdict.OPEN)}
    (inherited,) = inherited_events([_claim(ClaimedStatus.RUNNING)], judged, work, {"t": 3}, {"t"})
    assert isinstance(inherited, ev.TaskInherited)
    assert (inherited.carry, inherited.base, inherited.set_aside) == ("", "", "w" * 40)
