"""Which boot of the machine this is, and which process of it: a pid is soon given to another.

No process lives on after a reboot, and what nobody had synced may be torn. A leaf module without pathlib: every supervisor
has it in its memory.
"""

from __future__ import annotations

import os

_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_STATE, _START_TICKS = 0, 19  # proc(5) counts from 1 and has two fields before the state


def boot_id() -> str:
    """Return the id of this boot of the machine."""
    with open(_BOOT_ID, "rb", buffering=0) as file:  # noqa: PTH123 - pathlib is too heavy for the supervisor
        return file.read().decode().strip()


def stat_fields(pid: int) -> list[bytes]:
    """Return the fields of `/proc/PID/stat` from the state on; none when there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:  # noqa: PTH123 - see above
            text = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return []
    # The command name may hold spaces and parentheses; the fields after the last parenthesis never do.
    return text[text.rindex(b")") + 2 :].split()


def start_ticks(pid: int) -> int:
    """Return when a process was started, in clock ticks after boot; 0 if there is none."""
    fields = stat_fields(pid)
    return int(fields[_START_TICKS]) if fields else 0


def own_process() -> str:
    """Return a name of this process for files that are its own: its pid, and when it was started."""
    return f"{os.getpid()}-{start_ticks(os.getpid())}"


def is_alive(process: str) -> bool:
    """Tell whether a process lives, by the name that `own_process` gave it. Anything else names none.

    One that only waits to be reaped has ended.
    """
    pid, _, started = process.partition("-")
    fields = stat_fields(int(pid)) if pid.isdecimal() else []
    return bool(fields) and fields[_STATE] not in (b"Z", b"X") and fields[_START_TICKS] == started.encode()
