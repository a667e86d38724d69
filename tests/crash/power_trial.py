"""One power cut: build the disk that it leaves, pretend a reboot, resume, and judge what comes out.

The run is small and has one of each: a command that appends, one that commits by itself, an agent that goes on from what
it finds, a check, a merge of both sides, files of several pages. Whoever builds on a torn file lands a torn file.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.core import events as ev, ids
from holdfast.core.invariants import Evidence, Violation, fold_violations, violations
from holdfast.core.status import RunStatus
from holdfast.errors import HoldfastError
from holdfast.journal import open_reader
from holdfast.paths import StateDir
from tests.crash.disk_image import Tree
from tests.crash.evidence import Moment, look, said
from tests.crash.faults import Program
from tests.crash.invariants import leftover_violations, printed_violations, repetition_violations
from tests.crash.planted_bugs import REBOOTED
from tests.crash.preloaded_program import Ended, PreloadedProgram
from tests.crash.recording import Recording, record
from tests.crash.sample_run import (
    CARRY_ON,
    HOLDFAST,
    PREVIEW,
    RUN,
    START,
    STATUS,
    Checkout,
    copy,
    environment,
    git,
    make_template,
)

RESUMES_MAX = 4
RECORD_S = 120.0
_SHOWN_CHARS = 8000
NUMBERS = "".join(f"{number}\n" for number in range(1, 2001))
FILES = {"shared": "base\nmore\n", "own": "own\n", "numbers": NUMBERS, "kept": "kept\n"}
PLAN = json.dumps(
    {
        "holdfast": 1,
        "goal": "crash sweep",
        "limits": {"jobs": 2, "attempts": 6, "retry_delay": "0s"},
        "agents": {
            "builder": {
                "command": ["sh", "-c", "test -e numbers || { seq 2000 > .new && mv .new numbers; }"],
                "prompt": "file",
            }
        },
        "stages": [
            {
                "id": "one",
                "tasks": [
                    {
                        "id": "append",
                        "run": ["sh", "-c", "echo more >> shared"],
                        "verify": ["grep -qx more shared"],
                    },
                    {"id": "commit", "run": ["sh", "-c", "echo own > own; git add own; git commit -qm own"]},
                ],
            },
            {"id": "two", "tasks": [{"id": "build", "agent": "builder", "prompt": "build it"}]},
        ],
    }
)


@dataclass(frozen=True, slots=True, order=True)
class Cut:
    """One power cut: its moment, and the model and seed that decide what is left."""

    moment: int
    model: str
    seed: int

    def __str__(self) -> str:
        return f"--moment {self.moment} --model {self.model} --seed {self.seed}"


@dataclass(frozen=True, slots=True)
class CutDisk:
    """A disk to judge: the cut, what it left, and what had been printed until then."""

    cut: Cut
    tree: Tree
    printed: str


@dataclass(slots=True)
class CutResult:
    """What became of a power cut: which promises were broken, and all that was printed."""

    cut: Cut
    violations: list[Violation] = field(default_factory=list)
    resumes: int = 0
    log: str = ""


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A recording, the folder it was made in, and the user's files before it."""

    recording: Recording
    repository: Path
    untouched: Checkout


def record_run(folder: Path) -> RecordedRun:
    """Make a repository in a new folder and record one unbroken run in it."""
    repository = folder / "repository"
    make_template(folder / "template", PLAN)
    copy(folder / "template", repository)
    untouched = Checkout.of(repository)
    program = Program([*HOLDFAST, *START], repository, repository, environment(), RECORD_S)
    return RecordedRun(record(program), repository, untouched)


