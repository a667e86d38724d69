"""What must hold after a crash and after the recovery from it, as sentences that name the invariant's number.

The product's own invariants (`core/invariants.py`) are asked first; then everything is compared once more with plain git.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.core import events as ev
from holdfast.core.event_codec import encode_event
from holdfast.core.invariants import Evidence, Violation, fold_violations, violations
from holdfast.core.status import RunStatus
from tests.crash.evidence import Moment, is_ancestor, processes_of, reachable
from tests.crash.sample_run import CHECKS, FILES, NEEDS, RUN, TASKS, Checkout, git

QUIET_S = 5.0
_POLL_S = 0.02

_STATE_FILES = re.compile(
    r"journal\.db|runs/R/lease|runs/R/requests/bell"
    r"|runs/R/attempts/[^/]+/\d+/(brief\.md|[^/]+/(supervisor\.json|exit\.json|output\.log))".replace(
        "R", RUN
    )
)
_PRIVATE_FILES = re.compile(r"sealed/(config|HEAD|filters|objects|info|shallow|lfs|git-crypt)|checked-boot")


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
    yield from fold_violations(moment.stored.plan, moment.recorded, moment.stored.row, moment.stored.tasks)
    yield from _printed(cut.said, moment)
    yield from violations(moment.state(), Evidence(branch=moment.branch, prepared=_prepared(moment)))


def end_violations(repository: Path, end: Moment, cuts: Sequence[BeforeCrash]) -> Iterator[Violation]:
    """Judge a repository whose run was carried to its end after one or more faults."""
    if end.stored is None or end.stored.row.status is not RunStatus.COMPLETED:
        standing = "there is no run" if end.stored is None else f"it is {end.stored.row.status}"
        why = "" if end.stored is None else end.stored.row.reason
        yield Violation(14, f"the run did not complete: {standing} {why}".rstrip())
        return
    yield from fold_violations(end.stored.plan, end.recorded, end.stored.row, end.stored.tasks)
    yield from violations(end.state(), _evidence(repository, end, cuts))
    yield from _landings(end)
    yield from _trees(repository, end)
    yield from _kept(repository, end)
    yield from _finished_work(repository, end)
    for cut in cuts:
        yield from _since(cut, end)


def leftover_violations(repository: Path, template: Checkout) -> Iterator[Violation]:
    """Judge what lies around once nothing runs: processes, locks, temporary files, and the user's own files."""
    for process in _survivors(repository):
        yield Violation(11, f"still alive after the end: {process}")
    for problem in _fsck(repository):
        yield Violation(12, f"git fsck: {problem}")
    for path in _debris(repository):
        yield Violation(12, f"{path} is left over")
    for name in template.differences(Checkout.of(repository)):
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
    "collect": ("agent",),
    # An agent whose supervisor has not written its record yet is found a moment later.
    "run": ("start", "agent"),
    "redo": ("start",),
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
    """Return the first thing that one runner did to each task."""
    attached = [at for at, event in enumerate(events) if isinstance(event, ev.RunnerAttached)]
    steps: dict[str, str] = {}
    for event in events[: attached[1] if len(attached) > 1 else None]:
        if isinstance(event, ev.AgentsReattached):
            steps |= dict.fromkeys((*event.working, *event.finished), "agent")
        elif isinstance(event, ev.TaskEvent) and type(event) in _STEPS:
            steps.setdefault(event.task, _STEPS[type(event)])
    return steps


def redone(cuts: Sequence[BeforeCrash], end: Moment) -> int:
    """Count attempts at tasks that had already landed when a fault struck."""
    now = end.attempts()
    return sum(
        max(0, now.get(task, 0) - cut.moment.attempts().get(task, landing.attempt))
        for cut in cuts
        for task, landing in cut.moment.landed.items()
    )


def _printed(said: Sequence[ev.Event], moment: Moment) -> Iterator[Violation]:
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
    yield from _printed(cut.said, end)
    for task, landing in before.landed.items():
        if end.landed.get(task) != landing:
            yield Violation(7, f"{task} had landed as {landing.commit} before the fault and no longer is")
    if again := redone([cut], end):
        yield Violation(13, f"{again} attempts were made at tasks that had landed before the fault")


