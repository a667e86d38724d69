"""Which agents are known and installed, in which version, and whether they look ready. Only `--version` is run."""

from __future__ import annotations

import os
import re
import shutil
from concurrent.futures import ThreadPoolExecutor

import msgspec

from holdfast.agents.presets import Preset, Presets, agent_names, installed_presets, missing_credentials
from holdfast.errors import HoldfastError, did_you_mean, quoted
from holdfast.process.programs import ask_program

_VERSION_S = 10.0
_VERSION = re.compile(r"\d+\.\d+[\w.+-]*")


class InstalledAgent(msgspec.Struct, frozen=True, kw_only=True):
    """One agent that is on the PATH. `missing` says what it still needs; empty if it looks ready."""

    name: str
    version: str
    missing: str

    @property
    def ready(self) -> bool:
        """Whether it looks as if it could work now."""
        return not self.missing

    def describe(self) -> str:
        """Return the agent in one line."""
        known = f"{self.name} {self.version}".rstrip()
        return known if self.ready else f"{known} (not ready: {self.missing})"


def find_installed_agents(presets: Presets) -> list[InstalledAgent]:
    """Return every installed agent, those that look ready first. All are asked for their versions at once."""
    names = installed_presets(presets)
    if not names:
        return []
    with ThreadPoolExecutor(max_workers=len(names)) as pool:
        versions = list(pool.map(lambda name: _version(presets[name]), names))
    found = [
        InstalledAgent(name=name, version=version, missing=missing_credentials(presets[name], os.environ))
        for name, version in zip(names, versions, strict=True)
    ]
    return sorted(found, key=lambda agent: not agent.ready)


def require_known_agent(name: str, presets: Presets) -> None:
    """Raise HoldfastError, with the nearest name, unless there is an agent of this name."""
    known = agent_names(presets)
    if name not in known:
        raise HoldfastError(
            f"there is no agent {quoted(name)}{did_you_mean(name, known)}",
            "name a preset with --agent, or describe yours in .holdfast/agents.toml",
        )


def _version(preset: Preset) -> str:
    """Return the version that an agent gives; empty if it gives none in time."""
    if not preset.version or shutil.which(preset.version[0]) is None:
        return ""
    found = _VERSION.search(ask_program(preset.version, _VERSION_S) or "")
    return found[0] if found else ""