class PowerTrial:
    """A folder in which disks are built, resumed and judged, one after the other."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.repository = folder / "repository"
        self._rebooted = PreloadedProgram(REBOOTED)

    def close(self) -> None:
        """End the preloaded interpreter."""
        self._rebooted.close()

    def judge(self, disk: CutDisk, run: RecordedRun) -> CutResult:
        """Build the disk that a cut left of a run, resume it, and say what is wrong."""
        shutil.rmtree(self.repository, ignore_errors=True)
        disk.tree.moved(_names(run.repository, self.repository)).write_to(self.repository)
        result = CutResult(disk.cut)
        result.violations += _told_refs(self.repository, said(disk.printed))
        try:
            end = self._carry_on(result)
            result.violations += _end_violations(self.repository, end)
            result.violations += _told_violations(said(disk.printed), end)
            self.run(result, *CARRY_ON)
            result.violations += repetition_violations(end, look(self.repository))
            result.violations += leftover_violations(self.repository, run.untouched)
        except (HoldfastError, AssertionError, ValueError, OSError, subprocess.SubprocessError) as error:
            result.violations.append(Violation(14, f"{type(error).__name__}: {error}"))
        return result

    def run(self, result: CutResult, *argv: str) -> Ended:
        """Run a command in the boot after the cut; it must not end with a traceback."""
        ended = self._rebooted.run(self.repository, *argv)
        result.log += f"--- {' '.join(argv)}, ended with {ended.code}\n{ended.output}"
        if "Traceback" in ended.output:
            result.violations.append(Violation(14, f"it did not explain itself: {ended.output[-1500:]}"))
        return ended

    def _carry_on(self, result: CutResult) -> Moment:
        """Look, preview, and resume until the run is over."""
        looks = [STATUS, *([PREVIEW] if self._has_run() else [])]
        for number, argv in zip((15, 14), looks, strict=False):
            if (ended := self.run(result, *argv)).code != 0:
                result.violations.append(
                    Violation(number, f"{' '.join(argv)} ended with {ended.code}: {ended.output}")
                )
        ended = Ended(-1, "")
        while result.resumes < RESUMES_MAX and ended.code != 0:
            ended = self.run(result, *(CARRY_ON if self._has_run() else START))
            result.resumes += 1
        if ended.code != 0:
            result.violations.append(
                Violation(14, f"resume ended with {ended.code}:\n{result.log[-_SHOWN_CHARS:]}")
            )
        return look(self.repository)

    def _has_run(self) -> bool:
        journal = StateDir.of_checkout(self.repository).journal
        return journal.exists() and any(one.row.run == RUN for one in open_reader(journal).runs())


def _names(old: Path, new: Path) -> dict[str, str]:
    """Return what a repository's own files say about the folder that it is in."""
    return {str(old): str(new), _pool_digest(old): _pool_digest(new)}


def _pool_digest(repository: Path) -> str:
    """Return the part of the names of workspaces that depends on where they are (`repo/workspaces.py`)."""
    folder = StateDir.of_checkout(repository).run(RUN).workspaces
    return hashlib.sha256(os.fsencode(folder)).hexdigest()[:8]


def _told_refs(repository: Path, told: Sequence[ev.Event]) -> Iterator[Violation]:
    """Before anything is recovered, refs hold what was told: the plan of a run that began, the work of each attempt."""
    plan = repository / ".git" / ids.plan_ref(RUN)
    if told and not plan.is_file():
        yield Violation(7, f"the run had begun, and {plan.name} is not at its ref")
    for event in told:
        if isinstance(event, ev.AttemptDone):
            ref = repository / ".git" / ids.task_ref(RUN, event.task, event.attempt)
            if not ref.is_file() or ref.read_text().strip() != event.head:
                yield Violation(6, f"{event.head}, done by {event.task}, is not at its ref")


def _end_violations(repository: Path, end: Moment) -> Iterator[Violation]:
    """Judge a run that was carried to its end: by the product's own invariants, and by the files that landed."""
    if end.stored is None or end.stored.row.status is not RunStatus.COMPLETED:
        yield Violation(14, f"the run did not complete: {end.stored and end.stored.row.reason}")
        return
    yield from fold_violations(end.stored.first_plan, end.recorded, end.stored.row, end.stored.tasks)
    prepared = frozenset(event.commit for event in end.events if isinstance(event, ev.MergePrepared))
    yield from violations(end.state(), Evidence(settled=True, branch=end.branch, prepared=prepared))
    names = git(repository, "ls-tree", "--name-only", end.branch.tip).split()
    landed = {name: git(repository, "cat-file", "blob", f"{end.branch.tip}:{name}") for name in names}
    for name in sorted(landed.keys() | FILES.keys()):
        if landed.get(name) != FILES.get(name):
            yield Violation(4, f"{name} landed with {str(landed.get(name))[:200]!r}")


def _told_violations(told: Sequence[ev.Event], end: Moment) -> Iterator[Violation]:
    """Invariant 7: what was printed is in the journal and on the branch. 13: none of it was done again."""
    yield from printed_violations(told, end)
    for event in told:
        if isinstance(event, ev.TaskLanded) and end.attempts().get(event.task) != event.attempt:
            yield Violation(13, f"{event.task} had landed, and was begun again")
