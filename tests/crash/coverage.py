"""Which points of an operation are broken, and which need not be because they are equal to one that is.

Faults that kill every process (kill, after, torn) leave nothing but the disk, so two of them are equal if they leave the
same disk: all that happens afterwards starts from it. Only what had been printed can differ, and it only grows; of equal
moments the last is taken, at which the program had said all that it said before. From this follow, without a word about
particular calls:

- `after` point N is `kill` at point N + 1. Between the two only calls that change no file were made.
- A kill before a sync is one after it: a sync changes no file. (What a power cut does is another matter: `power_cut.py`.)
- A file that was made and removed again, or a write of what was there, leaves the disk of an earlier moment.

They need not even be run: a recording gives the disk of each moment (`recording.py`), and `test_recording.py` shows that
these are the disks that real kills leave.

With `main_process`, the others go on. They cannot tell two moments apart between which the main process did nothing that
another can notice (no file changed, no process started or signalled, no lock, no message, no closed pipe), and none of
them did anything by which it could notice that the main process is gone (a message through a pipe or a socket, a signal,
a lock). The tool counts these exchanges, so points with the same count are equal. The count errs on the safe side: it does not
ask who is at the other end. And where no other process is alive, the death of the main process is the death of all: `kill`.

An error is returned to one call at one point, and what becomes of it is up to the program: no two are taken for equal.
ENOSPC is only returned by calls that need room, and by syncs, which may be the first to need it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.crash.disk_image import Tree
from tests.crash.faults import Point
from tests.crash.recording import RecordedMoment, Recording

DISK_FAULTS = ("kill", "after", "torn")
"""The faults that leave nothing but the disk."""
FAULTS = (*DISK_FAULTS, "main_process", "eio", "enospc")
_END = Point(0, 0, True, "the program", "exit", "")


@dataclass(frozen=True, slots=True)
class Target:
    """A point that is broken; it stands for so many points, itself among them."""

    number: int
    covers: int = 1


def targets(kind: str, points: Sequence[Point]) -> list[Target]:
    """Return the points at which a fault that leaves processes alive is made, each with how many it stands for.

    Those of `equal_to_kills` are not among them.
    """
    if kind == "enospc":
        return [Target(point.number) for point in points if point.needs_room]
    if kind != "main_process":
        return [Target(point.number) for point in points]
    first: dict[int, int] = {}
    count: dict[int, int] = {}
    for point in points:
        if point.is_alone:
            continue
        first.setdefault(point.exchanges, point.number)
        count[point.exchanges] = count.get(point.exchanges, 0) + 1
    return [Target(number, count[exchanges]) for exchanges, number in first.items()]


def equal_to_kills(kind: str, points: Sequence[Point]) -> int:
    """Return how many points of a fault leave nothing but the disk after all."""
    return sum(point.is_alone for point in points) if kind == "main_process" else 0


@dataclass(frozen=True, slots=True)
class LeftDisk:
    """A disk that one or more faults leave, what had been printed by then, and how many points of each kind it covers.

    `kind` and `point` name the fault that stands for all of them.
    """

    kind: str
    point: Point
    disk: Tree
    printed: str
    covers: dict[str, int]


def left_disks(recording: Recording) -> Iterator[LeftDisk]:
    """Yield every disk that a kill, before or after a call or in the middle of it, can leave, each once."""
    last, covers = _equal_disks(recording)
    for kind, point, digest, moment in _faults(recording):
        if last[digest] == (kind, point.number):
            yield LeftDisk(kind, point, _disk(kind, point, recording, moment), moment.printed, covers[digest])


def _equal_disks(recording: Recording) -> tuple[dict[str, tuple[str, int]], dict[str, dict[str, int]]]:
    """Return, for each disk, the last fault that leaves it, and how many faults of each kind do."""
    last: dict[str, tuple[str, int]] = {}
    covers: dict[str, dict[str, int]] = {}
    points = len(recording.points)
    for kind, point, digest, _ in _faults(recording):
        counts = covers.setdefault(digest, dict.fromkeys(DISK_FAULTS, 0))
        last[digest] = (kind, point.number)
        if kind == "torn":
            counts["torn"] += 1
            continue
        counts["kill"] += point is not _END
        counts["after"] += point is _END or 1 < point.number <= points
    return last, covers


def _faults(recording: Recording) -> Iterator[tuple[str, Point, str, RecordedMoment]]:
    """Yield each fault with the digest of the disk it leaves, in the order of time."""
    points = {point.number: point for point in recording.points}
    for moment in recording.moments():
        point = points.get(moment.number)
        if point is None:
            yield "after", _END, moment.disk.whole().digest(), moment
            continue
        yield "kill", point, moment.disk.whole().digest(), moment
        torn = moment.disk.torn(recording.call(point.number))
        if torn is not None:
            yield "torn", point, torn.digest(), moment


def _disk(kind: str, point: Point, recording: Recording, moment: RecordedMoment) -> Tree:
    if kind != "torn":
        return moment.disk.whole()
    torn = moment.disk.torn(recording.call(point.number))
    assert torn is not None
    return torn
