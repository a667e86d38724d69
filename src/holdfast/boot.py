"""Which boot of the machine this is: no process lives on after a reboot, and what nobody had synced may be torn.

A leaf module without pathlib: every supervisor has it in its memory.
"""

from __future__ import annotations

_BOOT_ID = "/proc/sys/kernel/random/boot_id"


def boot_id() -> str:
    """Return the id of this boot of the machine."""
    with open(_BOOT_ID, "rb", buffering=0) as file:  # noqa: PTH123 - pathlib is too heavy for the supervisor
        return file.read().decode().strip()
