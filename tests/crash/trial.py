"""One cycle: copy the repository, break the program, look, recover, check the invariants. `PlannedFault` reproduces it."""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.core.invariants import Violation
from holdfast.errors import HoldfastError
from tests.crash.coverage import LeftDisk
from tests.crash.evidence import Moment, look, said
from tests.crash.faults import (
    Fault,
    FaultResult,
    Point,
    Program,
    end_survivors,
    list_points,
    run_with_fault,
    wait_for_survivors,
)
from tests.crash.invariants import (
    BeforeCrash,
    crash_violations,
    harm_of,
    leftover_violations,
    preview_violations,
    redone,
    repetition_violations,
)
from tests.crash.operations import Judged, NextCommand, Operation
from tests.crash.preloaded_program import Ended, PreloadedProgram
from tests.crash.sample_run import CARRY_ON, PREVIEW, STATUS, Checkout, copy, environment
from tests.crash.swept_store import SweptStore

TRIES_MAX = 4
FAULT_S = 60.0
DOCTOR = ("doctor", "--json")
KINDS: dict[str, Fault] = {
    "kill": Fault("kill", 0),
    "after": Fault("after", 0),
    "torn": Fault("torn", 0),
    "main_process": Fault("main_process", 0),
    "eio": Fault("errno", 0, errno.EIO),
    "enospc": Fault("errno", 0, errno.ENOSPC),
    "full": Fault("errno", 0, errno.ENOSPC, lasting=True),
}
_PREVIEWED_EVERY = 4
_EXAMINED_EVERY = 8
TORN_CALLS = ("write", "pwrite64", "writev", "pwritev", "sendfile", "sendto")


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

    def is_one_of(self, every: int) -> bool:
        """Tell whether this is one of every so many points; a cycle without a fault always is."""
        return all(fault.point % every == 0 for fault in self.planned[:1])

    def harms(self) -> tuple[str, ...]:
        """Return what the violations mean to the user, each harm once."""
        return tuple(sorted({str(harm_of(violation)) for violation in self.violations}))

    def sentences(self) -> Iterator[str]:
        """Yield each violation with its invariant, point, call and path."""
        where = ", then ".join(
            f"{fault} at {point.comm}'s {point.syscall} of {point.path}"
            for fault, point in zip(self.planned, self.struck, strict=False)
        )
        for violation in self.violations:
            yield f"invariant {violation.number}: {violation.sentence} [{where or 'no fault'}]"


