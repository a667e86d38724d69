"""A model that follows a script, so that real agents can be tested without a provider.

The agent works for real. Only its model is played: it calls the tools that a `Script` names, or fails as a `ModelFault` names.
"""

from __future__ import annotations

from tests.scripted_model.anthropic_api import subscription_headers
from tests.scripted_model.script import Call, Conversation, ModelFault, Script, Shell, Write
from tests.scripted_model.server import ScriptedModel, ServedRequest

__all__ = [
    "Call",
    "Conversation",
    "ModelFault",
    "Script",
    "ScriptedModel",
    "ServedRequest",
    "Shell",
    "Write",
    "subscription_headers",
]
