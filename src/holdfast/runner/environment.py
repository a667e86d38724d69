"""The environment that agents and checks get: the user's, without what would point git elsewhere, plus ours."""

from __future__ import annotations

import os
import shutil
import sysconfig
from functools import lru_cache
from pathlib import Path

from holdfast.channel import BELL_VARIABLE, REPORT_VARIABLE

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
    env |= _git_settings() | _search_path()
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


def report_variables(report: Path, bell: Path) -> dict[str, str]:
    """Return what lets an agent or a validator report."""
    return {REPORT_VARIABLE: str(report), BELL_VARIABLE: str(bell)}


@lru_cache
def _search_path() -> dict[str, str]:
    """Let agents find the `holdfast` command, also where it was started from an environment that is not active."""
    path = os.environ.get("PATH", os.defpath)
    ours = sysconfig.get_path("scripts")
    return {"PATH": path if shutil.which("holdfast", path=path) else f"{path}{os.pathsep}{ours}"}


def _git_settings() -> dict[str, str]:
    settings = {"GIT_CONFIG_COUNT": str(len(_AGENT_GIT_CONFIG)), "GIT_TERMINAL_PROMPT": "0"}
    for index, (key, value) in enumerate(_AGENT_GIT_CONFIG.items()):
        settings[f"GIT_CONFIG_KEY_{index}"] = key
        settings[f"GIT_CONFIG_VALUE_{index}"] = value
    return settings
