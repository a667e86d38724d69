"""Who runs a run: a lock on one file, which only a live runner holds, and the epoch fence behind it.

The kernel frees it when the runner dies, so there are no time-outs: a stopped runner still holds it, a killed
one never does. It is an open-file-description lock rather than an `flock`: both belong to the open file and
go with it, but only this kind can be tested without taking it, so a reader never gets in a runner's way.

The lock is one half, the epoch the other: its holder takes a new epoch (`protocol.py`, `Journal.take_epoch`),
and the journal refuses appends from an older one.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

import msgspec

from holdfast.boot import boot_id, start_ticks
from holdfast.disk_sync import PRIVATE, make_folder
from holdfast.errors import LeaseHeldError
from holdfast.journal.filesystem_checks import refuse_network_filesystem
from holdfast.locks import is_locked, lock_within, open_lockable, try_lock
from holdfast.system_errors import doing

_INFO_MAX = 4096
_WAIT_S = 30.0


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """The process that holds a lease. `pid` is 0 until it has signed the file."""

    pid: int = 0
    start_ticks: int = 0
    boot_id: str = ""
    host: str = ""
    since: float = 0.0
    lock: str = ""
    """The file that it locked, by device and number. Who locks the same file on the same machine knows that it is gone."""

    def is_outlived_by(self, other: Holder) -> bool:
        """Tell whether the other could get its lock only because this process is gone."""
        return bool(self.lock) and (self.boot_id, self.lock) == (other.boot_id, other.lock)

    def __str__(self) -> str:
        if not self.pid:
            return "a runner that is just starting"
        who = f"pid {self.pid} on {self.host}"
        try:
            at = datetime.fromtimestamp(self.since, UTC).isoformat(timespec="milliseconds")
        except (ValueError, OverflowError, OSError):  # in a server, others may have written it
            return who
        return f"{who}, started {at.replace('+00:00', 'Z')}"


@dataclass(slots=True)
class Lease:
    """A held lease. It ends with `release`, or when the process ends in any way."""

    path: Path
    _fd: int
    holder: Holder = field(default_factory=Holder)
    """Who we are, as others read it."""

    @classmethod
    def acquire(cls, path: Path) -> Self:
        """Take the lease or raise LeaseHeldError at once. The lock is not inherited by programs we start.

        A second acquire in this process is refused too: the lock belongs to the open file, not the process.
        """
        refuse_network_filesystem(path)
        with doing("take the lease of the run", path):
            _drop_links(path)
            while not (lease := cls(path, _locked(path))).is_ours():
                lease.release()
            lease._sign()
        return lease

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()

    def is_ours(self) -> bool:
        """Tell whether the file at the path still is the one we locked, not one put in its place."""
        if self._fd < 0:
            return False
        try:
            return os.path.samestat(os.fstat(self._fd), self.path.stat())
        except FileNotFoundError:
            return False

    def release(self) -> None:
        """Release the lock. The file stays: removing it could take it from the next holder. Idempotent."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def remove(self) -> None:
        """Remove the file and release the lock; its folder goes too, if nothing else is in it.

        The file goes while it is locked. Who has opened it by then sees that it is gone, and makes another one.
        """
        with doing("remove the lease of the run", self.path):
            if self.is_ours():
                self.path.unlink()
            with suppress(
                OSError
            ):  # another process has made its lease there, or some file could not be removed
                self.path.parent.rmdir()
        self.release()

    def _sign(self) -> None:
        """Write down who holds the lease; release it if that fails."""
        file = os.fstat(self._fd)
        self.holder = Holder(
            pid=os.getpid(),
            start_ticks=start_ticks(os.getpid()),
            boot_id=boot_id(),
            host=os.uname().nodename,
            since=time.time(),
            lock=_lock_name(file),
        )
        try:
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, msgspec.json.encode(self.holder), 0)
        except OSError:
            self.release()
            raise


@contextmanager
def making_runs(path: Path) -> Iterator[None]:
    """Hold the lock at `path` while runs are looked for and made, or the journal is replaced.

    Waits for who has it; raises LeaseHeldError if that takes long, as where somebody is asked a question meanwhile.
    """
    with doing("keep others from making runs meanwhile", path):
        make_folder(path.parent, PRIVATE)
        fd = open_lockable(path)
        try:
            locked = lock_within(fd, _WAIT_S)
        except BaseException:
            os.close(fd)
            raise
    try:
        if not locked:
            raise LeaseHeldError(
                "another command makes or restores runs here", "wait for it, then run the command again"
            )
        yield
    finally:
        os.close(fd)


def locker(path: Path) -> Holder:
    """Return who would have the lock of this file on this machine, as far as it tells whether another holder is gone."""
    try:
        file = path.stat()
    except FileNotFoundError:
        return Holder()
    return Holder(boot_id=boot_id(), lock=_lock_name(file))


def _lock_name(file: os.stat_result) -> str:
    return f"{file.st_dev}:{file.st_ino}"


def holder(path: Path) -> Holder | None:
    """Return who holds the lease now, or None. Without a lock, the content of the file means nothing."""
    try:
        with doing("see who holds the run"):
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            return None  # a link, which nobody can hold: `acquire` removes it
        raise
    try:
        with doing("see who holds the run", path):
            return _signed(fd) if is_locked(fd) else None
    finally:
        os.close(fd)


def _drop_links(path: Path) -> None:
    """Remove links at the run's folder and right in it, and a pipe or device in place of the lease.

    Holdfast puts none there. Whoever did would have us write or delete behind it; what is there stays.
    """
    if path.parent.is_symlink():
        path.parent.unlink()
    if not path.parent.is_dir():
        return
    # A `remove` at the same time may take the folder: then there is no link in it.
    with suppress(FileNotFoundError), os.scandir(path.parent) as entries:
        for entry in entries:
            if entry.is_symlink() or (entry.name == path.name and not entry.is_file(follow_symlinks=False)):
                Path(entry.path).unlink()


def _locked(path: Path) -> int:
    """Open and lock the file, and return its descriptor."""
    fd = _opened(path)
    try:
        if try_lock(fd):
            return fd
        held = _signed(fd)
    except OSError:
        os.close(fd)
        raise
    os.close(fd)
    raise LeaseHeldError(
        f"this run is held by another runner: {held}",
        "`holdfast status` shows what it does; `holdfast stop` ends it",
    )


def _opened(path: Path) -> int:
    """Open the file; make it and its folder if they are missing. A `remove` at the same time may take the folder again."""
    while True:
        make_folder(path.parent, PRIVATE)
        with suppress(FileNotFoundError):
            return open_lockable(path)


def _signed(fd: int) -> Holder:
    try:
        return msgspec.json.decode(os.pread(fd, _INFO_MAX, 0), type=Holder)
    except msgspec.DecodeError:
        return Holder()
