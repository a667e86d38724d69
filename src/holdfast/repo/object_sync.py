"""Makes git's objects durable: all that are in the repository, whoever wrote them, before a ref is moved to them.

Git is told not to sync loose objects itself. It would wait for one after the other, its `batch` method does not sync on
Linux file systems, some commands never sync, and an object that exists, because an agent or the user has just written it
without a sync, is not written again. So it does not matter what we wrote, but what is there. An object's file never
changes: only files that were not there at the last look are synced, and the folders that name them.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from holdfast.disk_sync import DurableNames, sync_all

_PACKS = "pack"
_FAN_OUT = 2  # the folders of loose objects are called 00 to ff
_UNFINISHED = ("tmp_", ".tmp-")
_WRITTEN_BACK_S = 3600.0
"""The kernel writes everything back within a minute or so. What is older than this is on disk without us."""
_TICK_NS = 50_000_000
_SECOND_NS = 1_000_000_000


class _File(NamedTuple):
    """A file for as long as it is the same one: a later one may get its name and its inode. `changed` tells them apart."""

    name: str
    inode: int
    changed: int


@dataclass(frozen=True, slots=True)
class _Listing:
    """A folder at the last look: when it had changed, and its files. All are on disk. `changed` 0 means: look again."""

    changed: int
    files: frozenset[_File]


_EMPTY = _Listing(0, frozenset())


class ObjectSync:
    """The objects of one repository, and which of them are known to be on disk. Several threads may use it."""

    def __init__(self, objects: Path) -> None:
        self._objects = str(objects)
        self._known: dict[str, _Listing] = {}
        self._stores: set[str] = set()
        self._oldest = _oldest_unwritten()
        self._names = DurableNames()
        self._failure: tuple[int | None, str | None, str | None] | None = None
        self._one_at_a_time = Lock()

    def sync_new(self) -> None:
        """Wait until every object that is in the repository now is on disk. Repeating it costs little.

        Raises OSError if the disk refuses; then nothing may refer to the objects. It refuses for good: the kernel
        reports a failed sync once, and a second one succeeds without writing anything.
        """
        with self._one_at_a_time:
            if self._failure:
                raise OSError(*self._failure)
            try:
                for store in object_stores(self._objects):
                    self._sync_store(store)
            except OSError as error:
                self._failure = (error.errno, error.strerror, error.filename)
                raise

    def _sync_store(self, store: str) -> None:
        """Sync what is new. At the first look, that is what is young: later the clock may jump, and nothing is told by it."""
        folders = [f"{store}/{name}" for name in _names(store) if len(name) == _FAN_OUT]
        self._sync(store, folders)
        # After the loose ones: a repack may just have moved some of them into a pack.
        self._sync(store, [f"{store}/{_PACKS}"])
        self._stores.add(store)

    def _sync(self, store: str, folders: list[str]) -> None:
        paths: list[str] = []
        changed: list[str] = []
        listings: dict[str, _Listing] = {}
        for folder in folders:
            known = self._known.get(folder, _EMPTY)
            if (listing := _look(folder, known.changed)) is None:
                continue
            listings[folder] = listing
            fresh = listing.files - known.files
            if store not in self._stores:
                fresh = frozenset(file for file in fresh if file.changed >= self._oldest)
            if fresh:
                paths += [f"{folder}/{file.name}" for file in fresh if not file.name.startswith(_UNFINISHED)]
                changed.append(folder)
        # Git removes the folder of the last loose object, and makes it again for the next one.
        unknown = self._names.unknown(changed)
        sync_all([*paths, *changed, *([store] if unknown else [])], store)
        self._names.remember(unknown)
        self._known |= listings


def _look(folder: str, known: int) -> _Listing | None:
    """Return what a folder holds; None if nothing was added to it or removed since it changed at the time `known`."""
    now = time.time_ns()
    try:
        changed = os.stat(folder).st_ctime_ns  # noqa: PTH116 - asked of 256 folders at a time
        if changed == known:
            return None
        with os.scandir(folder) as entries:
            files = frozenset(_File(entry.name, entry.inode(), _changed(entry)) for entry in entries)
    except (FileNotFoundError, PermissionError):
        return None  # not there, or closed to us, and so to every git command of ours
    return _Listing(0 if _may_change_again(changed, now) else changed, files)


def _may_change_again(changed: int, now: int) -> bool:
    """Tell whether a folder can still change and keep its time stamp: some file systems count whole seconds only."""
    return changed + (_TICK_NS if changed % _SECOND_NS else 3 * _SECOND_NS) > now


def _changed(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_ctime_ns
    except FileNotFoundError:
        return 0  # a git command that is still writing gave it its final name


def _oldest_unwritten() -> int:
    """Return the time before which everything is on disk, or lost: some time ago, or when the machine started."""
    now = time.time()
    started = now - time.clock_gettime(time.CLOCK_BOOTTIME)
    return int(max(now - _WRITTEN_BACK_S, started) * 1e9)


def object_stores(objects: str) -> list[str]:
    """Return the folders of objects: the repository's own, and those that it borrows from other repositories."""
    stores = [objects]
    for store in stores:
        try:
            lines = Path(store, "info", "alternates").read_text("utf-8", "surrogateescape").splitlines()
        except (FileNotFoundError, NotADirectoryError):
            continue
        paths = (str(Path(store, line).resolve()) for line in lines if line and not line.startswith("#"))
        stores += [path for path in paths if path not in stores]
    return stores


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 - plain names are all that is needed
    except FileNotFoundError:
        return []
