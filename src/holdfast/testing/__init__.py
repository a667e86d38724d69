"""Test doubles of Holdfast's own tests, for use in your tests.

With `FunctionFleet` and `MemoryJournal` you test a plan or a workflow in milliseconds, without any process.
"""

from __future__ import annotations

from holdfast.journal.memory import MemoryJournal
from holdfast.testing.function_fleet import FunctionFleet, Work

__all__ = ["FunctionFleet", "MemoryJournal", "Work"]
