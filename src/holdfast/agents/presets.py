"""Agents that Holdfast knows by name: how each is told to work unattended on one brief.

Data only. A plan's own `agents:` entry of the same name takes precedence.
"""

from __future__ import annotations

import shutil

from holdfast.core.plan import AgentSpec

PRESETS: dict[str, AgentSpec] = {
    "claude": AgentSpec(
        command=("claude", "-p", "--permission-mode", "bypassPermissions", "--output-format", "text"),
        prompt="stdin",
    ),
    "codex": AgentSpec(
        command=(
            "codex",
            "exec",
            "--skip-git-repo-check",
            "-s",
            "danger-full-access",
            "-C",
            "{workspace}",
            "-",
        ),
        prompt="stdin",
    ),
    "gemini": AgentSpec(
        command=("gemini", "--approval-mode", "yolo", "--skip-trust", "-p", "{brief}"), prompt="arg"
    ),
    "qwen": AgentSpec(command=("qwen", "-y", "-p", "{brief}"), prompt="arg"),
    "opencode": AgentSpec(
        command=("opencode", "run", "--auto", "--dir", "{workspace}", "{brief}"), prompt="arg"
    ),
    "aider": AgentSpec(
        command=("aider", "--yes-always", "--no-check-update", "--message-file", "{brief}"), prompt="file"
    ),
}


def find_agent(name: str, agents: dict[str, AgentSpec]) -> AgentSpec | None:
    """Return the agent that a plan means by `name`: its own entry, else the preset."""
    return agents.get(name) or PRESETS.get(name)


def installed_presets() -> list[str]:
    """Return the presets whose program is on the PATH, without running any of them."""
    return [name for name, spec in PRESETS.items() if shutil.which(spec.command[0])]
