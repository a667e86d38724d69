"""Which boot of the machine this is, and which process of it: a pid is soon given to another.

No process lives on after a reboot, and what nobody had synced may be torn. A leaf module without pathlib: every supervisor
has it in its memory.
"""

from __future__ import annotations

import os

_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_START_TICKS = 19  # counted after the command name; proc(5) counts from 1 and has two fields before


def boot_id() -> str:
    """Return the id of this boot of the machine."""
    with open(_BOOT_ID, "rb", buffering=0) as file:  # noqa: PTH123 - pathlib is too heavy for the supervisor
        return file.read().decode().strip()


def start_ticks(pid: int) -> int:
    """Return when a process was started, in clock ticks after boot; 0 if there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:  # noqa: PTH123 - see above
            text = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return int(text.rpartition(b")")[2].split()[_START_TICKS])  # the command name may contain anything


def own_process() -> str:
    """Return a name of this process for files that are its own: its pid, and when it was started."""
    return f"{os.getpid()}-{start_ticks(os.getpid())}"


def is_alive(process: str) -> bool:
    """Tell whether a process lives, by the name that `own_process` gave it. Anything else names none."""
    pid, _, started = process.partition("-")
    return pid.isdecimal() and started.isdecimal() and start_ticks(int(pid)) == int(started) > 0
