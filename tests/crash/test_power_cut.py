"""X12: whatever was told survives a power cut, at whatever moment and whatever else is left of the disk.

`python -m tests.crash.power_cut --all` cuts at every moment; here are some of every kind.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.disk_image import RecordedCall
from tests.crash.faults import path_class
from tests.crash.power_cut import PowerSweep, cut_disks, disks_without, sample_cuts
from tests.crash.power_trial import RecordedRun, record_run

MOMENTS = 16
MEMORY = Path("/dev/shm")


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder for disks: in memory, if there is one."""
    place = Path(tempfile.mkdtemp(prefix="power-", dir=MEMORY if MEMORY.is_dir() else None))
    yield place
    shutil.rmtree(place, ignore_errors=True)


@pytest.fixture(scope="module")
def run(folder: Path) -> RecordedRun:
    """A run, recorded once: its disks are only read."""
    return record_run(folder / "recorded")


@pytest.fixture(scope="module")
def sweep(folder: Path) -> Iterator[PowerSweep]:
    """A place to resume and judge."""
    sweep = PowerSweep(folder, workers=1, quiet=True)
    yield sweep
    sweep.close()


@pytest.mark.parametrize(("model", "seed"), [("least", 1), ("names", 2), ("subset", 3), ("subset", 4)])
def test_nothing_that_was_told_is_lost_to_a_power_cut(
    run: RecordedRun, sweep: PowerSweep, model: str, seed: int
) -> None:
    """It is in the journal, on the branch, readable, and not done again; no torn file lands; the run completes."""
    tally = sweep.run(cut_disks(run.recording, sample_cuts(run.recording, model, MOMENTS, seed)), run)
    assert tally.sentences == []
    assert tally.done.total() == MOMENTS


@pytest.mark.parametrize(
    "path",
    [
        "",
        ".holdfast/journal.db-wal",
        ".",
        ".git/refs/heads/holdfast",
        ".git/objects/H",
        ".git/refs/holdfast/N-crash-sweep/task/build",
    ],
)
def test_a_sync_that_is_left_out_is_missed(run: RecordedRun, sweep: PowerSweep, path: str) -> None:
    """Without all of them (""), or those of one kind of path: otherwise the moments above would prove nothing."""

    def is_missing(call: RecordedCall) -> bool:
        return path in ("", path_class(call.path))

    tally = sweep.run(
        disks_without(run.recording, is_missing), run, enough=lambda tally: tally.bad.total() > 0
    )
    assert tally.bad.total() == 1
