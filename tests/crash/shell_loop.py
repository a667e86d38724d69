"""The comparison: a plain shell loop of `git worktree` and `git merge`, broken at each of its points and judged alike.

It does one task after the other, with the same commands as the plans of the sweep. After a fault it is started again, a few times
at most, as its user would. Nobody removes locks by hand for it, and nobody does for Holdfast.
"""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from holdfast.core.invariants import Violation
from tests.crash.coverage import LeftDisk
from tests.crash.evidence import GitObjects
from tests.crash.faults import (
    FaultResult,
    Point,
    Program,
    end_survivors,
    list_points,
    run_with_fault,
    wait_for_survivors,
)
from tests.crash.invariants import Harm, Harmful, fsck_problems, work_violations
from tests.crash.sample_run import SamplePlan, copy, environment, git, make_template
from tests.crash.trial import FAULT_S, TRIES_MAX, PlannedFault, TrialResult

SCRIPT = Path(__file__).with_name("shell_loop.sh")
BRANCH = "refs/heads/result"
TASKS = {
    "append": "echo more >> shared",
    "commit": "echo own >> own && git add own && git commit -qm own",
}
LINES = {"shared": ("base", "more"), "kept": ("kept",), "own": ("own",)}
PLAN = SamplePlan((), LINES)
NAME = "shell loop"
NO_INVARIANT = 0


class LoopTrial:
    """A folder with a repository for the loop, which is broken over and over."""

    def __init__(self, folder: Path) -> None:
        self.template = folder / "template"
        self.repository = folder / "repository"
        self._tasks = folder / "tasks"
        self._started = folder / "started"
        if not self.template.exists():
            make_template(self.template, "")
            lines = [f"{task} echo {task} >> {self._started}; {command}\n" for task, command in TASKS.items()]
            self._tasks.write_text("".join(lines))

    def close(self) -> None:
        """Nothing is kept alive."""

    def reset(self) -> None:
        """Put a fresh copy of the template in place."""
        shutil.rmtree(self.repository, ignore_errors=True)
        copy(self.template, self.repository)
        self._started.write_text("")

    def broken_program(self) -> tuple[Program, int]:
        """Return the loop, for the fault tool, and its exit status."""
        return self._loop(), 0

    def _loop(self) -> Program:
        return Program(
            ["sh", str(SCRIPT), str(self._tasks)], self.repository, self.repository, environment(), FAULT_S
        )

    def points(self) -> list[Point]:
        """List the points of one unbroken run."""
        self.reset()
        return list_points(self._loop())

    def cycle(self, planned: Sequence[PlannedFault]) -> TrialResult:
        """Break the loop, start it again, and judge."""
        self.reset()
        outcome = TrialResult(tuple(planned))
        verdicts: list[FaultResult] = []
        for fault in planned:
            verdict = run_with_fault(self._loop(), fault.fault)
            verdicts.append(verdict)
            outcome.log += f"--- {fault}, ended with {verdict.exit_status}\n{verdict.output}"
            outcome.struck += [verdict.point] if verdict.point else []
            wait_for_survivors(verdict, FAULT_S)
        self._recover(outcome)
        for verdict in verdicts:
            end_survivors(verdict)
        return outcome

    def disk_cycle(self, left: LeftDisk) -> TrialResult:
        """Put a disk in place that a fault leaves, start the loop again, and judge."""
        shutil.rmtree(self.repository, ignore_errors=True)
        left.disk.write_to(self.repository)
        self._started.write_text("")
        outcome = TrialResult((PlannedFault(left.kind, left.point.number),), [left.point])
        self._recover(outcome)
        return outcome

    def _recover(self, outcome: TrialResult) -> None:
        landed, before = self._landed(), Counter(self._started.read_text().split())
        code = -1
        while outcome.resumes < TRIES_MAX and code != 0:
            done = subprocess.run(
                self._loop().argv,
                cwd=self.repository,
                env=environment(),
                capture_output=True,
                text=True,
                check=False,
            )
            code = done.returncode
            outcome.resumes += 1
            outcome.log += f"--- started again, ended with {code}\n{done.stdout}{done.stderr}"
        started = Counter(self._started.read_text().split()) - before
        outcome.violations += self._violations(landed)
        outcome.violations += [
            Harmful(13, f"{task} had landed and was done again", Harm.REDONE)
            for task in landed
            if started[task]
        ]
        if code != 0:
            outcome.violations.append(
                _found(Harm.STUCK, f"it ends with {code} each time: {outcome.log[-500:]}")
            )

    def _violations(self, landed: Counter[str]) -> Iterator[Violation]:
        """Judge by git alone, as far as the loop got: what had landed is there, and nothing is there twice."""
        now = self._landed()
        for task in TASKS:
            if now[task] > 1:
                yield _found(Harm.LANDED_TWICE, f"{task} is on the branch {now[task]} times")
            if landed[task] > now[task]:
                yield _found(Harm.LOST, f"{task} had landed and no longer is on the branch")
        if now.keys() == TASKS.keys():
            with GitObjects(self.repository) as objects:
                tip = git(self.repository, "rev-parse", BRANCH).strip()
                yield from work_violations(PLAN, objects.files(objects.commit(tip).tree))
        for problem in fsck_problems(self.repository):
            yield _found(Harm.OTHER, f"git fsck: {problem}")

    def _landed(self) -> Counter[str]:
        try:
            subjects = git(
                self.repository, "log", "--first-parent", "--format=%s", f"main..{BRANCH}"
            ).splitlines()
        except AssertionError:
            return Counter()
        return Counter(subject.removeprefix("Land ") for subject in subjects if subject.startswith("Land "))


def _found(harm: Harm, sentence: str) -> Violation:
    """Return what is wrong; the invariants are Holdfast's, so it has no number."""
    return Harmful(NO_INVARIANT, sentence, harm)
