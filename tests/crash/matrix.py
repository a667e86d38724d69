"""The kill matrix: every operation, every fault, every point, to the end; the result is docs/kill-matrix.md.

    python -m tests.crash.matrix                          everything; `make crash` runs it
    python -m tests.crash.matrix --continue FILE          go on with what was cut short, at the same commit
    python -m tests.crash.matrix --operation land         one row, or `land/merge`, one situation of it
    python -m tests.crash.matrix --fault eio              one column; kill, after and torn are one column of work
    python -m tests.crash.matrix --every 20               a sample: every twentieth point, and the page says so

What is equal to what is in `coverage.py`, what is judged in `operations.py`. Each result is written to a file as it
comes. A part of the matrix (`--operation`, `--fault`) is printed and does not replace the page; `matrix_page.py` adds it.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import msgspec

from tests.crash.coverage import DISK_FAULTS, FAULTS, LeftDisk, Target, equal_to_kills, left_disks, targets
from tests.crash.faults import Point, Program
from tests.crash.matrix_page import PAGE, Header, Matrix, Result, read_results, write_page
from tests.crash.operations import OPERATIONS
from tests.crash.preloaded_program import PreloadedProgram
from tests.crash.recording import record
from tests.crash.sample_run import ROOT
from tests.crash.shell_loop import NAME as LOOP, LoopTrial
from tests.crash.sweep import command_for
from tests.crash.trial import CrashTrial, PlannedFault, TrialResult

RESULTS = ROOT / "tests" / "crash" / "build"
WORKERS = 2 * (os.cpu_count() or 1)
"""A cycle waits for about half its time, mostly for one process to wake up another."""
_CHUNK = 20
_SET_PDEATHSIG = 1
_TRIES = 3
_SHOWN_S = 30.0
_MEMORY = Path("/dev/shm")
_ROOM = 2 * 2**30


class BrokenProgram(Protocol):
    """What is broken over and over: an operation of Holdfast, or the shell loop."""

    def reset(self) -> None:
        """Put a fresh repository in place."""

    def broken_program(self) -> tuple[Program, int]:
        """Return what is broken, and the exit status that it has if it is not."""

    def points(self) -> list[Point]:
        """List the points of one unbroken run."""

    def cycle(self, planned: Sequence[PlannedFault]) -> TrialResult:
        """Break it, recover, judge."""

    def disk_cycle(self, left: LeftDisk) -> TrialResult:
        """Recover from a disk that a fault leaves, judge."""


@dataclass(frozen=True, slots=True)
class Unit:
    """What one worker does at a time: all disks of an operation, whose recording is its own; or some points."""

    operation: str
    kind: str
    numbers: tuple[Target, ...] = ()
    every: int = 1


# ---- a worker ----


@dataclass(slots=True)
class _Worker:
    """One process of the pool: its folder, its interpreter, and the operations it has prepared so far."""

    folder: Path
    results: Path
    program: PreloadedProgram | None = None
    trials: dict[str, BrokenProgram] = field(default_factory=dict)

    def trial(self, name: str) -> BrokenProgram:
        if name not in self.trials:
            self.trials[name] = self._made(name)
        return self.trials[name]

    def _made(self, name: str) -> BrokenProgram:
        folder = self.folder / name.replace("/", "-").replace(" ", "-")
        if name == LOOP:
            return LoopTrial(folder)
        self.program = self.program or PreloadedProgram()
        operation = next(one for one in OPERATIONS if str(one) == name)
        return CrashTrial(folder, operation, preloaded=self.program)

    def write(self, result: Result) -> None:
        """Add a line to the results; lines of several workers do not mix."""
        line = msgspec.json.encode(result) + b"\n"
        handle = os.open(self.results, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(handle, line)
        finally:
            os.close(handle)


_worker: list[_Worker] = []


def _start_worker(folder: str, results: str) -> None:
    ctypes.CDLL(None).prctl(_SET_PDEATHSIG, signal.SIGKILL)  # a matrix that is killed leaves nobody at work
    place = Path(tempfile.mkdtemp(dir=folder))
    _worker.append(_Worker(place, Path(results)))


def _work(unit: Unit) -> None:
    worker = _worker[0]
    trial = worker.trial(unit.operation)
    if unit.kind == "disk":
        _play_back(worker, trial, unit)
        return
    for target in unit.numbers:
        began = time.monotonic()
        outcome = _broken(trial, unit.kind, target.number)
        covers = {unit.kind: target.covers if outcome.fired else 0}
        worker.write(_result(unit.operation, unit.kind, target.number, covers, outcome, began))


def _play_back(worker: _Worker, trial: BrokenProgram, unit: Unit) -> None:
    """Record the operation once, and recover from every disk that a kill can leave."""
    worker.write(Result(operation=unit.operation, event="begun"))
    trial.reset()
    program, exit_status = trial.broken_program()
    recording = record(program, exit_status)
    for number, left in enumerate(left_disks(recording)):
        if number % unit.every:
            continue
        began = time.monotonic()
        outcome = trial.disk_cycle(left)
        worker.write(_result(unit.operation, left.kind, left.point.number, left.covers, outcome, began))
    worker.write(Result(operation=unit.operation, event="done", points=len(recording.points)))


def _broken(trial: BrokenProgram, kind: str, number: int) -> TrialResult:
    """Break it at a point; the last ones may not be reached each time."""
    tries = _TRIES
    while True:
        outcome = trial.cycle([PlannedFault(kind, number)])
        tries -= 1
        if outcome.fired or outcome.violations or not tries:
            return outcome


def _result(
    operation: str, kind: str, point: int, covers: dict[str, int], outcome: TrialResult, began: float
) -> Result:
    found = next((one for one in OPERATIONS if str(one) == operation), None)
    command = "" if found is None else command_for(found, outcome.planned)
    return Result(
        operation=operation,
        kind=kind,
        point=point,
        covers=covers,
        fired=outcome.fired,
        harms=outcome.harms(),
        sentences=tuple(f"{sentence}\n    {command}".rstrip() for sentence in outcome.sentences()),
        seconds=time.monotonic() - began,
    )


# ---- the whole ----


class MatrixRun:
    """Does all units with some workers, and shows how far it is."""

    def __init__(self, args: argparse.Namespace, results: Path) -> None:
        self._args = args
        self._results = results
        self._shown = 0

    def run(self, scratch: Path) -> None:
        """Do what is not done yet. Kills played back come first: each of these units is long."""
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(
            self._args.workers, context, _start_worker, (str(scratch), str(self._results))
        ) as pool:
            pending: set[Future[None]] = {pool.submit(_work, unit) for unit in self._units(scratch)}
            try:
                while pending:
                    done, pending = wait(pending, _SHOWN_S, FIRST_COMPLETED)
                    for future in done:
                        future.result()
                    self._show(len(pending))
            finally:
                # Whoever ends it does not wait for all that is left.
                pool.shutdown(wait=False, cancel_futures=True)

    def _units(self, scratch: Path) -> Iterator[Unit]:
        before = read_results(self._results)
        names = self._names()
        every = self._args.every
        if self._args.fault in (None, *DISK_FAULTS):
            yield from (Unit(name, "disk", every=every) for name in names if not before.is_played_back(name))
        kinds = [kind for kind in FAULTS if kind not in DISK_FAULTS and self._args.fault in (None, kind)]
        for name in names if kinds else ():
            points = self._listed(name, scratch)
            for kind in kinds:
                chosen = targets(kind, points)[::every]
                left = [target for target in chosen if not before.has(name, kind, target.number)]
                for at in range(0, len(left), _CHUNK):
                    yield Unit(name, kind, tuple(left[at : at + _CHUNK]))

    def _names(self) -> list[str]:
        wanted = self._args.operation
        names = [*map(str, OPERATIONS), LOOP]
        return [name for name in names if wanted in (None, name, name.partition("/")[0])]

    def _listed(self, name: str, scratch: Path) -> list[Point]:
        worker = _Worker(Path(tempfile.mkdtemp(dir=scratch)), self._results)
        try:
            points = worker.trial(name).points()
        finally:
            if worker.program:
                worker.program.close()
        worker.write(
            Result(
                operation=name,
                event="listed",
                points=len(points),
                covers={kind: equal_to_kills(kind, points) for kind in FAULTS if kind not in DISK_FAULTS},
            )
        )
        return points

    def _show(self, units: int) -> None:
        matrix = read_results(self._results)
        for sentence in matrix.sentences[self._shown :]:
            print(sentence, flush=True)
        self._shown = len(matrix.sentences)
        print(f"{matrix.summary()}; {units} units to go", flush=True)


def _header() -> Header:
    """Return what is tested: the commit, and a digest of what differs from it."""
    commit = _git("rev-parse", "HEAD").strip()
    changes = _git("diff", "HEAD", "--", "src", "tests") + _git("status", "--porcelain", "--", "src", "tests")
    digest = hashlib.sha256(changes.encode()).hexdigest()[:12] if changes else ""
    return Header(commit=commit, changes=digest, began=datetime.now(UTC).isoformat(timespec="seconds"))


def _git(*args: str) -> str:
    return subprocess.run(["git", "-C", ROOT, *args], capture_output=True, text=True, check=True).stdout


def _results_file(args: argparse.Namespace, header: Header) -> Path:
    """Return the file that results go to: a new one, or the one to go on with, which must be about the same program."""
    if args.continued is None:
        RESULTS.mkdir(exist_ok=True)
        path = RESULTS / f"matrix-{datetime.now(UTC):%Y%m%dT%H%M%S}.jsonl"
        path.write_bytes(msgspec.json.encode(Result(event="header", header=header)) + b"\n")
        return path
    path = Path(args.continued)
    before = read_results(path).header
    if (before.commit, before.changes) != (header.commit, header.changes):
        sys.exit(
            f"{path} is about {before.commit} {before.changes}, not about {header.commit} {header.changes}"
        )
    return path


def _scratch() -> Path:
    """Return a folder for the repositories: in memory if there is room, for nothing here is about a slow disk."""
    with suppress(OSError):
        if shutil.disk_usage(_MEMORY).free > _ROOM and os.access(_MEMORY, os.W_OK):
            return Path(tempfile.mkdtemp(prefix="matrix-", dir=_MEMORY))
    return Path(tempfile.mkdtemp(prefix="matrix-"))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.crash.matrix", description="Break every operation at every point."
    )
    parser.add_argument("--continue", dest="continued", metavar="FILE", help="go on with these results")
    parser.add_argument("--operation", metavar="O", help="this row only, such as land, or land/merge")
    parser.add_argument("--fault", choices=FAULTS, help="this column only")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="every Nth point only (1)")
    parser.add_argument(
        "--workers", type=int, default=WORKERS, metavar="W", help=f"cycles at once ({WORKERS})"
    )
    return parser.parse_args()


def main() -> int:
    """Run the matrix, or what is left of it, and write the page; 1 if any promise of Holdfast's was broken."""
    args = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what is cut short is tidied up
    results = _results_file(args, _header())
    print(f"results go to {results}; --continue {results} goes on if this is cut short", flush=True)
    scratch, began = _scratch(), time.monotonic()
    try:
        MatrixRun(args, results).run(scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        with results.open("ab") as file:
            file.write(msgspec.json.encode(Result(event="session", seconds=time.monotonic() - began)) + b"\n")
    matrix: Matrix = read_results(results)
    print(*matrix.sentences, matrix.table(others=False), matrix.table(LOOP, others=True), sep="\n")
    if args.operation is None and args.fault is None:
        write_page(PAGE, matrix, LOOP, args.every)
        print(f"{PAGE} is written")
    return 1 if matrix.bad(LOOP) else 0


if __name__ == "__main__":
    sys.exit(main())
