"""The launches of a host: those of one machine, which go on only for as long as their lease is renewed."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

from holdfast.fleet.local import LocalFleet
from holdfast.fleet.protocol import LaunchKey
from holdfast.process.launch_order import exit_file, read_until, write_until


def boot_clock() -> float:
    """Return the seconds since the machine started, also those in which it slept: what leases are counted on."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class HostLaunches(LocalFleet):
    """Launches on this machine that somebody far away counts on."""

    def extend(self, key: LaunchKey, until: float) -> None:
        """Let a live launch go on until then. One that ended meanwhile takes no notice."""
        with suppress(FileNotFoundError):
            write_until(self.folder(key), until)

    def may_go_on_until(self, key: LaunchKey) -> float:
        """Return until when a launch may go on as far as it was extended, by a worker that is dead now too; 0 if never."""
        return read_until(self.folder(key))

    def exit_record(self, key: LaunchKey) -> bytes:
        """Return what the supervisor of a launch that ended wrote last."""
        return Path(exit_file(self.folder(key))).read_bytes()
