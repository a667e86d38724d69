"""What must hold of a run after a crash and after the recovery from it, as sentences that name the invariant's number.

The product's own invariants (`core/invariants.py`) are asked first; then everything is compared once more with plain git.
What must hold of `land`, `clean` and the other commands is in `operations.py`.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from holdfast.core import events as ev
from holdfast.core.event_codec import encode_event
from holdfast.core.facts import BranchFacts
from holdfast.core.invariants import Evidence, Violation, fold_violations, violations
from holdfast.core.status import AttemptKind, RunStatus
from tests.crash.evidence import GitObjects, Moment, processes_of, reachable
from tests.crash.sample_run import CONFLICT, RUN, Checkout, SamplePlan

QUIET_S = 5.0
_POLL_S = 0.02

_STATE_FILES = (
    r"journal\.db|runs\.lock|agreements/[^/]+\.txt|runs/R/lease|runs/R/requests/bell"
    r"|runs/R/attempts/[^/]+/\d+/(brief\.md|[^/]+/(supervisor\.json|exit\.json|output\.log))"
).replace("R", RUN)
_PRIVATE_FILES = re.compile(
    r"sealed/(config|HEAD|objects|packed-refs|worktrees|info|shallow|git-crypt)|checked-boot|landing"
)


class Harm(StrEnum):
    """What a violation means to the user: the columns of the matrix."""

    LOST = "lost"
    LANDED_TWICE = "landed twice"
    REDONE = "redone"
    DOUBLED = "doubled"
    STUCK = "stuck"
    OTHER = "other"


_HARMS = {1: Harm.LOST, 2: Harm.LANDED_TWICE, 3: Harm.LOST, 6: Harm.LOST, 7: Harm.LOST, 14: Harm.STUCK}


@dataclass(frozen=True, slots=True)
class Harmful(Violation):
    """A violation that does another harm than others of its invariant."""

    harm: Harm


def harm_of(violation: Violation) -> Harm:
    """Return what a violation means to the user."""
    if isinstance(violation, Harmful):
        return violation.harm
    return _HARMS.get(violation.number, Harm.OTHER)


@dataclass(frozen=True, slots=True)
class BeforeCrash:
    """What was true when the program was cut off: what it had printed, and what its repository showed."""

    said: tuple[ev.Event, ...]
    moment: Moment


def crash_violations(cut: BeforeCrash) -> Iterator[Violation]:
    """Judge a repository right after a fault: nothing that was told or proved is lost, and the journal is sound."""
    moment = cut.moment
    if moment.stored is None:
        if cut.said:
            yield Violation(7, f"it printed {len(cut.said)} events, yet the journal has no run")
        return
    yield from fold_violations(
        moment.stored.first_plan, moment.recorded, moment.stored.row, moment.stored.tasks
    )
    yield from printed_violations(cut.said, moment)
    yield from violations(moment.state(), Evidence(branch=_branch(moment), prepared=_prepared(moment)))


def end_violations(
    repository: Path, end: Moment, cuts: Sequence[BeforeCrash], plan: SamplePlan = CONFLICT
) -> Iterator[Violation]:
    """Judge a repository whose run was carried to its end after one or more faults."""
    if end.stored is None or end.stored.row.status is not RunStatus.COMPLETED:
        standing = "there is no run" if end.stored is None else f"it is {end.stored.row.status}"
        why = "" if end.stored is None else end.stored.row.reason
        yield Violation(14, f"the run did not complete: {standing} {why}".rstrip())
        return
    yield from fold_violations(end.stored.first_plan, end.recorded, end.stored.row, end.stored.tasks)
    yield from violations(end.state(), _evidence(end, cuts))
    yield from _landings(plan, end)
    with GitObjects(repository) as objects:
        yield from _trees(objects, plan, end)
    yield from _kept(repository, end)
    yield from _finished_work(repository, end)
    for cut in cuts:
        yield from _since(cut, end)


def leftover_violations(repository: Path, untouched: Checkout | None, also: str = "") -> Iterator[Violation]:
    """Judge what lies around once nothing runs: processes, locks, temporary files, and the user's own files.

    `also` is a pattern of files that may lie in `.holdfast` besides those of every run. `untouched` is None where the
    operation is meant to change the checkout.
    """
    for process in _survivors(repository):
        yield Violation(11, f"still alive after the end: {process}")
    for problem in fsck_problems(repository):
        yield Violation(12, f"git fsck: {problem}")
    for path in _debris(repository, re.compile(f"{_STATE_FILES}|{also}" if also else _STATE_FILES)):
        yield Violation(12, f"{path} is left over")
    if untouched is not None:
        for name in untouched.differences(Checkout.of(repository)):
            yield Violation(16, f"{name} of the user's checkout changed")


def repetition_violations(before: Moment, after: Moment) -> Iterator[Violation]:
    """Judge a second resume: there was nothing to do, so nothing was done."""
    if before.refs != after.refs:
        yield Violation(13, "resuming a completed run moved a ref")
    if before.recorded != after.recorded:
        news = [type(event).__name__ for event in after.events[len(before.recorded) :]]
        yield Violation(13, f"resuming a completed run recorded {', '.join(news)}")


def preview_violations(printed: str, before: Moment, after: Moment) -> Iterator[Violation]:
    """Judge a preview: the first thing that the resume did to each task is what the preview had said."""
    try:
        tasks = json.loads(printed)["report"]["tasks"]
    except (ValueError, KeyError):
        yield Violation(14, f"the preview of resume is none: {printed[-1500:]}")
        return
    done = _first_steps(after.events[len(before.recorded) :])
    for task in tasks:
        step = done.get(task["id"], "nothing")
        if step not in _FORETOLD[task["move"]]:
            yield Violation(
                14, f"resume was to {task['move']} {task['id']} ({task['why']}), yet it did: {step}"
            )


_FORETOLD = {
    "skip": ("nothing",),
    "wait": ("nothing",),
    "leave": ("nothing",),
    "re-attach": ("agent",),
    "collect": ("agent", "take in"),
    # An agent whose supervisor has not written its record yet is found a moment later.
    "run": ("start", "agent"),
    # What a person gave back is taken in before an agent goes on from it.
    "redo": ("start", "take in"),
    "check": ("check",),
    "land": ("land",),
}
_STEPS: dict[type[ev.Event], str] = {
    ev.AttemptStarted: "start",
    ev.AttemptDone: "agent",
    ev.AttemptFailed: "agent",
    ev.ChecksStarted: "check",
    ev.ValidationStarted: "check",
    ev.LandingStarted: "land",
}


def _first_steps(events: Sequence[ev.Event]) -> dict[str, str]:
    """Return the first thing that one runner did to each task.

    To find that an agent has ended, and that its work is not to be continued, is none: its task is done again.
    """
    attached = [at for at, event in enumerate(events) if isinstance(event, ev.RunnerAttached)]
    steps: dict[str, str] = {}
    ended: set[str] = set()
    for event in events[: attached[1] if len(attached) > 1 else None]:
        if isinstance(event, ev.AgentsReattached):
            steps |= dict.fromkeys((*event.working, *event.finished), "agent")
            ended |= set(event.finished)
        elif isinstance(event, ev.AttemptLost) and event.task in ended and event.set_aside:
            del steps[event.task]
            ended.remove(event.task)
        elif isinstance(event, ev.TaskEvent) and type(event) in _STEPS:
            steps.setdefault(event.task, _step(event))
    return steps


def _step(event: ev.TaskEvent) -> str:
    if isinstance(event, ev.AttemptStarted) and event.attempt_kind is AttemptKind.PERSON:
        return "take in"
    return _STEPS[type(event)]


def redone(cuts: Sequence[BeforeCrash], end: Moment) -> int:
    """Count attempts at tasks that had already landed when a fault struck."""
    now = end.attempts()
    return sum(
        max(0, now.get(task, 0) - cut.moment.attempts().get(task, landing.attempt))
        for cut in cuts
        for task, landing in cut.moment.landed.items()
    )


def printed_violations(said: Sequence[ev.Event], moment: Moment) -> Iterator[Violation]:
    """Invariant 7: what was printed is in the journal, and what was called landed is on the branch."""
    missing = Counter(map(encode_event, said)) - Counter(map(encode_event, moment.events))
    for body in missing:
        yield Violation(7, f"it printed {body.decode()}, which the journal does not have")
    for event in said:
        if isinstance(event, ev.TaskLanded):
            landing = moment.landed.get(event.task)
            if landing is None or landing.commit != event.commit:
                yield Violation(
                    7, f"it said that {event.task} landed as {event.commit}; the branch has {landing}"
                )


def _since(cut: BeforeCrash, end: Moment) -> Iterator[Violation]:
    """Whatever stood at a fault still stands at the end, and was not done a second time."""
    before = cut.moment
    if end.recorded[: len(before.recorded)] != before.recorded:
        yield Violation(7, "events that were recorded before the fault are gone or changed")
    yield from printed_violations(cut.said, end)
    for task, landing in before.landed.items():
        if end.landed.get(task) != landing:
            yield Violation(7, f"{task} had landed as {landing.commit} before the fault and no longer is")
    if again := redone([cut], end):
        yield Harmful(
            13, f"{again} attempts were made at tasks that had landed before the fault", Harm.REDONE
        )


def _evidence(end: Moment, cuts: Sequence[BeforeCrash]) -> Evidence:
    """Every tip that the run branch ever had is on its first-parent line."""
    tips = {cut.moment.branch.tip for cut in cuts} - {"", end.branch.tip}
    return Evidence(
        settled=True,
        branch=end.branch,
        prepared=_prepared(end),
        lost_tips=tuple(tip for tip in tips if tip not in end.line),
    )


def _branch(moment: Moment) -> BranchFacts | None:
    """Return the run branch; an archived one lost nothing."""
    return moment.branch if moment.branch.tip else None


def _prepared(moment: Moment) -> frozenset[str]:
    """Return the merges that were checked. A journal that was rebuilt from git knows only that they are there."""
    restored = max(
        (at for at, event in enumerate(moment.events) if isinstance(event, ev.RunRestored)), default=0
    )
    return frozenset(
        event.commit
        for at, event in enumerate(moment.events)
        if isinstance(event, ev.MergePrepared) or (isinstance(event, ev.TaskLanded) and at < restored)
    )


def _landings(plan: SamplePlan, end: Moment) -> Iterator[Violation]:
    """Invariants 1, 2 and 5, from plain git and the plain history."""
    times = Counter(landing.task for landing in end.branch.landings)
    heads = {(e.task, e.attempt): e.head for e in end.events if isinstance(e, ev.AttemptDone)}
    order = [landing.task for landing in end.branch.landings]
    for task in plan.tasks():
        if times[task.id] != 1:
            harm = Harm.LANDED_TWICE if times[task.id] else Harm.LOST
            yield Harmful(2, f"{task.id} is on the first-parent line {times[task.id]} times", harm)
            continue
        landing = end.landed[task.id]
        head = heads.get((task.id, landing.attempt))
        if head != landing.head and not (head is None and _is_rebuilt(end)):
            yield Violation(
                1, f"{task.id} landed {landing.head}, not the head of its attempt {landing.attempt}"
            )
        for need in task.after:
            if need not in order[: order.index(task.id)]:
                yield Violation(5, f"{task.id} landed before {need}")


def _is_rebuilt(moment: Moment) -> bool:
    return any(isinstance(event, ev.RunRestored) for event in moment.events)


def _trees(objects: GitObjects, plan: SamplePlan, end: Moment) -> Iterator[Violation]:
    """Invariant 4: each landed tree passes its task's check. The last one has each task's work, and has it once."""
    checks = {task.id: task.check for task in plan.tasks() if task.check}
    for landing in end.branch.landings:
        if landing.task in checks:
            file, line = checks[landing.task]
            if line not in objects.files(landing.tree).get(file, "").splitlines():
                yield Violation(
                    4, f"{landing.commit} of {landing.task} landed, yet {file} has no line {line}"
                )
    yield from work_violations(plan, objects.files(objects.commit(end.branch.tip).tree))
    made = Counter(_subjects_beside(objects, end))
    for subject in plan.own_commits:
        if made[subject] != 1:
            harm = Harm.DOUBLED if made[subject] else Harm.LOST
            yield Harmful(4, f"the commit {subject!r} of a task is there {made[subject]} times", harm)


def work_violations(plan: SamplePlan, files: Mapping[str, str]) -> Iterator[Violation]:
    """Compare files with what all tasks together make: a line that is missing was lost, one too many was done twice."""
    for name in plan.lines.keys() | files.keys():
        text = files.get(name)
        wanted, found = Counter(plan.lines.get(name, ())), Counter((text or "").splitlines())
        if name not in plan.lines or "\n".join(found).count("<<<<<<<"):
            yield Violation(4, f"the final tree has {name} with {text!r}")
        elif text is None or wanted - found:
            yield Harmful(4, f"{name} lost {sorted(wanted - found)}: {text!r}", Harm.LOST)
        elif found - wanted:
            yield Harmful(4, f"{name} has {sorted(found - wanted)} too often: {text!r}", Harm.DOUBLED)


def _subjects_beside(objects: GitObjects, end: Moment) -> Iterator[str]:
    """Yield the subject of each commit that landings brought in, once for every landing that did."""
    for landing in end.branch.landings:
        for name, commit in objects.first_parents(landing.head, ""):
            if name not in end.line:
                yield commit.message.partition("\n")[0]


def _kept(repository: Path, end: Moment) -> Iterator[Violation]:
    """Invariant 6: every commit that holds an attempt's work is still reachable."""
    kept = reachable(repository)
    for event in end.events:
        for field in ("head", "carry", "set_aside") + (
            ("commit",) if isinstance(event, ev.SnapshotSaved) else ()
        ):
            commit = getattr(event, field, "")
            if commit and commit not in kept:
                yield Violation(6, f"{commit}, {field} of {type(event).__name__}, is reachable from no ref")


