"""One cycle: copy the repository, break the program, look, recover, check the invariants. `PlannedFault` reproduces it."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.core.invariants import Violation
from holdfast.errors import HoldfastError
from tests.crash.evidence import look, said
from tests.crash.faults import Fault, FaultResult, Point, Program, end_survivors, list_points, run_with_fault
from tests.crash.invariants import (
    BeforeCrash,
    crash_violations,
    end_violations,
    leftover_violations,
    preview_violations,
    redone,
    repetition_violations,
)
from tests.crash.preloaded_program import Ended, PreloadedProgram
from tests.crash.sample_run import (
    CARRY_ON,
    HOLDFAST,
    PLAN,
    PLANTED,
    PREVIEW,
    START,
    STATUS,
    Checkout,
    copy,
    environment,
    make_template,
)

RESUMES_MAX = 4
FAULT_S = 60.0
KINDS: dict[str, Fault] = {
    "kill": Fault("kill", 0),
    "after": Fault("after", 0),
    "torn": Fault("torn", 0),
    "main_process": Fault("main_process", 0),
    "eio": Fault("errno", 0, errno.EIO),
    "enospc": Fault("errno", 0, errno.ENOSPC),
    "full": Fault("errno", 0, errno.ENOSPC, lasting=True),
}
TORN_CALLS = ("write", "pwrite64", "writev", "pwritev", "sendfile")


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """One fault, spelled as `kind:point`."""

    kind: str
    point: int

    @property
    def fault(self) -> Fault:
        """The fault for the tool."""
        model = KINDS[self.kind]
        return Fault(model.mode, self.point, model.error, model.lasting)

    def __str__(self) -> str:
        return f"{self.kind}:{self.point}"


@dataclass(slots=True)
class TrialResult:
    """What became of a cycle: where the faults struck, and which promises were broken."""

    planned: tuple[PlannedFault, ...]
    struck: list[Point] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    resumes: int = 0
    redone: int = 0
    wasted: int = 0
    log: str = ""

    @property
    def fired(self) -> bool:
        """Whether every fault of the cycle really struck."""
        return len(self.struck) == len(self.planned)

    def sentences(self) -> Iterator[str]:
        """Yield each violation with its invariant, point, call and path."""
        where = ", then ".join(
            f"{fault} at {point.comm}'s {point.syscall} of {point.path}"
            for fault, point in zip(self.planned, self.struck, strict=False)
        )
        for violation in self.violations:
            yield f"invariant {violation.number}: {violation.sentence} [{where or 'no fault'}]"


class CrashTrial:
    """A folder with the template, one repository that is broken over and over, and a preloaded interpreter."""

    def __init__(self, folder: Path, bug: str = "", plan: str = PLAN) -> None:
        self.template = folder / "template"
        self.repository = folder / "repository"
        self._bug = bug
        self._holdfast = (*PLANTED, bug) if bug else HOLDFAST
        if not self.template.exists():
            make_template(self.template, plan)
        self.untouched = Checkout.of(self.template)
        self._preloaded: PreloadedProgram | None = None

    def close(self) -> None:
        """End the preloaded interpreter."""
        if self._preloaded is not None:
            self._preloaded.close()
            self._preloaded = None

    def points(self) -> list[Point]:
        """List the points of one unbroken run."""
        self.reset()
        return list_points(self.program(START))

    def reset(self) -> None:
        """Put a fresh copy of the template in place."""
        shutil.rmtree(self.repository, ignore_errors=True)
        copy(self.template, self.repository)

    def program(self, argv: Sequence[str], *, leave: bool = False) -> Program:
        """Return one command of the program, for the fault tool."""
        return Program(
            [*self._holdfast, *argv], self.repository, self.repository, environment(), FAULT_S, leave
        )

    def run(self, *argv: str) -> Ended:
        """Run a command unbroken."""
        self._preloaded = self._preloaded or PreloadedProgram(self._bug)
        return self._preloaded.run(self.repository, *argv)

    def cycle(self, planned: Sequence[PlannedFault]) -> TrialResult:
        """Break a fresh run at each of the points in turn, recover, and check all invariants."""
        self.reset()
        outcome = TrialResult(tuple(planned))
        try:
            self._suffer(outcome)
        except (HoldfastError, AssertionError) as error:
            outcome.violations.append(Violation(14, str(error)))
        return outcome

    def _suffer(self, outcome: TrialResult) -> None:
        cuts: list[BeforeCrash] = []
        verdicts: list[FaultResult] = []
        try:
            for fault in outcome.planned:
                verdict = run_with_fault(self.program(self._next_command()), fault.fault)
                verdicts.append(verdict)
                outcome.log += f"--- {fault}, ended with {verdict.exit_status}\n{verdict.output}"
                if "Traceback" in verdict.output:
                    outcome.violations.append(
                        Violation(14, f"it did not explain itself: {verdict.output[-1500:]}")
                    )
                if verdict.point is None:
                    break
                outcome.struck.append(verdict.point)
                cuts.append(self._after(verdict, outcome))
            self._recover(outcome, cuts)
        finally:
            for verdict in verdicts:
                end_survivors(verdict)

    def _after(self, verdict: FaultResult, outcome: TrialResult) -> BeforeCrash:
        """Look right after a fault. With survivors about, the repository may change between two looks."""
        cut = BeforeCrash(tuple(said(verdict.output)), look(self.repository))
        outcome.violations += crash_violations(cut)
        status = self.run(*STATUS)
        if status.code != 0:
            outcome.violations.append(Violation(15, f"status ended with {status.code}: {status.output}"))
        return cut

    def _next_command(self) -> tuple[str, ...]:
        return START if look(self.repository).stored is None else CARRY_ON

    def _recover(self, outcome: TrialResult, cuts: list[BeforeCrash]) -> None:
        ended = Ended(-1, "")
        while outcome.resumes < RESUMES_MAX and ended.code != 0:
            before = look(self.repository)
            preview = self.run(*PREVIEW) if before.stored is not None else None
            ended = self.run(*self._next_command())
            outcome.resumes += 1
            outcome.log += f"--- resumed, ended with {ended.code}\n{ended.output}"
            if preview is not None:
                outcome.log += f"--- foretold, ended with {preview.code}\n{preview.output}"
                outcome.violations += preview_violations(preview.output, before, look(self.repository))
        end = look(self.repository)
        outcome.violations += end_violations(self.repository, end, cuts)
        outcome.redone = redone(cuts, end)
        outcome.wasted = 0 if end.stored is None else sum(task.wasted for task in end.stored.tasks)
        if ended.code != 0:
            outcome.violations.append(
                Violation(14, f"resume ended with {ended.code}: {ended.output[-2000:]}")
            )
            return
        again = self.run(*CARRY_ON)
        outcome.log += f"--- resumed again, ended with {again.code}\n{again.output}"
        outcome.violations += repetition_violations(end, look(self.repository))
        outcome.violations += leftover_violations(self.repository, self.untouched)
