"""The systems whose files Holdfast reads and writes: one row each.

A row names a package of `formats/` that offers a `FORMAT` (a `ForeignFormat` of `model.py`). Nothing else has to
change for a new system.
"""

from __future__ import annotations

from enum import StrEnum


class System(StrEnum):
    """The systems by the names that commands take, in the order in which they are tried on a file."""

    AUTO_CLAUDE = "auto-claude"
    SPECFLOW = "specflow"
    EXECUTE = "execute"
    APEX = "apex"
    # Last: its files have no common shape, so the more specific systems are tried first.
    CFN = "cfn"

    @property
    def package(self) -> str:
        """The module that offers the system's `FORMAT`."""
        return f"holdfast.formats.{self.value.replace('-', '_')}"


SYSTEM_NAMES = tuple(system.value for system in System)
