"""What Holdfast promises for every real agent, and which agent cannot do its part, with one word why.

`test_promises.py` has one test per promise. Nothing here starts anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Promise(StrEnum):
    """A column of the table of promises, by its head."""

    PLAN = "plan lands"
    STOP = "stop is clean"
    KILL = "kill and resume"
    TOKENS = "tokens counted"
    SESSION = "session resumed"
    LATE = "no half-done work"
    LIMIT = "limit waited out"
    KEY = "bad key blocks"
    SECRETS = "no outer secrets"
    SANDBOX = "sandbox"


CANNOT: Mapping[Promise, Mapping[str, str]] = {
    Promise.TOKENS: {
        "copilot": "untold",
        "vibe": "untold",
        "mini-swe-agent": "untold",
        "openhands": "untold",
        "codex-acp": "partly",
        "gemini-acp": "untold",
        "qwen-acp": "untold",
        "opencode-acp": "partly",
    },
    Promise.SESSION: {
        "aider": "none",
        "mini-swe-agent": "none",
        "cline": "unnamed",
        "droid": "online",
        "openhands": "unnamed",
        "gemini-acp": "lost",
    },
}
"""What an agent cannot do, by its name. The page explains the words."""


def obstacle(promise: Promise, agent: str) -> str:
    """Return why an agent cannot do its part of a promise, in one word, or an empty string."""
    return CANNOT.get(promise, {}).get(agent, "")
