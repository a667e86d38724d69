"""What must hold of a run at any moment: one function judges it for `doctor`, the crash sweep and the simulation.

The shell gathers the evidence; nothing is read, run or repaired here. docs/invariants.md
lists all of them by number. Each caller fills in what it can see; what it leaves empty is not judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from holdfast.core.event_codec import Recorded
from holdfast.core.facts import BranchFacts, Landing
from holdfast.core.plan import Plan
from holdfast.core.projection import RunRow, TaskRow
from holdfast.core.retry import losses_allowed
from holdfast.core.state import RunState, replay
from holdfast.core.status import TaskStatus
from holdfast.core.task_transitions import IllegalEventError


@dataclass(frozen=True, slots=True)
class Violation:
    """One invariant that does not hold, and how it shows."""

    number: int
    sentence: str


@dataclass(frozen=True, slots=True)
class LiveAttempt:
    """An agent of the run that lives."""

    task: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the machine shows about a run.

    `settled` says that no effect is half done: recovery has just ended, or the run rests. Otherwise the tasks
    whose landing has begun may be a step ahead of the journal. `prepared` are the commits that MergePrepared
    events name, or None if the journal was rebuilt and cannot know. `once_skipped` are the tasks that the user
    skipped at any time: what needs them was free to land first. `lost_tips` are commits that the run branch
    pointed at and no longer contains. `missing_commits` are those of `commits_to_keep` that do not exist, and
    `off_branch` those of `replacements` that the run branch does not contain.
    """

    settled: bool = False
    branch: BranchFacts | None = None
    lost_tips: tuple[str, ...] = ()
    prepared: frozenset[str] | None = None
    once_skipped: frozenset[str] = frozenset()
    missing_commits: frozenset[str] = frozenset()
    off_branch: frozenset[str] = frozenset()
    live: tuple[LiveAttempt, ...] = ()
    live_without_runner: tuple[str, ...] = ()
    fsck_errors: tuple[str, ...] = ()
    stale_locks: tuple[str, ...] = ()
    torn_indexes: tuple[str, ...] = ()
    checkout_changes: tuple[str, ...] = ()


def violations(state: RunState, evidence: Evidence) -> list[Violation]:
    """Return every invariant that the evidence shows to be broken; empty when all is well."""
    found: list[Violation] = []
    if evidence.branch is not None:
        found += _landings(state, evidence, evidence.branch)
        found += _tip(state, evidence, evidence.branch)
        found += _order(state, evidence, evidence.branch)
    return [*found, *_commits(state, evidence), *_attempts(state, evidence), *seen_broken(evidence)]


def fold_violations(
    plan: Plan, recorded: Iterable[Recorded], row: RunRow, tasks: Sequence[TaskRow]
) -> list[Violation]:
    """Judge invariant 8: what is stored beside the events equals what they add up to. `plan` is what the run began with."""
    try:
        folded = replay(plan, (record.event for record in recorded))
    except IllegalEventError as error:
        return [Violation(8, f"the journal's events contradict each other: {error}")]
    stored = RunState(folded.plan, row, tasks)
    found = [
        Violation(8, f"the stored row of task {name} is not what its events add up to")
        for name, task in folded.tasks.items()
        if stored.tasks[name] != task and _with_times_of(stored.tasks[name], task) != task
    ]
    if stored.row != folded.row and not _lacks_time_alone(stored.row, folded.row):
        found.append(Violation(8, "the stored row of the run is not what its events add up to"))
    return found


def _with_times_of(stored: TaskRow, folded: TaskRow) -> TaskRow:
    """Return a stored row with the times of the folded one, if it has fewer: earlier versions did not add them up."""
    counts_more = stored.latest.worked_s > folded.latest.worked_s
    if counts_more or any(one not in folded.past for one in stored.past):
        return stored
    latest = replace(stored.latest, worked_s=folded.latest.worked_s)
    return replace(stored, latest=latest, past=folded.past)


def _lacks_time_alone(stored: RunRow, folded: RunRow) -> bool:
    is_less = stored.worked_s < folded.worked_s
    return is_less and replace(stored, worked_s=folded.worked_s) == folded


def commits_to_keep(state: RunState) -> set[str]:
    """Return every commit that the run promises to keep."""
    return {commit for task in state.tasks.values() for commit in _commits_of(task)}


def replacements(state: RunState) -> set[str]:
    """Return the commits that hold squashed or rebased landings."""
    return {task.replaced for task in state.tasks.values() if task.replaced}


def _commits_of(task: TaskRow) -> Iterator[str]:
    yield from (made.commit for made in task.commits)
    # A merge that the user squashed or rebased away is not ours to keep; the commit that replaces it is.
    landed = task.replaced or task.merge_commit
    unfinished = (task.carry, task.set_aside, task.latest.snapshot, task.conflict)
    yield from (commit for commit in (*unfinished, landed) if commit)


