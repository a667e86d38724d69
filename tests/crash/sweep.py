"""The sweep: break the real program at its crash points, recover, judge, count.

    python -m tests.crash.sweep --all                      every point of a run in every mode; what `make crash` runs
    python -m tests.crash.sweep --sample 300 --seed 7      as many faults that really struck, of all modes and kinds
    python -m tests.crash.sweep --mode kill --point 123    one of them again, with all that was printed
    python -m tests.crash.sweep --faults kill:12+full:3    faults one after the other, each in the resume after the last

A run is concurrent: the same number is not always the same call, and the last numbers may not be reached. A fault
that did not strike proves nothing; it is counted apart and another takes its place.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tests.crash.faults import Point, stratified_sample
from tests.crash.trial import KINDS, TORN_CALLS, CrashTrial, PlannedFault, TrialResult

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
_RECOVERY_POINTS = 400
_SHOWN_EVERY = 20


@dataclass(frozen=True, slots=True)
class Job:
    """A cycle to do: the mode it counts for, and its faults."""

    mode: str
    planned: tuple[PlannedFault, ...]

    def command(self) -> str:
        """Return what to type to do it again."""
        return f"python -m tests.crash.sweep --faults {'+'.join(map(str, self.planned))}"


@dataclass(slots=True)
class Tally:
    """What a sweep found, by mode."""

    done: Counter[str] = field(default_factory=Counter)
    fired: Counter[str] = field(default_factory=Counter)
    bad: Counter[str] = field(default_factory=Counter)
    resumes: Counter[str] = field(default_factory=Counter)
    redone: int = 0
    wasted: int = 0
    sentences: list[str] = field(default_factory=list)
    log: str = ""

    def add(self, job: Job, outcome: TrialResult) -> None:
        """Count one cycle."""
        self.done[job.mode] += 1
        self.fired[job.mode] += outcome.fired
        self.bad[job.mode] += bool(outcome.violations)
        self.resumes[job.mode] += outcome.resumes
        self.redone += outcome.redone
        self.wasted += outcome.wasted
        self.log = outcome.log
        self.sentences += [f"{sentence}\n    {job.command()}" for sentence in outcome.sentences()]

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
        lines.append(f"landed tasks done again: {self.redone}; attempts whose work was lost: {self.wasted}")
        return "\n".join(lines)


def every_job(points: Sequence[Point], seed: int) -> Iterator[Job]:
    """Yield a job for every point in every mode that applies to it; recovery and stacked faults a point each."""
    rng = random.Random(seed)
    for kind in KINDS:
        for point in points:
            if kind != "torn" or point.syscall in TORN_CALLS:
                yield Job(kind, (PlannedFault(kind, point.number),))
    for second in range(1, _RECOVERY_POINTS + 1):
        yield Job(RECOVERY, (PlannedFault("kill", rng.choice(points).number), PlannedFault("kill", second)))
    for _ in range(_RECOVERY_POINTS):
        yield Job(STACKED, _stack(points, rng))


def sample_jobs(points: Sequence[Point], wanted: int, seed: int) -> list[Job]:
    """Choose jobs of all modes, by their shares; within a mode every kind of point has its turn before a second."""
    rng = random.Random(seed)
    total = sum(_SHARES.values())
    jobs: list[Job] = []
    for mode, share in _SHARES.items():
        count = -(-wanted * share // total)
        jobs += _jobs_of(mode, points, count, rng)
    rng.shuffle(jobs)
    return jobs


def _jobs_of(mode: str, points: Sequence[Point], count: int, rng: random.Random) -> list[Job]:
    if mode == STACKED:
        return [Job(mode, _stack(points, rng)) for _ in range(count)]
    suited = [point for point in points if mode != "torn" or point.syscall in TORN_CALLS]
    chosen = stratified_sample(suited, count, rng.randrange(2**32))
    if mode == RECOVERY:
        return [
            Job(mode, (PlannedFault("kill", point.number), PlannedFault("kill", _early(rng))))
            for point in chosen
        ]
    return [Job(mode, (PlannedFault(mode, point.number),)) for point in chosen]


def _stack(points: Sequence[Point], rng: random.Random) -> tuple[PlannedFault, ...]:
    first = PlannedFault(rng.choice(list(KINDS)), rng.choice(points).number)
    return (first, *(PlannedFault(rng.choice(list(KINDS)), _early(rng)) for _ in range(_STACK - 1)))


def _early(rng: random.Random) -> int:
    """Return a point of a resume. How many it has depends on what is left to do; early ones are always reached."""
    return int(2 ** rng.uniform(0, 8))


def instead(job: Job, rng: random.Random) -> Job:
    """Return a job of the same mode whose faults are likelier to strike: nearer the beginning."""
    return Job(
        job.mode,
        tuple(
            PlannedFault(fault.kind, rng.randint(1, max(1, fault.point * 3 // 4))) for fault in job.planned
        ),
    )


class Sweep:
    """Does jobs with some workers, each with an trial of its own, and shows how far it is."""

    def __init__(self, folder: Path, workers: int, seed: int, *, quiet: bool = False) -> None:
        self.tally = Tally()
        self._folder = folder
        self._workers = workers
        self._rng = random.Random(seed)
        self._quiet = quiet
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._trials: list[CrashTrial] = []
        self._mine = threading.local()

    def run(self, jobs: Sequence[Job]) -> Tally:
        """Do every job; one whose faults miss is replaced until one strikes, a few times at most."""
        try:
            with ThreadPoolExecutor(self._workers) as pool:
                for _ in pool.map(lambda job: self._settle(job, len(jobs)), jobs):
                    continue
        finally:
            for trial in self._trials:
                trial.close()
        return self.tally

    def _settle(self, job: Job, of: int) -> None:
        for _ in range(_TRIES):
            outcome = self._trial().cycle(job.planned)
            with self._lock:
                self.tally.add(job, outcome)
                self._show(of, outcome)
                job = job if outcome.fired else instead(job, self._rng)
            if outcome.fired or outcome.violations:
                return

    def _trial(self) -> CrashTrial:
        if not hasattr(self._mine, "trial"):
            with self._lock:
                self._mine.trial = CrashTrial(Path(tempfile.mkdtemp(dir=self._folder)))
                self._trials.append(self._mine.trial)
        trial: CrashTrial = self._mine.trial
        return trial

    def _show(self, of: int, outcome: TrialResult) -> None:
        if self._quiet:
            return
        if outcome.violations:
            print(f"\n{self.tally.sentences[-1]}", flush=True)
        fired, done = self.tally.fired.total(), self.tally.done.total()
        rate = done / (time.monotonic() - self._began) * 60
        text = f"{fired} of {of} fired, {self.tally.bad.total()} violated, {rate:.0f} cycles/min"
        if sys.stdout.isatty():
            print(f"\r{text}", end="", flush=True)
        elif done % _SHOWN_EVERY == 0:
            print(text, flush=True)


def chosen_jobs(args: argparse.Namespace, folder: Path) -> list[Job]:
    """Return the jobs that the arguments ask for."""
    if args.faults:
        pairs = (text.split(":") for text in args.faults.split("+"))
        return [Job(STACKED, tuple(PlannedFault(kind, int(point)) for kind, point in pairs))]
    if args.mode and args.point:
        return [Job(args.mode, (PlannedFault(args.mode, args.point),))]
    trial = CrashTrial(folder / "listing")
    points = trial.points()
    kinds = {point.stratum for point in points}
    print(f"{len(points)} points of {len(kinds)} kinds, seed {args.seed}", flush=True)
    jobs = list(every_job(points, args.seed)) if args.all else sample_jobs(points, args.sample, args.seed)
    return [job for job in jobs if args.mode in (None, job.mode)]


def main() -> int:
    """Run the sweep that the arguments ask for; 1 if any promise was broken."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.crash.sweep", description="Crash the program everywhere."
    )
    parser.add_argument("--all", action="store_true", help="every point in every mode")
    parser.add_argument("--sample", type=int, default=300, metavar="N", help="about so many faults (300)")
    parser.add_argument(
        "--seed", type=int, default=int.from_bytes(os.urandom(3)), metavar="S", help="choose the sample"
    )
    parser.add_argument("--mode", choices=MODES, help="this mode only")
    parser.add_argument("--point", type=int, metavar="P", help="this point only; needs --mode")
    parser.add_argument("--faults", metavar="K:P+…", help="these faults, one after the other")
    parser.add_argument(
        "--workers", type=int, default=WORKERS, metavar="W", help=f"cycles at once ({WORKERS})"
    )
    parser.add_argument("--keep", action="store_true", help="keep the repositories and say where")
    args = parser.parse_args()
    if args.point and args.mode not in KINDS:
        parser.error("--point needs a --mode that is one fault; --faults names several")
    folder = Path(tempfile.mkdtemp(prefix="sweep-"))
    try:
        jobs = chosen_jobs(args, folder)
        tally = Sweep(folder, args.workers, args.seed).run(jobs)
    finally:
        if args.keep:
            print(f"kept {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    print(tally.log if len(jobs) == 1 else "", tally.table(), *tally.sentences, sep="\n")
    return 1 if tally.sentences else 0


if __name__ == "__main__":
    sys.exit(main())
