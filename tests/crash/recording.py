"""A recorded run: what it changed, call by call, and the disk at each of its moments.

Moment N is the one before point N: everything up to point N - 1 was done, and what the program printed until then was told.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from tests.crash.disk_image import DiskImage, RecordedCall
from tests.crash.faults import FaultToolError, Point, Program, run_tool

SYNCS = ("fsync", "fdatasync", "syncfs", "sync")


@dataclass(frozen=True, slots=True)
class RecordedMoment:
    """One moment of a run: the number of the next point, the disk, and what had been printed. Valid until the next one."""

    number: int
    disk: DiskImage
    printed: str


@dataclass(frozen=True, slots=True)
class Recording:
    """The disk before the run, and every call that changed it or printed something."""

    start: DiskImage
    calls: tuple[RecordedCall, ...]

    @property
    def points(self) -> list[Point]:
        """The points of the run, as the fault injector lists them."""
        return [
            Point(
                call.number,
                call.pid,
                call.is_main_process,
                call.comm,
                call.syscall,
                call.path,
                call.exchanges,
                call.is_alone,
                call.needs_room,
            )
            for call in self.calls
            if call.number
        ]

    def moments(self) -> Iterator[RecordedMoment]:
        """Yield every moment of the run, the last one after its end. One disk goes through all of them."""
        disk = copy.deepcopy(self.start)
        printed = b""
        number = 1
        for call in self.calls:
            if call.number:
                yield RecordedMoment(call.number, disk, printed.decode("utf-8", "replace"))
                number = call.number + 1
            printed += bytes.fromhex(call.output)
            disk.apply(call)
        yield RecordedMoment(number, disk, printed.decode("utf-8", "replace"))

    def without(self, ignored: Callable[[RecordedCall], bool]) -> Recording:
        """Return the same run with some of its syncs ignored, as if nobody had made them."""
        calls = (
            msgspec.structs.replace(call, result=-1) if call.syscall in SYNCS and ignored(call) else call
            for call in self.calls
        )
        return Recording(self.start, tuple(calls))

    def call(self, number: int) -> RecordedCall:
        """Return the call at a point."""
        return next(call for call in self.calls if call.number == number)

    def moment(self, number: int) -> RecordedMoment:
        """Return one moment."""
        for found in self.moments():
            if found.number == number:
                return found
        raise ValueError(f"the run has no moment {number}")


def record(program: Program, exit_status: int = 0) -> Recording:
    """Run a program unbroken and record what it does below its root. Points run one after the other."""
    start = DiskImage.read(program.root)
    with tempfile.TemporaryDirectory(prefix="recording-") as scratch:
        file = Path(scratch, "calls")
        verdict = run_tool(program, ["-t", str(file)], Path(scratch))
        lines = file.read_bytes().splitlines()
    if verdict.exit_status != exit_status:
        raise FaultToolError(
            f"{program.argv[0]} failed with {verdict.exit_status} and no fault:\n{verdict.output}",
            "Make the program succeed on its own first.",
        )
    decoder = msgspec.json.Decoder(RecordedCall)
    return Recording(start, tuple(map(decoder.decode, lines)))