def _finished_work(repository: Path, end: Moment) -> Iterator[Violation]:
    """Invariant 6: an agent that ended well changed files; whatever went wrong after, that work was not dropped."""
    dropped = {
        (event.task, event.attempt)
        for event in end.events
        if isinstance(event, ev.AttemptFailed | ev.AttemptLost) and not (event.carry or event.set_aside)
    }
    for task, attempt in dropped:
        record = repository / f".holdfast/runs/{RUN}/attempts/{task}/{attempt}/agent/exit.json"
        if record.exists() and json.loads(record.read_text())["code"] == 0:
            yield Violation(6, f"attempt {attempt} at {task} ended well, yet what it did was dropped")


def _survivors(repository: Path) -> list[str]:
    deadline = time.monotonic() + QUIET_S
    while (alive := processes_of(repository)) and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    return alive


def fsck_problems(repository: Path) -> list[str]:
    """Return what `git fsck` says of a repository, a line each."""
    done = subprocess.run(
        ["git", "-C", repository, "fsck", "--strict", "--no-dangling", "--no-progress"],
        capture_output=True,
        text=True,
        errors="replace",
    )
    said = (done.stdout + done.stderr).splitlines()
    return said or ([f"it ended with {done.returncode}"] if done.returncode else [])


def _debris(repository: Path, state_files: re.Pattern[str]) -> Iterator[str]:
    """Yield every file that has no business in a repository at rest.

    Git's own unfinished objects (`objects/**/tmp_*`) are git's to remove: they are harmless, and `git prune` does.
    """
    for folder in (".git", ".holdfast"):
        for path in sorted((repository / folder).rglob("*")):
            name = str(path.relative_to(repository / folder))
            if not path.is_dir() and _is_debris(folder, name, state_files):
                yield str(path.relative_to(repository))
    for folder in (".git/worktrees", f".holdfast/work/{RUN}", ".git/holdfast-private/staging"):
        yield from (f"{folder}/{name}" for name in _entries(repository / folder))


def _is_debris(folder: str, name: str, state_files: re.Pattern[str]) -> bool:
    if folder == ".holdfast":
        return state_files.fullmatch(name) is None
    if name.startswith("holdfast-private/"):
        return _PRIVATE_FILES.fullmatch(name.removeprefix("holdfast-private/")) is None
    return name.endswith((".lock", ".new", ".pid", "holdfast-update")) or Path(name).name.startswith(
        ".holdfast-"
    )


def _entries(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()] if folder.is_dir() else []
