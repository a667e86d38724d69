"""Claims in another system's files, and the verdicts on them: which tasks are done, what the rest inherits.

Pure. No claim is believed. Done is what git proves, or what the user takes on trust; everything else is open.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from holdfast.core import events as ev
from holdfast.core.brief import clip
from holdfast.core.plan import Plan, Stage, Task
from holdfast.core.projection import PastFailure, Report

_TEXT_CHARS = 16_000
_FAILURES_KEPT = 10
"""The next brief needs the latest failures, not the same one a thousand times."""


class ClaimedStatus(StrEnum):
    """What a file claims about a task."""

    PENDING = "pending"
    RUNNING = "running"
    FAILED = "failed"
    BLOCKED = "blocked"
    DONE = "done"
    SKIPPED = "skipped"
    ABANDONED = "abandoned"


SETTLED = (ClaimedStatus.DONE, ClaimedStatus.SKIPPED)
"""Nothing is left to do, and no task waits for it."""
UNBEGUN = (ClaimedStatus.PENDING, ClaimedStatus.BLOCKED, ClaimedStatus.SKIPPED)
"""Nobody need have worked on it."""


def spent_of(standing: ClaimedStatus, attempts: int) -> int:
    """Return the attempts that count against the budget: not the one that succeeded or was cut short."""
    return max(attempts - (standing in (ClaimedStatus.DONE, ClaimedStatus.RUNNING)), 0)


class Claim(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the files say about one task. `native` is its name in that system, `said` its status, verbatim.

    `commits` are the hashes it recorded, oldest first; `files` what it says it created; `summary` what it says it
    did. `outputs` are the files among the state's own that are its whole result, where it changes no code. `branch`
    and `worktree` are where its unfinished work may lie; if the latter is not there, it may be in `other_worktrees`, unless
    such a tree is on another branch of the kind of `worktree_branch`. `attempts` counts all attempts, the present one too; `spent`
    those that count against the budget.
    """

    task: str
    native: str = ""
    standing: ClaimedStatus = ClaimedStatus.PENDING
    said: str = ""
    attempts: int = 0
    spent: int = 0
    failures: tuple[PastFailure, ...] = ()
    commits: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    branch: str = ""
    worktree: str = ""
    other_worktrees: tuple[str, ...] = ()
    worktree_branch: str = ""
    summary: str = ""
    report: Report | None = None


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something the user should know about the files: a contradiction, a guess, or what could not be read.

    `kind` is a short fixed word for scripts (`done-with-unfinished-parts`, `unknown-status`, `copies-differ`,
    `unknown-task`, `unreadable` …); the sentence is for people. `task` is ours, or empty for the run as a whole.
    """

    kind: str
    sentence: str
    task: str = ""


class Verdict(StrEnum):
    """Verdict on a claim."""

    PROVEN = "proven"
    ACCEPTED = "accepted"
    CLAIMED = "claimed"
    UNMERGED = "unmerged"
    GONE = "gone"
    SKIPPED = "skipped"
    GIVEN_UP = "given-up"
    OPEN = "open"


FINISHED = frozenset({Verdict.PROVEN, Verdict.ACCEPTED})
UNPROVEN = {
    Verdict.CLAIMED: "done-without-commit",
    Verdict.UNMERGED: "commit-unmerged",
    Verdict.GONE: "commit-gone",
}
"""Verdicts on tasks claimed as done without proof, each with the kind of its finding."""


@dataclass(frozen=True, slots=True)
class CommitFact:
    """A recorded commit as git has it: `id` is empty if it is gone, `same` a commit below the base that holds its change."""

    id: str = ""
    merged: bool = False
    same: str = ""


@dataclass(frozen=True, slots=True)
class Proofs:
    """The evidence that claims are judged by.

    `commits` is keyed by the hashes as they were recorded, `named` by the task that a commit below the base names.
    `outputs` are the files that belong to the state itself.
    """

    base: str
    commits: Mapping[str, CommitFact] = field(default_factory=dict)
    outputs: frozenset[str] = frozenset()
    named: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TrustPolicy:
    """What the user takes on trust beyond what git proves."""

    trust_claims: bool = False
    accept_named: bool = False


@dataclass(frozen=True, slots=True)
class InheritedWork:
    """Unfinished work of a task, safe in a commit, and the commit below it; `place` says where it lay."""

    commit: str
    base: str
    place: str


class JudgedClaim(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on one task: the commit that speaks for it, and why, for people."""

    task: str
    verdict: Verdict
    evidence: str = ""
    why: str = ""