class CrashTrial:
    """A folder with one operation's repository as it is before, one that is broken over and over, and an interpreter.

    Whoever has the interpreter already passes it on; it is closed by whoever made it. The journal is in the repository, or in
    a store that nobody else uses meanwhile.
    """

    def __init__(
        self,
        folder: Path,
        operation: Operation,
        bug: str = "",
        preloaded: PreloadedProgram | None = None,
        store: SweptStore | None = None,
    ) -> None:
        self.operation = operation
        self.store = store
        self.template = folder / "template"
        self.repository = folder / "repository"
        self._owns_program = preloaded is None
        self._preloaded = preloaded or PreloadedProgram(bug, "" if store is None else store.url)
        if not self.template.exists():
            shutil.rmtree(self.repository, ignore_errors=True)
            operation.prepare(self)
            self.repository.rename(self.template)
        if store is not None:
            store.wait_until_quiet()
            store.server.keep()
        self.before: Moment | None = None
        self.untouched = Checkout.of(self.template)

    def close(self) -> None:
        """End the preloaded interpreter."""
        if self._owns_program:
            self._preloaded.close()

    def broken_program(self) -> tuple[Program, int]:
        """Return the operation's command, for the fault tool, and the exit status that it has unbroken."""
        return self.program(self.operation.words), self.operation.exit_status

    def points(self) -> list[Point]:
        """List the points of one unbroken run of the operation."""
        self.reset()
        return list_points(*self.broken_program())

    def reset(self) -> None:
        """Put a fresh copy of the template in place."""
        shutil.rmtree(self.repository, ignore_errors=True)
        copy(self.template, self.repository)
        if self.store is not None:
            self.store.server.put_back()
        self.before = self.before or self._look()

    def _look(self, *, at_rest: bool = False) -> Moment:
        """Return what the repository shows now; where the journal is what the operation repairs, only at rest with it."""
        store = None if self.store is None else self.store.address(self.repository)
        return look(self.repository, store, with_journal=at_rest or not self.operation.repairs_journal)

    def program(self, words: Sequence[str], *, leave: bool = False) -> Program:
        """Return one command of the program, for the fault tool."""

        def start(output: Path, exchanges: bool) -> int:
            return self._preloaded.start(self.repository, words, output, exchanges=exchanges)

        port = None if self.store is None else self.store.process.port
        return Program(words, self.repository, self.repository, environment(), FAULT_S, leave, start, port)

    def run(self, *words: str) -> Ended:
        """Run a command unbroken."""
        return self._preloaded.run(self.repository, *words)

    def cycle(self, planned: Sequence[PlannedFault]) -> TrialResult:
        """Break a fresh repository at each of the points in turn, recover, and check all invariants."""
        self.reset()
        outcome = TrialResult(tuple(planned))
        try:
            self._suffer(outcome)
        except (HoldfastError, AssertionError) as error:
            outcome.violations.append(Violation(14, str(error)))
        return outcome

    def disk_cycle(self, left: LeftDisk) -> TrialResult:
        """Put a disk in place that a fault leaves, recover, and check all invariants. The fault itself is not run."""
        shutil.rmtree(self.repository, ignore_errors=True)
        left.disk.write_to(self.repository)
        planned = PlannedFault(left.kind, left.point.number)
        outcome = TrialResult((planned,), [left.point], log=f"--- {planned}, played back\n{left.printed}")
        try:
            cut = self._after(left.printed, None, outcome)
            self._recover(outcome, [cut], cut.moment)
        except (HoldfastError, AssertionError) as error:
            outcome.violations.append(Violation(14, str(error)))
        return outcome

    def _suffer(self, outcome: TrialResult) -> None:
        cuts: list[BeforeCrash] = []
        verdicts: list[FaultResult] = []
        words, is_still = self.operation.words, False
        try:
            for fault in outcome.planned:
                verdict = run_with_fault(self.program(words), fault.fault)
                verdicts.append(verdict)
                if self.store is not None:
                    self.store.wait_until_quiet()
                outcome.log += f"--- {fault}, ended with {verdict.exit_status}\n{verdict.output}"
                if "Traceback" in verdict.output:
                    outcome.violations.append(
                        Violation(14, f"it did not explain itself: {verdict.output[-1500:]}")
                    )
                if verdict.point is None:
                    break
                outcome.struck.append(verdict.point)
                if not self.operation.has_agents:
                    wait_for_survivors(verdict, FAULT_S)
                cuts.append(self._after(verdict.output, verdict.exit_status, outcome))
                is_still = not verdict.survivors
                words = self.operation.next_steps(cuts[-1].moment)[0].words
            self._recover(outcome, cuts, cuts[-1].moment if is_still else self._look())
        finally:
            for verdict in verdicts:
                end_survivors(verdict)

    def _after(self, printed: str, exit_status: int | None, outcome: TrialResult) -> BeforeCrash:
        """Look right after a fault. With agents about that outlived it, the repository may change between two looks."""
        cut = BeforeCrash(tuple(said(printed)), self._look())
        outcome.violations += crash_violations(cut)
        if not self.operation.repairs_journal:
            self._expect(outcome, 15, NextCommand(STATUS), self.run(*STATUS))
        if self.operation.is_done_at_once and (exit_status == 0 or _is_whole_answer(printed)):
            outcome.violations += self.operation.violations(self._judged([cut], cut.moment))
        return cut

    def _recover(self, outcome: TrialResult, cuts: list[BeforeCrash], now: Moment) -> None:
        """Do what a user does next, then judge. What costs much and finds little more is done for some points only."""
        for step in self.operation.next_steps(now):
            ended, now = self._carry_on(outcome, step, now)
            if not self._expect(outcome, 14, step, ended):
                return
        outcome.violations += self.operation.violations(self._judged(cuts, now))
        outcome.redone = redone(cuts, now)
        outcome.wasted = 0 if now.stored is None else sum(task.wasted for task in now.stored.tasks)
        again = self.operation.repetition
        self._expect(outcome, 13, again, self._logged(outcome, again.words))
        outcome.violations += repetition_violations(now, self._look(at_rest=True))
        also = self.operation.also if self.store is None else rf"{self.operation.also}|store\.json"
        outcome.violations += leftover_violations(
            self.repository, None if self.operation.changes_checkout else self.untouched, also
        )
        if not self.operation.has_agents or outcome.is_one_of(_EXAMINED_EVERY):
            self._expect(outcome, 12, NextCommand(DOCTOR), self.run(*DOCTOR))

    def _carry_on(self, outcome: TrialResult, step: NextCommand, now: Moment) -> tuple[Ended, Moment]:
        """Type a command, a few times if it resumes a run, and compare it with its preview; return how it ended, and then."""
        ended = Ended(-1, "")
        tries = TRIES_MAX if step.words == CARRY_ON else 1
        while tries and ended.code not in step.codes:
            before = now
            is_foreseen = step.words == CARRY_ON and before.stored is not None
            preview = self.run(*PREVIEW) if is_foreseen and outcome.is_one_of(_PREVIEWED_EVERY) else None
            ended, now = self._logged(outcome, step.words), self._look(at_rest=True)
            if preview is not None:
                outcome.log += f"--- foretold, ended with {preview.code}\n{preview.output}"
                outcome.violations += preview_violations(preview.output, before, now)
            outcome.resumes += 1
            tries -= 1
        return ended, now

    def _logged(self, outcome: TrialResult, words: Sequence[str]) -> Ended:
        ended = self.run(*words)
        outcome.log += f"--- {' '.join(words)}, ended with {ended.code}\n{ended.output}"
        if "Traceback" in ended.output:
            outcome.violations.append(Violation(14, f"it did not explain itself: {ended.output[-1500:]}"))
        return ended

    def _expect(self, outcome: TrialResult, invariant: int, step: NextCommand, ended: Ended) -> bool:
        """Note a command that did not end as it should."""
        if ended.code in step.codes:
            return True
        outcome.violations.append(
            Violation(invariant, f"`{' '.join(step.words)}` ended with {ended.code}: {ended.output[-2000:]}")
        )
        return False

    def _judged(self, cuts: Sequence[BeforeCrash], end: Moment) -> Judged:
        assert self.before is not None
        return Judged(self.repository, self.before, cuts, end, self.run)


def _is_whole_answer(printed: str) -> bool:
    """Tell whether a command said that it was done: with --json, its answer is one object."""
    try:
        return isinstance(json.loads(printed), dict)
    except ValueError:
        return False
