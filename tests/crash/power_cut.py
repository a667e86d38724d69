"""Power cuts: record a run, rebuild the disk as a power cut at each moment may leave it, resume, judge, count.

    python -m tests.crash.power_cut --all                                 every moment in every model; `make crash` runs it
    python -m tests.crash.power_cut --sample 60 --seed 7                  some moments, of every kind
    python -m tests.crash.power_cut --moment 12 --model least --seed 0    one again, with all that was printed
    python -m tests.crash.power_cut --syncs                               which sync is needed, and the moment that shows it

A moment is the one before a point of the recorded run (`recording.py`). Disks that are equal, with the same words printed
before, are judged once. A run is concurrent, so that another recording has other moments at the same numbers: `--save`
writes the recording to a file, and `--recording` takes it from there.
"""

from __future__ import annotations

import argparse
import pickle
import random
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path

from tests.crash.disk_image import RecordedCall
from tests.crash.faults import Point, path_class, stratified_sample
from tests.crash.power_models import MODELS, choice_of
from tests.crash.power_trial import Cut, CutDisk, CutResult, PowerTrial, RecordedRun, record_run
from tests.crash.recording import SYNCS, Recording

WORKERS = 2
SEEDS = {"least": (0,), "names": (0, 1), "subset": (0, 1)}
_TRIES = 8
_PURE = (("least", 0), ("names", 0), ("names", 1))
"""The models and seeds that leave nothing to chance."""
_SHOWN_EVERY = 50


@dataclass(slots=True)
class CutTally:
    """What a sweep over power cuts found, by model."""

    done: Counter[str] = field(default_factory=Counter)
    bad: Counter[str] = field(default_factory=Counter)
    sentences: list[str] = field(default_factory=list)
    log: str = ""

    def add(self, result: CutResult) -> None:
        """Count one power cut."""
        self.done[result.cut.model] += 1
        self.bad[result.cut.model] += bool(result.violations)
        self.log = result.log
        self.sentences += [
            f"invariant {one.number}: {one.sentence}\n    python -m tests.crash.power_cut {result.cut}"
            for one in result.violations
        ]

    def table(self) -> str:
        """Return the counts as text."""
        rows = [f"{model:10}{self.done[model]:8}{self.bad[model]:10}" for model in MODELS if self.done[model]]
        total = f"{'all':10}{self.done.total():8}{self.bad.total():10}"
        return "\n".join([f"{'model':10}{'cuts':>8}{'violated':>10}", *rows, total])


def cut_disks(recording: Recording, wanted: Callable[[Cut], bool] = lambda _: True) -> Iterator[CutDisk]:
    """Yield what every power cut that is wanted leaves; equal disks with the same words printed before, once."""
    seen = set()
    for moment in recording.moments():
        cuts = (Cut(moment.number, model, seed) for model, seeds in SEEDS.items() for seed in seeds)
        for cut in filter(wanted, cuts):
            tree = moment.disk.after(choice_of(cut.model, cut.seed, cut.moment))
            if (key := (tree.digest(times=False), moment.printed)) not in seen:
                seen.add(key)
                yield CutDisk(cut, tree, moment.printed)


def sample_cuts(recording: Recording, model: str, count: int, seed: int) -> Callable[[Cut], bool]:
    """Choose moments of one model, of as many kinds of points as can be, a seed of the model each; no two disks are equal."""
    points = stratified_sample(_telling_points(recording, model), 2 * count, seed)
    seeds = SEEDS[model]
    cuts = {Cut(point.number, model, seeds[at % len(seeds)]) for at, point in enumerate(points)}
    different = [disk.cut for disk in cut_disks(recording, cuts.__contains__)]
    return set(random.Random(seed).sample(different, min(count, len(different)))).__contains__


def _telling_points(recording: Recording, model: str) -> list[Point]:
    """Return points before which the disk of a model is none that an earlier moment had: only syncs change the least."""
    if model != "least":
        return recording.points
    numbers = {disk.cut.moment for disk in cut_disks(recording, lambda cut: cut.model == "least")}
    return [point for point in recording.points if point.number in numbers]


class PowerSweep:
    """Judges disks with some workers, each with a folder of its own."""

    def __init__(self, folder: Path, workers: int = WORKERS, *, quiet: bool = False) -> None:
        self.trials = [PowerTrial(folder / f"worker-{number}") for number in range(workers)]
        self._quiet = quiet
        self._lock = threading.Lock()

    def close(self) -> None:
        """End every worker's interpreter."""
        for trial in self.trials:
            trial.close()

    def run(
        self, disks: Iterable[CutDisk], run: RecordedRun, enough: Callable[[CutTally], bool] | None = None
    ) -> CutTally:
        """Judge disks until there are no more, or `enough`."""
        tally, waiting, began = CutTally(), iter(disks), time.monotonic()

        def work(trial: PowerTrial) -> None:
            while (disk := self._next(waiting)) is not None:
                result = trial.judge(disk, run)
                with self._lock:
                    tally.add(result)
                    self._show(tally, result, began)
                    if enough is not None and enough(tally):
                        return

        with ThreadPoolExecutor(len(self.trials)) as pool:
            for _ in pool.map(work, self.trials):
                continue
        return tally

    def _next(self, waiting: Iterator[CutDisk]) -> CutDisk | None:
        with self._lock:
            return next(waiting, None)

    def _show(self, tally: CutTally, result: CutResult, began: float) -> None:
        if self._quiet:
            return
        if result.violations:
            print(f"\n{tally.sentences[-1]}", flush=True)
        if (done := tally.done.total()) % _SHOWN_EVERY == 0:
            rate = done / (time.monotonic() - began) * 60
            print(f"{done} cuts, {tally.bad.total()} violated, {rate:.0f} cuts/min", flush=True)


