"""The sweep: break the real program at its crash points, recover, judge, count.

    python -m tests.crash.sweep --sample 300 --seed 7              as many faults that really struck, of all modes
    python -m tests.crash.sweep --operation land --mode kill       those of one operation, or of one mode
    python -m tests.crash.sweep --operation run/conflict --faults kill:12          one of them again, with all that was printed
    python -m tests.crash.sweep --operation run/conflict --faults kill:12+full:3   the second in the resume after the first
    python -m tests.crash.sweep --store redis …                    the journal is in a server; half the points are messages to it

Every point of every operation is the business of `matrix.py`. A run is concurrent: the same number is not always the
same call, and the last numbers may not be reached. A fault that did not strike proves nothing; it is counted apart and
another takes its place.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tests.crash.faults import SERVER, Point, stratified_sample
from tests.crash.operations import OPERATIONS, STORED_OPERATIONS, Operation
from tests.crash.swept_store import SweptStore
from tests.crash.trial import KINDS, TORN_CALLS, CrashTrial, PlannedFault, TrialResult
from tests.support.servers import SERVERS

WORKERS = 2
RECOVERY = "recovery"
STACKED = "stacked"
MODES = (*KINDS, RECOVERY, STACKED)
_SHARES = {
    "kill": 6,
    "after": 3,
    "torn": 3,
    "main_process": 4,
    "eio": 3,
    "enospc": 2,
    "full": 3,
    RECOVERY: 4,
    STACKED: 2,
}
_STACK = 3
_TRIES = 3


@dataclass(frozen=True, slots=True)
class Job:
    """A cycle to do: the mode it counts for, and its faults."""

    mode: str
    planned: tuple[PlannedFault, ...]


@dataclass(slots=True)
class Tally:
    """What a sweep found, by mode."""

    done: Counter[str] = field(default_factory=Counter)
    fired: Counter[str] = field(default_factory=Counter)
    bad: Counter[str] = field(default_factory=Counter)
    resumes: Counter[str] = field(default_factory=Counter)
    at_server: int = 0
    """How many cycles began with a fault at a message to the server, or from it."""
    redone: int = 0
    wasted: int = 0
    sentences: list[str] = field(default_factory=list)
    log: str = ""

    def add(self, operation: Operation, job: Job, outcome: TrialResult, store: str = "") -> None:
        """Count one cycle."""
        self.done[job.mode] += 1
        self.fired[job.mode] += outcome.fired
        self.at_server += outcome.fired and outcome.struck[0].path == SERVER
        self.bad[job.mode] += bool(outcome.violations)
        self.resumes[job.mode] += outcome.resumes
        self.redone += outcome.redone
        self.wasted += outcome.wasted
        self.log = outcome.log
        command = command_for(operation, job.planned) + (f" --store {store}" if store else "")
        self.sentences += [f"{sentence}\n    {command}" for sentence in outcome.sentences()]

    def table(self) -> str:
        """Return the counts as text."""
        lines = [f"{'mode':14}{'cycles':>8}{'fired':>8}{'missed':>8}{'resumes':>9}{'violated':>10}"]
        for mode in [mode for mode in MODES if self.done[mode]]:
            missed = self.done[mode] - self.fired[mode]
            lines.append(
                f"{mode:14}{self.done[mode]:8}{self.fired[mode]:8}{missed:8}{self.resumes[mode]:9}{self.bad[mode]:10}"
            )
        done, fired = self.done.total(), self.fired.total()
        lines.append(
            f"{'all':14}{done:8}{fired:8}{done - fired:8}{self.resumes.total():9}{self.bad.total():10}"
        )
        if self.at_server:
            lines.append(f"fired at a message to or from the server: {self.at_server}")
        lines.append(f"landed tasks done again: {self.redone}; attempts whose work was lost: {self.wasted}")
        return "\n".join(lines)


def command_for(operation: Operation, planned: Sequence[PlannedFault]) -> str:
    """Return what to type to do a cycle again."""
    return f"python -m tests.crash.sweep --operation {operation} --faults {'+'.join(map(str, planned))}"


def sample_jobs(points: Sequence[Point], wanted: int, seed: int) -> list[Job]:
    """Choose jobs of all modes, by their shares; within a mode every kind of point has its turn before a second."""
    rng = random.Random(seed)
    total = sum(_SHARES.values())
    jobs: list[Job] = []
    for mode, share in _SHARES.items():
        count = -(-wanted * share // total)
        jobs += _jobs_of(mode, points, count, rng)
    rng.shuffle(jobs)
    return jobs[:wanted]


def _jobs_of(mode: str, points: Sequence[Point], count: int, rng: random.Random) -> list[Job]:
    if mode == STACKED:
        return [Job(mode, _stack(points, rng)) for _ in range(count)]
    suited = [point for point in points if _is_suited(mode, point)]
    messages = [point for point in suited if point.path == SERVER]
    chosen = stratified_sample(messages, -(-count // 2), rng.randrange(2**32)) if messages else []
    files = [point for point in suited if point.path != SERVER]
    chosen += stratified_sample(files, count - len(chosen), rng.randrange(2**32))
    if mode == RECOVERY:
        return [
            Job(mode, (PlannedFault("kill", point.number), PlannedFault("kill", _early(rng))))
            for point in chosen
        ]
    return [Job(mode, (PlannedFault(mode, point.number),)) for point in chosen]


def _is_suited(mode: str, point: Point) -> bool:
    """Tell whether a fault makes sense at a point: no message is refused because a disk is full."""
    if mode == "torn":
        return point.syscall in TORN_CALLS
    return point.path != SERVER or mode not in ("enospc", "full")


def _stack(points: Sequence[Point], rng: random.Random) -> tuple[PlannedFault, ...]:
    first = PlannedFault(rng.choice(list(KINDS)), rng.choice(points).number)
    return (first, *(PlannedFault(rng.choice(list(KINDS)), _early(rng)) for _ in range(_STACK - 1)))


def _early(rng: random.Random) -> int:
    """Return a point of what comes next. How many it has depends on what is left to do; early ones are mostly reached."""
    return int(2 ** rng.uniform(0, 6))


def instead(job: Job, rng: random.Random) -> Job:
    """Return a job of the same mode whose faults are likelier to strike: nearer the beginning."""
    return Job(
        job.mode,
        tuple(
            PlannedFault(fault.kind, rng.randint(1, max(1, fault.point * 3 // 4))) for fault in job.planned
        ),
    )


class Sweep:
    """Does the jobs of one operation, one after the other, and shows what went wrong as it comes."""

    def __init__(
        self,
        folder: Path,
        operation: Operation,
        seed: int,
        store: SweptStore | None = None,
        *,
        quiet: bool = False,
    ) -> None:
        self.tally = Tally()
        self.operation = operation
        self._store = "" if store is None else store.kind
        self._trial = CrashTrial(folder, operation, store=store)
        self._points: list[Point] = []
        self._rng = random.Random(seed)
        self._quiet = quiet

    def sample(self, wanted: int, mode: str | None = None) -> list[Job]:
        """Choose jobs of this operation, of one mode or of all."""
        points = self._points = self._points or self._trial.points()
        if mode is not None:
            return _jobs_of(mode, points, wanted, self._rng)
        return sample_jobs(points, wanted, self._rng.randrange(2**32))

    def run(self, jobs: Sequence[Job]) -> Tally:
        """Do every job; one whose faults miss is replaced until one strikes, a few times at most."""
        try:
            for job in jobs:
                self._settle(job)
        finally:
            self._trial.close()
        return self.tally

    def _settle(self, job: Job) -> None:
        for _ in range(_TRIES):
            outcome = self._trial.cycle(job.planned)
            self.tally.add(self.operation, job, outcome, self._store)
            if outcome.violations and not self._quiet:
                print(self.tally.sentences[-1], flush=True)
            if outcome.fired or outcome.violations:
                return
            job = instead(job, self._rng)


def chosen_operations(name: str | None, store: str | None = None) -> list[Operation]:
    """Return the operations of a name, such as `land` or `land/merge`; without one, all."""
    known = OPERATIONS if store is None else STORED_OPERATIONS
    return [operation for operation in known if name in (None, operation.name, str(operation))]


def shares(operations: Sequence[Operation], wanted: int) -> dict[Operation, int]:
    """Divide a number of faults among operations: those that run agents have far more points than the others."""
    weights = {operation: 4 if operation.has_agents else 1 for operation in operations}
    return {one: max(1, round(wanted * weight / sum(weights.values()))) for one, weight in weights.items()}


def _swept(operation: Operation, wanted: int, args: argparse.Namespace, folder: Path) -> Tally:
    store = SweptStore.start(args.store) if args.store else None
    try:
        return _swept_in(store, operation, wanted, args, folder)
    finally:
        if store is not None:
            store.process.stop()


def _swept_in(
    store: SweptStore | None, operation: Operation, wanted: int, args: argparse.Namespace, folder: Path
) -> Tally:
    sweep = Sweep(folder / f"{operation.name}-{operation.situation}", operation, args.seed, store)
    if args.faults:
        pairs = (text.split(":") for text in args.faults.split("+"))
        jobs = [Job(STACKED, tuple(PlannedFault(kind, int(point)) for kind, point in pairs))]
    else:
        jobs = sweep.sample(wanted, args.mode)
    began = time.monotonic()
    tally = sweep.run(jobs)
    seconds = time.monotonic() - began
    print(
        f"{operation}: {tally.fired.total()} fired, {tally.bad.total()} violated, {seconds:.0f} s", flush=True
    )
    return tally


def main() -> int:
    """Run the sweep that the arguments ask for; 1 if any promise was broken."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.crash.sweep", description="Crash the program at many of its points."
    )
    parser.add_argument("--sample", type=int, default=300, metavar="N", help="about so many faults (300)")
    parser.add_argument(
        "--seed", type=int, default=int.from_bytes(os.urandom(3)), metavar="S", help="choose the sample"
    )
    parser.add_argument("--operation", metavar="O", help="this operation only, such as land or land/merge")
    parser.add_argument("--mode", choices=MODES, help="this mode only")
    parser.add_argument("--store", choices=SERVERS, help="the journal is in a server")
    parser.add_argument("--faults", metavar="K:P+…", help="these faults, one after the other")
    parser.add_argument(
        "--workers", type=int, default=WORKERS, metavar="W", help=f"operations at once ({WORKERS})"
    )
    parser.add_argument("--keep", action="store_true", help="keep the repositories and say where")
    args = parser.parse_args()
    operations = chosen_operations(args.operation, args.store)
    if not operations or (args.faults and len(operations) != 1):
        parser.error(f"--operation is one of {', '.join(map(str, OPERATIONS))}")
    folder = Path(tempfile.mkdtemp(prefix="sweep-"))
    print(f"seed {args.seed}, below {folder}", flush=True)
    try:
        with ThreadPoolExecutor(args.workers) as pool:
            wanted = shares(operations, args.sample)
            tallies = list(pool.map(lambda one: _swept(one, wanted[one], args, folder), operations))
    finally:
        if not args.keep:
            shutil.rmtree(folder, ignore_errors=True)
    for tally in tallies:
        print(tally.log if args.faults else "", tally.table(), *tally.sentences, sep="\n")
    return 1 if any(tally.sentences for tally in tallies) else 0


if __name__ == "__main__":
    sys.exit(main())
