"""A model that follows a script, so that real agents can be tested without a provider.

The agent works for real. Only its model is played: it calls the tools that a `Script` names, or fails as a `ModelFault` names.
"""

from __future__ import annotations

from tests.scripted_model.script import ModelFault, Script, Shell, Write
from tests.scripted_model.server import ScriptedModel, ServedRequest

__all__ = ["ModelFault", "Script", "ScriptedModel", "ServedRequest", "Shell", "Write"]
