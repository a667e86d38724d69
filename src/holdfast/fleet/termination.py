"""Ends processes, and waits until they have ended: those that carry a token, those in a control group, supervisors.

Nothing that carries no token of ours, and is in no group of ours, is ever signalled here.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from contextlib import suppress

from holdfast import locks
from holdfast.errors import LaunchError
from holdfast.process import cgroups, procfs
from holdfast.process.launch_order import record_file

_ORPHAN_GRACE_S = 2.0
_CLEAN_LOOKS = 2
_SWEEP_S = 60.0
LOOK_S = 2.0
"""How often it is looked whether somebody stopped a process that is waited for."""


async def end_all(tokens: frozenset[str]) -> set[int]:
    """End what carries one of `tokens`, and what is in a control group of one although it carries none; return the pids."""
    ended = await end_carriers(tokens)
    for folder in cgroups.leftover_groups(tokens) if tokens else ():
        while found := cgroups.members(folder):
            opened = [fd for fd in map(procfs.open_pidfd, found) if fd is not None]
            for fd in opened:
                signal_process(fd, signal.SIGKILL)
            await asyncio.gather(*map(_ended, opened))
            ended.update(found)
        cgroups.remove_group(folder)
    return ended


async def end_carriers(tokens: frozenset[str]) -> set[int]:
    """End every process that carries one of `tokens`: SIGTERM, then SIGKILL until none is left; return their pids.

    A process can fork and end while the others are looked at, so one look that finds nobody is no proof. Raises LaunchError
    if new ones keep appearing.
    """
    ended: set[int] = set()
    number, clean, deadline = signal.SIGTERM, 0, time.monotonic() + _SWEEP_S
    while tokens and clean < _CLEAN_LOOKS:
        found = procfs.open_carriers(tokens)
        clean = 0 if found else clean + 1
        if found and time.monotonic() > deadline:
            raise _endless(found)
        for fd in found.values():
            signal_process(fd, number)
        with suppress(TimeoutError):  # those that ignore SIGTERM are found again, and killed
            async with asyncio.timeout(_ORPHAN_GRACE_S):
                await asyncio.gather(*(_ended(fd) for fd in found.values()))
        if found:
            ended |= found.keys()
            number = signal.SIGKILL
    return ended


def _endless(found: dict[int, int]) -> LaunchError:
    """Return the error for processes that start others faster than they can be ended. Closes their pidfds."""
    for fd in found.values():
        os.close(fd)
    groups = {os.getpgid(pid) for pid in found if procfs.stat(pid) is not None}
    return LaunchError(
        f"processes of this run keep starting others, such as {min(found)}",
        f"`kill -9 -- {' '.join(f'-{group}' for group in sorted(groups)) or '-GROUP'}` ends them all at once, then try again",
    )


def signal_process(pidfd: int, number: signal.Signals) -> None:
    """Signal the process that a pidfd stands for, and no other that got its number later."""
    try:
        signal.pidfd_send_signal(pidfd, number)
    except ProcessLookupError:
        return  # it has ended already, as intended


async def outlast(folder: str, pidfd: int, deadline: float) -> bool:
    """Wait until the supervisor of a launch has ended; continue it if somebody stopped it. Closes the pidfd.

    A stopped supervisor keeps no limit. One that is late is killed: then this returns False.
    """
    over, in_time = asyncio.ensure_future(_ended(pidfd)), True
    try:
        while not (await asyncio.wait([over], timeout=LOOK_S))[0]:
            if procfs.is_stopped(locks.record_lock_holder(record_file(folder)) or 0):
                signal_process(pidfd, signal.SIGCONT)
            if time.monotonic() > deadline:
                signal_process(pidfd, signal.SIGKILL)
                in_time = False
    finally:
        over.cancel()
    return in_time


async def _ended(pidfd: int) -> None:
    """Wait until the process ended. Closes the pidfd."""
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(pidfd, over.set)
    try:
        await over.wait()
    finally:
        loop.remove_reader(pidfd)
        os.close(pidfd)
