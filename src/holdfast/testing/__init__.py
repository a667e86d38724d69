"""The stand-ins that Holdfast's own tests use, for yours.

With `FunctionFleet` and `MemoryJournal` a plan or a workflow is tested in milliseconds, without any process.
"""

from __future__ import annotations

from holdfast.journal.memory import MemoryJournal
from holdfast.testing.function_fleet import FunctionFleet, Work

__all__ = ["FunctionFleet", "MemoryJournal", "Work"]