def _landings(state: RunState, evidence: Evidence, branch: BranchFacts) -> Iterator[Violation]:
    """Invariants 1, 2 and 4: what is completed landed once, as it was verified and checked."""
    landed: dict[str, list[Landing]] = {}
    for landing in branch.landings:
        landed.setdefault(landing.task, []).append(landing)
    for name, task in state.tasks.items():
        proofs = landed.get(name, [])
        if len(proofs) > 1:
            yield Violation(2, f"task {name} landed {len(proofs)} times")
        if task.status is TaskStatus.COMPLETED:
            yield from _proof(task, proofs, evidence)
        elif proofs and (evidence.settled or task.latest.prepared != proofs[-1].commit):
            yield Violation(2, f"task {name} is {task.status}, yet it landed as {proofs[-1].commit}")
    if evidence.prepared is not None:
        checked = evidence.prepared | replacements(state)
        for landing in branch.landings:
            unchecked = landing.commit not in checked and not landing.adopted
            if landing.task in state.tasks and unchecked:
                yield Violation(4, f"{landing.commit} of task {landing.task} landed without being checked")


def _proof(task: TaskRow, proofs: list[Landing], evidence: Evidence) -> Iterator[Violation]:
    if task.replaced:
        if task.replaced in evidence.off_branch:
            yield Violation(
                1, f"task {task.id} is completed as {task.replaced}, which is not on the run branch"
            )
        return
    if not proofs:
        yield Violation(1, f"task {task.id} is completed, yet its merge is not on the run branch")
        return
    if proofs[-1].commit != task.merge_commit:
        yield Violation(1, f"task {task.id} landed as {proofs[-1].commit}, not as {task.merge_commit}")
    if proofs[-1].head != task.latest.head:
        yield Violation(
            1, f"task {task.id} landed {proofs[-1].head}, not {task.latest.head}, which was verified"
        )


def _tip(state: RunState, evidence: Evidence, branch: BranchFacts) -> Iterator[Violation]:
    """Invariant 3: the branch grows from its base, never backwards, and is where we left it."""
    if not branch.descends_from_base:
        yield Violation(3, f"the run branch does not descend from its base {state.row.base}")
    for commit in evidence.lost_tips:
        yield Violation(3, f"the run branch went back: it no longer contains {commit}")
    if evidence.settled and branch.tip and branch.tip != state.row.tip:
        yield Violation(3, f"the run branch is at {branch.tip}, not at {state.row.tip}")


def _order(state: RunState, evidence: Evidence, branch: BranchFacts) -> Iterator[Violation]:
    """Invariant 5: what a task needs, and what its stage needs, is on the branch before it.

    The order in which another system worked is not judged.
    """
    if not branch.landings:
        return
    adopted = {landing.task for landing in branch.landings if landing.adopted}
    places = {landing.task: place for place, landing in enumerate(branch.landings)}
    waived = {name for name, task in state.tasks.items() if task.status is TaskStatus.SKIPPED}
    waived |= evidence.once_skipped | {name for name, task in state.tasks.items() if task.replaced}
    for name in (places.keys() & state.specs.keys()) - adopted:
        for need in state.specs[name].needs:
            if need not in waived and places.get(need, len(places)) > places[name]:
                yield Violation(5, f"task {name} landed before {need}, which it needs")
    for stage in state.plan.stages:
        own = [places[task.id] for task in stage.tasks if task.id in places and task.id not in adopted]
        first = min(own, default=-1)
        for task in (task for needed in stage.needs for task in state.stages[needed].tasks):
            if task.id not in waived and places.get(task.id, len(places)) > first >= 0:
                yield Violation(5, f"stage {stage.id} landed work before {task.id}, which it builds on")


def _commits(state: RunState, evidence: Evidence) -> Iterator[Violation]:
    """Invariant 6: no commit of an attempt is lost."""
    if not evidence.missing_commits:
        return
    for name, task in state.tasks.items():
        for commit in sorted(evidence.missing_commits.intersection(_commits_of(task))):
            yield Violation(6, f"{commit} of task {name} no longer exists")


def _attempts(state: RunState, evidence: Evidence) -> Iterator[Violation]:
    """Invariant 9: attempts are bounded, and only the newest of a running task lives."""
    for name, task in state.tasks.items():
        limits = state.limits_of(name)
        if task.charged > limits.attempts:
            yield Violation(9, f"task {name} failed {task.charged} times; the limit is {limits.attempts}")
        if task.crash_count > losses_allowed(limits):
            yield Violation(
                9, f"task {name} was lost {task.crash_count} times; the limit is {losses_allowed(limits)}"
            )
    for live in evidence.live:
        row = state.tasks.get(live.task)
        if row is None or row.status is not TaskStatus.RUNNING or row.attempt != live.attempt:
            standing = "is not in the plan" if row is None else f"is {row.status} at attempt {row.attempt}"
            yield Violation(9, f"attempt {live.attempt} lives, yet task {live.task} {standing}")


def seen_broken(evidence: Evidence) -> Iterator[Violation]:
    """Yield invariants 11, 12 and 16: what the shell saw is judged without any state."""
    yield from (Violation(11, f"{who} lives without a runner") for who in evidence.live_without_runner)
    yield from (Violation(12, f"git fsck: {error}") for error in evidence.fsck_errors)
    yield from (Violation(12, f"{path} is left over") for path in evidence.stale_locks)
    yield from (
        Violation(12, f"{path} is torn, so `git gc` fails; `holdfast doctor --fix` makes it anew")
        for path in evidence.torn_indexes
    )
    yield from (Violation(16, f"{path} changed in the user's checkout") for path in evidence.checkout_changes)