def judge_claim(claim: Claim, proofs: Proofs, policy: TrustPolicy) -> JudgedClaim:
    """Return the verdict on a claim. Only tasks claimed as done can be proven."""
    if claim.standing is ClaimedStatus.SKIPPED:
        return _judged(claim, Verdict.SKIPPED)
    if claim.standing is ClaimedStatus.ABANDONED:
        return _judged(claim, Verdict.GIVEN_UP, why="it was abandoned there")
    if claim.standing is not ClaimedStatus.DONE:
        return _judged(claim, Verdict.OPEN)
    found = _by_commits(claim, proofs) if claim.commits else _by_outputs(claim, proofs)
    return found if found.verdict in FINISHED else _on_trust(found, claim, proofs, policy)


def claim_findings(
    claims: Sequence[Claim], judged: Mapping[str, JudgedClaim], plan: Plan
) -> Iterator[Finding]:
    """Yield each contradiction between the files and git, and between what is done and what it needs."""
    for claim in claims:
        one = judged[claim.task]
        if one.verdict in UNPROVEN:
            sentence = f"{claim.task} is called {claim.said or claim.standing}, but {one.why}."
            yield Finding(kind=UNPROVEN[one.verdict], sentence=sentence, task=claim.task)
    for _, task in plan.tasks():
        open_needs = [need for need in task.needs if judged[need].verdict not in _LETS_OTHERS_START]
        if judged[task.id].verdict in FINISHED and open_needs:
            sentence = f"{task.id} is done, yet {', '.join(open_needs)}, which it needs, is not."
            yield Finding(kind="done-before-needs", sentence=sentence, task=task.id)


def prepare_plan(
    plan: Plan,
    claims: Sequence[Claim],
    judged: Mapping[str, JudgedClaim],
    missing: Mapping[str, tuple[str, ...]],
) -> Plan:
    """Return the plan as the run gets it: a task that may be done after all may be found to need no change.

    `missing` are files that done tasks were to deliver and that are not below the base any more. Nobody is left to
    deliver them, so the run does not promise them.
    """
    doubtful = {
        c.task for c in claims if c.standing is ClaimedStatus.DONE and judged[c.task].verdict not in FINISHED
    }

    def task(one: Task) -> Task:
        files = tuple(path for path in one.files if path not in missing.get(one.id, ()))
        empty = one.allow_empty or one.id in doubtful
        return msgspec.structs.replace(one, allow_empty=empty, files=files)

    def stage(one: Stage) -> Stage:
        return msgspec.structs.replace(one, tasks=tuple(map(task, one.tasks)))

    return msgspec.structs.replace(plan, stages=tuple(map(stage, plan.stages)))


def inherited_events(
    claims: Sequence[Claim],
    judged: Mapping[str, JudgedClaim],
    work: Mapping[str, InheritedWork],
    limits: Mapping[str, int],
    clean: Collection[str] = (),
) -> Iterator[ev.Event]:
    """Yield the events that the tasks of the run begin with, except landings, which only git proves.

    `limits` are the attempts that each task may spend: attempts spent in the other system count here too. The
    `clean` tasks start without the work that was under way.
    """
    for claim in claims:
        one, limit = judged[claim.task], limits[claim.task]
        inherited = _inherited(claim, one, work.get(claim.task), limit, clean=claim.task in clean)
        if inherited != ev.TaskInherited(task=claim.task):
            yield inherited
        if one.verdict is Verdict.SKIPPED:
            yield ev.TaskSkipped(task=claim.task)
        elif one.verdict not in FINISHED and (one.verdict is Verdict.GIVEN_UP or inherited.spent >= limit):
            last = f"; last: {claim.failures[-1].error}" if claim.failures else ""
            yield ev.TaskAbandoned(task=claim.task, error=f"abandoned before it was adopted{last}")


def attempts_of(claim: Claim) -> int:
    """Return how many attempts a claim counts, by the largest of its numbers."""
    counts = (claim.attempts, claim.spent, *(failure.attempt for failure in claim.failures))
    return max(*counts, int(claim.standing not in UNBEGUN))