SyncClass = tuple[str, str, str]
"""Who syncs what how: the process's name, the call, and the kind of path."""


def sync_class(call: RecordedCall) -> SyncClass:
    """Return what a sync has in common with others."""
    return call.comm, call.syscall, path_class(call.path)


def sync_classes(recording: Recording) -> list[SyncClass]:
    """Return the kinds of syncs that a run makes."""
    return sorted(
        {sync_class(call) for call in recording.calls if call.syscall in SYNCS and call.result >= 0}
    )


def disks_without(recording: Recording, missing: Callable[[RecordedCall], bool]) -> Iterator[CutDisk]:
    """Yield the disks that differ because some syncs were not made, the last moments first; mixed ones are too many."""
    for model, seed in _PURE:
        pairs = zip(
            _disks(recording, model, seed), _disks(recording.without(missing), model, seed), strict=True
        )
        # The last moment of each state of what was told.
        told = {
            other.printed: other
            for disk, other in pairs
            if disk.tree.digest(times=False) != other.tree.digest(times=False)
        }
        yield from islice(reversed(told.values()), _TRIES)


def _disks(recording: Recording, model: str, seed: int) -> Iterator[CutDisk]:
    for moment in recording.moments():
        tree = moment.disk.after(choice_of(model, seed, moment.number))
        yield CutDisk(Cut(moment.number, model, seed), tree, moment.printed)


def check_syncs(sweep: PowerSweep, run: RecordedRun) -> list[SyncClass]:
    """Leave out each kind of sync in turn and say at which moment that is seen; return those that nobody misses."""
    unneeded = []
    for kind in sync_classes(run.recording):
        disks = disks_without(run.recording, partial(_is_of, kind))
        tally = sweep.run(disks, run, enough=lambda tally: tally.bad.total() > 0)
        shown = tally.sentences[0] if tally.sentences else f"not missed at {tally.done.total()} moments"
        print(f"{' '.join(kind)}: {shown}", flush=True)
        unneeded += [] if tally.sentences else [kind]
    return unneeded


def _is_of(kind: SyncClass, call: RecordedCall) -> bool:
    return sync_class(call) == kind


def chosen_disks(args: argparse.Namespace, recording: Recording) -> Iterator[CutDisk]:
    """Return the disks that the arguments ask for."""
    if args.moment:
        cut = Cut(args.moment, args.model or "least", args.seed)
        return cut_disks(recording, lambda one: one == cut)
    if args.all:
        return cut_disks(recording, lambda cut: args.model in (None, cut.model))
    models = [args.model] if args.model else MODELS
    samples = [sample_cuts(recording, model, -(-args.sample // len(models)), args.seed) for model in models]
    return cut_disks(recording, lambda cut: any(sample(cut) for sample in samples))


def main(argv: Sequence[str] | None = None) -> int:
    """Cut the power as the arguments ask for; 1 if any promise was broken."""
    args = _parser().parse_args(argv)
    folder = Path(tempfile.mkdtemp(prefix="power-", dir=args.folder))
    sweep = PowerSweep(folder, args.workers)
    try:
        run = pickle.loads(args.recording.read_bytes()) if args.recording else record_run(folder / "recorded")
        if args.save:
            args.save.write_bytes(pickle.dumps(run))
        print(f"{len(run.recording.points)} points", flush=True)
        if args.syncs:
            check_syncs(sweep, run)
            return 0
        tally = sweep.run(chosen_disks(args, run.recording), run)
    finally:
        sweep.close()
        shutil.rmtree(folder, ignore_errors=True)
    print(tally.log if args.moment else "", tally.table(), *tally.sentences, sep="\n")
    return 1 if tally.sentences else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.crash.power_cut", description="Cut the power.")
    parser.add_argument("--all", action="store_true", help="every moment in every model")
    parser.add_argument("--sample", type=int, default=60, metavar="N", help="about so many moments (60)")
    parser.add_argument("--syncs", action="store_true", help="leave out each kind of sync in turn")
    parser.add_argument("--moment", type=int, metavar="N", help="this moment only, with all that was printed")
    parser.add_argument("--model", choices=MODELS, help="this model only")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of the sample, or of the model")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write the recording to a file")
    parser.add_argument("--recording", type=Path, metavar="FILE", help="use a recording that was saved")
    parser.add_argument("--workers", type=int, default=WORKERS, metavar="W", help=f"cuts at once ({WORKERS})")
    shm = Path("/dev/shm")
    parser.add_argument(
        "--folder", type=Path, default=shm if shm.is_dir() else None, help="where to build the disks"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
