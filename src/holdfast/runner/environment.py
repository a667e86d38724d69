"""The environment that agents and checks get: the user's, without what would point git elsewhere, plus ours."""

from __future__ import annotations

import os
from pathlib import Path

_AGENT_GIT_CONFIG = {
    # Auto-gc starts a session of its own and would outlive the attempt that caused it.
    "gc.auto": "0",
    "maintenance.auto": "false",
    # A commit that an agent makes itself must survive a power cut as ours do.
    "core.fsync": "committed",
}


def attempt_environment(
    workspace: Path, run: str, task: str, attempt: int, brief: Path | None
) -> dict[str, str]:
    """Return the environment of one attempt's processes."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "HOLDFAST_"))}
    env |= _git_settings()
    # Git must never walk up from a damaged workspace into the user's own repository.
    env["GIT_CEILING_DIRECTORIES"] = str(workspace.parent)
    env |= {
        "HOLDFAST_RUN": run,
        "HOLDFAST_TASK": task,
        "HOLDFAST_ATTEMPT_NUMBER": str(attempt),
        "HOLDFAST_WORKSPACE": str(workspace),
    }
    if brief is not None:
        env["HOLDFAST_BRIEF"] = str(brief)
    return env


def _git_settings() -> dict[str, str]:
    settings = {"GIT_CONFIG_COUNT": str(len(_AGENT_GIT_CONFIG)), "GIT_TERMINAL_PROMPT": "0"}
    for index, (key, value) in enumerate(_AGENT_GIT_CONFIG.items()):
        settings[f"GIT_CONFIG_KEY_{index}"] = key
        settings[f"GIT_CONFIG_VALUE_{index}"] = value
    return settings