def _evidence(repository: Path, end: Moment, cuts: Sequence[BeforeCrash]) -> Evidence:
    tips = {cut.moment.branch.tip for cut in cuts} - {"", end.branch.tip}
    return Evidence(
        settled=True,
        branch=end.branch,
        prepared=_prepared(end),
        lost_tips=tuple(tip for tip in tips if not is_ancestor(repository, tip, end.branch.tip)),
    )


def _prepared(moment: Moment) -> frozenset[str]:
    return frozenset(event.commit for event in moment.events if isinstance(event, ev.MergePrepared))


def _landings(end: Moment) -> Iterator[Violation]:
    """Invariants 1, 2 and 5, from plain git and the plain history."""
    times = Counter(landing.task for landing in end.branch.landings)
    for task in TASKS:
        if times[task] != 1:
            yield Violation(2, f"{task} is on the first-parent line {times[task]} times")
    heads = {(e.task, e.attempt): e.head for e in end.events if isinstance(e, ev.AttemptDone)}
    order = [landing.task for landing in end.branch.landings]
    for landing in end.branch.landings:
        if heads.get((landing.task, landing.attempt)) != landing.head:
            yield Violation(
                1, f"{landing.task} landed {landing.head}, not the head of its attempt {landing.attempt}"
            )
        for need in NEEDS[landing.task]:
            if need not in order[: order.index(landing.task)]:
                yield Violation(5, f"{landing.task} landed before {need}")


def _trees(repository: Path, end: Moment) -> Iterator[Violation]:
    """Invariant 4: each landed tree passes its task's check, and the last one holds what every task made."""
    for landing in end.branch.landings:
        check = CHECKS.get(landing.task, "true")
        if not _holds(repository, landing.commit, check):
            yield Violation(4, f"{landing.commit} of {landing.task} landed, yet `{check}` fails on it")
    names = git(repository, "ls-tree", "--name-only", end.branch.tip).split()
    wrong = [
        name for name, text in FILES.items() if name not in names or _text(repository, end, name) != text
    ]
    if set(names) != {*FILES, "shared"} or wrong:
        yield Violation(4, f"the final tree has {names}, with wrong content in {wrong}")
    elif sorted(_text(repository, end, "shared").split()) != ["left", "right"]:
        yield Violation(4, f"`shared` lost a side of the conflict: {_text(repository, end, 'shared')!r}")


def _text(repository: Path, end: Moment, name: str) -> str:
    return git(repository, "cat-file", "blob", f"{end.branch.tip}:{name}")


def _holds(repository: Path, commit: str, check: str) -> bool:
    """Run a check on a commit's own files."""
    with tempfile.TemporaryDirectory(prefix="landed-") as folder:
        archive = subprocess.run(
            ["git", "-C", repository, "archive", commit], capture_output=True, check=True
        )
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
        return subprocess.run(["sh", "-c", check], cwd=folder).returncode == 0


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


def _fsck(repository: Path) -> list[str]:
    done = subprocess.run(
        ["git", "-C", repository, "fsck", "--strict", "--no-dangling", "--no-progress"],
        capture_output=True,
        text=True,
        errors="replace",
    )
    said = (done.stdout + done.stderr).splitlines()
    return said or ([f"it ended with {done.returncode}"] if done.returncode else [])


def _debris(repository: Path) -> Iterator[str]:
    """Yield every file that has no business in a repository at rest.

    Git's own unfinished objects (`objects/**/tmp_*`) are git's to remove: they are harmless, and `git prune` does.
    """
    for folder in (".git", ".holdfast"):
        for path in sorted((repository / folder).rglob("*")):
            if not path.is_dir() and _is_debris(folder, str(path.relative_to(repository / folder))):
                yield str(path.relative_to(repository))
    for folder in (".git/worktrees", f".holdfast/work/{RUN}", ".git/holdfast-private/staging"):
        yield from (f"{folder}/{name}" for name in _entries(repository / folder))


def _is_debris(folder: str, name: str) -> bool:
    if folder == ".holdfast":
        return _STATE_FILES.fullmatch(name) is None
    if name.startswith("holdfast-private/"):
        return _PRIVATE_FILES.fullmatch(name.removeprefix("holdfast-private/")) is None
    return name.endswith((".lock", ".new", ".pid")) or Path(name).name.startswith(".holdfast-")


def _entries(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()] if folder.is_dir() else []
