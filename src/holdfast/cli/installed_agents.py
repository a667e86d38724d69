"""Which agents are installed here, in which version, and whether they look ready. Only `--version` is ever run."""

from __future__ import annotations

import os
import re
import shutil
from concurrent.futures import ThreadPoolExecutor

import msgspec

from holdfast.agents.presets import Preset, Presets, installed_presets, missing_credentials
from holdfast.process.programs import ask_program

_VERSION_S = 10.0
_VERSION = re.compile(r"\d+\.\d+[\w.+-]*")


class InstalledAgent(msgspec.Struct, frozen=True, kw_only=True):
    """One agent that is on the PATH. `missing` says what it still needs, in words; empty if it looks ready."""

    name: str
    version: str
    missing: str

    @property
    def ready(self) -> bool:
        """Whether it looks as if it could work now."""
        return not self.missing

    def words(self) -> str:
        """Return the agent in one line."""
        known = f"{self.name} {self.version}".rstrip()
        return known if self.ready else f"{known} (not ready: {self.missing})"


def find_installed_agents(presets: Presets) -> list[InstalledAgent]:
    """Look at every installed agent, those that look ready first; their versions are asked side by side."""
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


def _version(preset: Preset) -> str:
    """Return the version that an agent gives; empty if it gives none in time."""
    if not preset.version or shutil.which(preset.version[0]) is None:
        return ""
    found = _VERSION.search(ask_program(preset.version, _VERSION_S) or "")
    return found[0] if found else ""
