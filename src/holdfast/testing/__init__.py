"""The stand-ins that Holdfast's own tests use, for yours.

With `FunctionFleet` and `MemoryJournal` a plan or a workflow is tested in milliseconds, without any process. With
`ScriptedModel` a real coding agent works for real, and only its model is played: it calls the tools that a `Script`
names, or fails in the way that a `Fault` names.
"""

from __future__ import annotations

from holdfast.journal.memory import MemoryJournal
from holdfast.testing.function_fleet import FunctionFleet, Work
from holdfast.testing.script import Fault, Script, Shell, Write
from holdfast.testing.scripted_model import ScriptedModel, ServedRequest

__all__ = [
    "Fault",
    "FunctionFleet",
    "MemoryJournal",
    "Script",
    "ScriptedModel",
    "ServedRequest",
    "Shell",
    "Work",
    "Write",
]
