"""Judges a recording: was everything on disk at the moment at which something else began to rely on it?

- When a ref of ours gets a value, each object that it leads to is synced, with its name.
- When the journal is written, the refs of ours that were moved before are synced, with their names and logs.
- When the command ends, that holds for all that it acknowledged: also requests, backups, outputs, exit records that
  promise it. What was removed, stays removed.

If a command does several things at a time, a ref may be on its way while the journal is written about another. Then the
second rule is left out.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from tests.crash.disk_image import DiskImage, RecordedCall
from tests.crash.power_models import Least
from tests.crash.recording import Recording

REF = re.compile(r"\.git/refs/(heads/holdfast/|holdfast/)(?!.*\.lock$)")
SNAPSHOT_LOG = re.compile(r"\.git/logs/refs/holdfast/[^/]+/wip/")
OBJECT = re.compile(r"\.git/objects/([0-9a-f]{2}/(?!tmp_)|pack/pack-)")
JOURNAL_FOLDER = ".holdfast"
WRITE_AHEAD_LOG = ".holdfast/journal.db-wal"
JOURNAL = re.compile(r"\.holdfast/journal\.db(-wal)?$")
ACKNOWLEDGED = re.compile(
    r"\.git/(refs/(heads|holdfast)/|logs/refs/holdfast/[^/]+/wip/|packed-refs$|HEAD$|config$)(?!.*\.lock$)"
    r"|\.holdfast/(journal\.db(-wal)?|backups/.+|outputs/.+|plans/.+|runs/[^/]+/requests/.+\.json)$"
)
"""What a command that has ended may have promised. An entry that is a folder only holds others."""


@dataclass(frozen=True, slots=True)
class SyncViolation:
    """Something was relied upon that a power cut would have taken away; `point` is where."""

    point: int
    sentence: str


class SyncTrace:
    """A recording and the repository as it was left; objects are read from there."""

    def __init__(self, recording: Recording, repository: Path, *, one_at_a_time: bool = True) -> None:
        self._recording = recording
        self._one_at_a_time = one_at_a_time
        self._objects_of = lru_cache(maxsize=None)(lambda commit: _reachable(repository, commit))
        self.refs_moved = 0
        self.journal_writes = 0

    def violations(self) -> list[SyncViolation]:
        """Return every moment at which something was relied upon that was not synced."""
        return list(self._judge())

    def _judge(self) -> Iterator[SyncViolation]:
        disk = self._recording.start
        journal_is_written = journal_was_synced = False
        for call in self._recording.calls:
            is_sync = call.syscall in ("fsync", "fdatasync")
            if journal_was_synced and not (is_sync and call.path == JOURNAL_FOLDER):
                journal_was_synced = False
                yield from _unsynced(disk, call.number, "the journal was synced", (JOURNAL,))
            if call.path == WRITE_AHEAD_LOG and call.syscall == "pwrite64" and not journal_is_written:
                journal_is_written = True
                self.journal_writes += 1
                if self._one_at_a_time:
                    yield from _unsynced(disk, call.number, "the journal is written", (REF, SNAPSHOT_LOG))
            disk.apply(call)
            if is_sync and call.path == WRITE_AHEAD_LOG:
                journal_is_written, journal_was_synced = False, True
            if call.syscall.startswith("rename") and REF.match(call.path):
                self.refs_moved += 1
                yield from self._objects(disk, call)
        yield from _unsynced(disk, 0, "the command has ended", (ACKNOWLEDGED,))

    def _objects(self, disk: DiskImage, call: RecordedCall) -> Iterator[SyncViolation]:
        """Check the objects of a ref that has just got its value. Loose ones have a name; of the others, all packs count."""
        here = disk.whole().entries
        wanted = self._objects_of(here[call.path].content.data.decode().strip())
        files = {f".git/objects/{name[:2]}/{name[2:]}" for name in wanted}
        loose = files & here.keys()
        packs = (
            {path for path in here if path.startswith(".git/objects/pack/pack-")} if files - loose else set()
        )
        left = disk.after(Least()).entries
        for path in sorted(loose | packs):
            if path not in left or left[path].content.data != here[path].content.data:
                yield SyncViolation(
                    call.number, f"{call.path} got a value that needs {path}, which is not synced"
                )


def _unsynced(
    disk: DiskImage, point: int, when: str, kinds: tuple[re.Pattern[str], ...]
) -> Iterator[SyncViolation]:
    """Yield what a power cut would take away, tear or bring back at this moment."""
    here, left = disk.whole().entries, disk.after(Least()).entries
    for path in sorted(here.keys() | left.keys()):
        if not any(kind.match(path) for kind in kinds) or (path == WRITE_AHEAD_LOG and path not in here):
            continue  # SQLite had put a log that it removed into the journal; if it comes back, nothing changes
        data = [tree[path].content.data if path in tree else None for tree in (here, left)]
        if data[0] != data[1]:
            what = "is not synced" if path in here else "was removed, which is not synced"
            yield SyncViolation(point, f"{when}, and {path} {what}")


def _reachable(repository: Path, commit: str) -> frozenset[str]:
    argv = ["git", "-C", str(repository), "rev-list", "--objects", "--no-object-names", commit]
    return frozenset(subprocess.run(argv, check=True, capture_output=True, text=True).stdout.split())
