"""System calls that no process in a sandbox may make, as a filter of the kernel's: seccomp.

Neither namespaces nor Landlock hold these. The kernel keeps keys for a user, not for files. Limits of every process of the
user can be set. Sockets to the machine that hosts this one are in no network namespace. The filter knows the numbers of one
kind of processor, so calls by those of another kind are refused: they would pass unseen. Which files may be opened is no
business of it, and programs must not notice it otherwise. Every supervisor loads this, so it must import nothing heavy.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

KEYCTL = {"x86_64": 250, "aarch64": 219, "riscv64": 219}
"""The number of the system call `keyctl`, by kind of processor."""

_PR_SET_SECCOMP, _MODE_FILTER = 22, 2
_LOAD, _IF_EQUAL, _IF_AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER, _PROCESSOR, _FIRST_ARGUMENT = 0, 4, 16
"""Where the kernel puts these; of the argument, the lower half."""
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000
_X32_NUMBERS = 0x40000000
"""How x86_64 marks calls with pointers of 32 bits. No processor has other numbers up there."""
_SELF = 0
_AF_VSOCK = 40
_LIBC = ctypes.CDLL(None, use_errno=True)
_Instruction = tuple[int, int, int, int]

_NUMBERS = {
    "x86_64": (0xC000003E, 248, 249, KEYCTL["x86_64"], 302, 41),
    "aarch64": (0xC00000B7, 217, 218, KEYCTL["aarch64"], 261, 198),
    "riscv64": (0xC00000F3, 217, 218, KEYCTL["riscv64"], 261, 198),
}
"""By kind of processor: how the kernel names it, and the numbers that `_filter` takes."""
_IO_URING_SETUP = 425  # the same on every processor


def _filter(
    processor: int, add_key: int, request_key: int, keyctl: int, prlimit64: int, socket: int
) -> bytes:
    """Return the program that the kernel runs before each system call. Jumps count the instructions to pass over."""
    return b"".join(
        struct.pack("=HBBI", *instruction)
        for instruction in (
            (_LOAD, 0, 0, _PROCESSOR),
            (_IF_EQUAL, 1, 0, processor),
            _refuse(errno.ENOSYS),
            (_LOAD, 0, 0, _NUMBER),
            (_IF_AT_LEAST, 0, 1, _X32_NUMBERS),
            _refuse(errno.ENOSYS),
            *_without(add_key, errno.EPERM),
            *_without(request_key, errno.EPERM),
            *_without(keyctl, errno.EPERM),
            # It would make sockets, unseen by this filter. Programs know kernels that do not have it.
            *_without(_IO_URING_SETUP, errno.ENOSYS),
            *_by_argument(prlimit64, _SELF, (_RETURN, 0, 0, _ALLOW), _refuse(errno.EPERM)),
            *_by_argument(socket, _AF_VSOCK, _refuse(errno.EAFNOSUPPORT), (_RETURN, 0, 0, _ALLOW)),
            (_RETURN, 0, 0, _ALLOW),
        )
    )


def _refuse(error: int) -> _Instruction:
    return _RETURN, 0, 0, _REFUSE | error


def _without(call: int, error: int) -> tuple[_Instruction, ...]:
    return (_IF_EQUAL, 0, 1, call), _refuse(error)


def _by_argument(
    call: int, value: int, then: _Instruction, otherwise: _Instruction
) -> tuple[_Instruction, ...]:
    """Decide about a call by its first argument. Where it is another call, the number is still the one that was loaded."""
    return (_IF_EQUAL, 0, 4, call), (_LOAD, 0, 0, _FIRST_ARGUMENT), (_IF_EQUAL, 0, 1, value), then, otherwise


FILTER = _filter(*_NUMBERS[os.uname().machine]) if os.uname().machine in _NUMBERS else b""
"""The filter for this machine, as the kernel and bubblewrap take it; empty if we do not know its numbers."""


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def refuse_system_calls() -> None:
    """Keep this thread, and all that it starts, from these calls for good. Raises OSError if that fails.

    It must have given up new privileges, as Landlock requires, too.
    """
    if not FILTER:
        return
    program = _Program(len(FILTER) // 8, FILTER)
    if _LIBC.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(program), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