_LETS_OTHERS_START = FINISHED | {Verdict.SKIPPED}


def missing_file_findings(missing: Mapping[str, tuple[str, ...]]) -> Iterator[Finding]:
    """Yield a finding for each done task whose files are no longer there."""
    for task, paths in missing.items():
        sentence = f"{task} is done, but {', '.join(paths)}, which it was to deliver, is not below the base."
        yield Finding(kind="deliverable-missing", sentence=sentence, task=task)


def _judged(claim: Claim, verdict: Verdict, evidence: str = "", why: str = "") -> JudgedClaim:
    return JudgedClaim(task=claim.task, verdict=verdict, evidence=evidence, why=why)


def _by_commits(claim: Claim, proofs: Proofs) -> JudgedClaim:
    """Judge by the recorded commits: the last is below the base, and none lies anywhere else."""
    facts = [(commit, proofs.commits.get(commit, CommitFact())) for commit in claim.commits]
    astray = [fact.id for _, fact in facts if fact.id and not (fact.merged or fact.same)]
    if astray:
        return _judged(claim, Verdict.UNMERGED, astray[-1], f"{_short(astray[-1])} is not below the base")
    commit, last = facts[-1]
    if not (last.merged or last.same):
        return _judged(claim, Verdict.GONE, why=f"git has no commit {_short(commit)}")
    if last.merged:
        return _judged(claim, Verdict.PROVEN, last.id, _short(last.id))
    return _judged(claim, Verdict.PROVEN, last.same, f"the same change is in {_short(last.same)}")


def _by_outputs(claim: Claim, proofs: Proofs) -> JudgedClaim:
    """Judge what recorded no commit: a step whose whole result is a file of the state is done if the file is there."""
    if claim.outputs and proofs.outputs.issuperset(claim.outputs):
        return _judged(claim, Verdict.PROVEN, proofs.base, f"its output is there: {claim.outputs[0]}")
    return _judged(claim, Verdict.CLAIMED, why="no commit is recorded for it")


def _on_trust(found: JudgedClaim, claim: Claim, proofs: Proofs, policy: TrustPolicy) -> JudgedClaim:
    named = proofs.named.get(claim.task, "")
    if named and policy.accept_named:
        return _judged(claim, Verdict.ACCEPTED, named, f"named in {_short(named)}")
    if policy.trust_claims:
        return _judged(claim, Verdict.ACCEPTED, proofs.base, f"on trust: {found.why}")
    also = f"; {_short(named)} names it" if named else ""
    return msgspec.structs.replace(found, why=found.why + also)


def _inherited(
    claim: Claim, one: JudgedClaim, work: InheritedWork | None, limit: int, *, clean: bool
) -> ev.TaskInherited:
    finished = one.verdict in FINISHED
    left = work if work is not None and not finished else InheritedWork("", "", "")
    return ev.TaskInherited(
        task=claim.task,
        attempts=attempts_of(claim),
        spent=0 if finished else min(claim.spent, limit),
        failures=tuple(map(_bounded, claim.failures[-_FAILURES_KEPT:])),
        commits=(one.evidence,) if finished else (),
        carry="" if clean else left.commit,
        set_aside=left.commit if clean else "",
        base="" if clean else left.base,
        summary=clip(claim.summary, _TEXT_CHARS),
        report=_report(claim, one),
    )


def _bounded(failure: PastFailure) -> PastFailure:
    """Return a failure that says something, and not too much."""
    error = clip(failure.error, _TEXT_CHARS) or "no reason was recorded"
    return PastFailure(attempt=failure.attempt, error=error, feedback=clip(failure.feedback, _TEXT_CHARS))


def _report(claim: Claim, one: JudgedClaim) -> Report | None:
    """Return the report for the next agent's brief; for a doubtful claim it says what is doubtful."""
    if claim.standing is not ClaimedStatus.DONE or one.verdict in FINISHED:
        return claim.report
    said = (claim.report.summary if claim.report else "") or claim.summary
    doubt = f"It was called {claim.said or claim.standing}, but {one.why}. Look at what is there; do what is missing."
    return msgspec.structs.replace(claim.report or Report(), summary=f"{doubt}\n{said}".rstrip())


def _short(commit: str) -> str:
    return commit[:12]
