"""Landlock, a sandbox that a process puts itself and all that it starts into, for good: the system calls.

It needs no namespace and no right, so it works where those are forbidden. Every supervisor loads this, so it must import
nothing heavy. Which files a launch may open is the business of `landlock_rules.py`.
"""

from __future__ import annotations

import ctypes
import os
import stat
from contextlib import suppress

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REMOVE = 1 << 4 | 1 << 5  # folders, files
_MAKE = 1 << 7 | 1 << 8 | 1 << 9 | 1 << 10 | 1 << 12  # folders, files, sockets, FIFOs, links; no devices
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_ALL = (1 << 16) - 1
_OF_A_FILE = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV

READ = _EXECUTE | _READ_FILE | _READ_DIR
"""What a rule allows in a folder that is shown."""
WRITE = READ | _WRITE_FILE | _REMOVE | _MAKE | _REFER | _TRUNCATE
"""What a rule allows in a folder that may be changed."""
DEVICE = _READ_FILE | _WRITE_FILE | _TRUNCATE | _IOCTL_DEV
"""What a rule allows with a device."""

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every processor
_VERSION = 1
_PATH_BENEATH = 1
_ABSTRACT_SOCKETS, _SIGNALS = 1, 2
_LEAST_VERSION = 6
_PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 24, 38
_CAPABILITIES_MAX = 64
_CAPABILITY_VERSION = 0x20080522
_LIBC = ctypes.CDLL(None, use_errno=True)


class _PathRule(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32))


def landlock_obstacle() -> str:
    """Return why this kernel cannot keep launches from files, signals and sockets; empty if it can."""
    try:
        version = _call(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION)
    except OSError as error:
        return f"this kernel has no Landlock ({error.strerror})"
    return "" if version >= _LEAST_VERSION else "the Landlock of this kernel is older than that of Linux 6.12"


def enter_domain(rules: list[tuple[str, int]]) -> None:
    """Let this thread, and all that it starts, open only what the rules name. Raises OSError if that fails.

    Whoever is outside cannot be signalled or traced, and is not reached by sockets without a file. Root keeps no capability:
    without files, one of them would still be enough to change the kernel.
    """
    _enter(_ALL, _ABSTRACT_SOCKETS | _SIGNALS, rules)
    _drop_capabilities()


def confine_files(rules: list[tuple[str, int]]) -> None:
    """Let this thread, and all that it starts, open only what the rules name. Does nothing where there is no Landlock."""
    if not landlock_obstacle():
        _enter(_ALL, 0, rules)


def leave_abstract_sockets() -> None:
    """Keep this thread, and all that it starts, from sockets without a file, such as that of a desktop.

    A sandbox that shares the network hides only sockets that are files. Kernels before 6.12 cannot do more.
    """
    with suppress(OSError):
        _enter(0, _ABSTRACT_SOCKETS, [])


def _enter(files: int, scopes: int, rules: list[tuple[str, int]]) -> None:
    """Restrict this thread to what the rules allow of `files`, and to its own domain in `scopes`. For the network nothing."""
    handled = (ctypes.c_uint64 * 3)(files, 0, scopes)
    ruleset = _call(_CREATE_RULESET, handled, ctypes.c_size_t(ctypes.sizeof(handled)), 0)
    try:
        for path, allowed in rules:
            _allow(ruleset, path, allowed)
        _restrict(ruleset)
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, allowed: int) -> None:
    """Add a rule. What is gone needs none. A FIFO that is shown may be written to, as in a folder that is read-only."""
    try:
        fd = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    try:
        kind = os.fstat(fd).st_mode
        if stat.S_ISFIFO(kind):
            allowed |= _WRITE_FILE
        if not stat.S_ISDIR(kind):
            allowed &= _OF_A_FILE
        _call(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.byref(_PathRule(allowed, fd)), 0)
    finally:
        os.close(fd)


def _restrict(ruleset: int) -> None:
    if _LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise _error()
    _call(_RESTRICT_SELF, ruleset, 0)


def _drop_capabilities() -> None:
    """Give up every capability, also for programs that are executed later. Ordinary users have none to give."""
    for number in range(_CAPABILITIES_MAX):
        if _LIBC.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0) != 0:
            break  # there are no more of them, or we may not
    none = (ctypes.c_uint32 * 6)()
    if _LIBC.capset((ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0), none) != 0:
        raise _error()


def _call(number: int, *arguments: object) -> int:
    result = int(_LIBC.syscall(number, *arguments))
    if result < 0:
        raise _error()
    return result


def _error() -> OSError:
    return OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
