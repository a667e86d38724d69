"""Which agents are known and installed, in which version, and whether they look ready. Only `--version` is run."""

from __future__ import annotations

import os
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import msgspec

from holdfast.agents.presets import (
    Preset,
    Presets,
    agent_names,
    builtin_presets,
    installed_presets,
    missing_credentials,
)
from holdfast.errors import HoldfastError, did_you_mean, quoted
from holdfast.process.programs import ToolResult, ask_program
from holdfast.views.text import one_line

_VERSION_S = 10.0
_VERSION = re.compile(r"\d+\.\d+[\w.+-]*")
_LINE_CHARS = 120


class AskedVersion(NamedTuple):
    """What an agent said to `--version`: its version, or why it looks broken; neither if it was not asked, or did not answer."""

    version: str = ""
    broken: str = ""


class InstalledAgent(msgspec.Struct, frozen=True, kw_only=True):
    """One agent that is on the PATH. `missing` says what it still needs; empty if it looks ready. `broken`: it
    cannot even say its version.

    `recorded` are the versions that its preset was recorded with, if the installed one is none of them.
    """

    name: str
    version: str
    missing: str
    recorded: tuple[str, ...] = ()
    broken: str = ""

    def describe(self) -> str:
        """Return the agent in one line."""
        known = f"{self.name} {self.version}".rstrip()
        if self.broken:
            return f"{known} (broken)"
        return f"{known} (not ready: {self.missing})" if self.missing else known

    def version_warning(self) -> str:
        """Return what it means that this version is none of the recorded ones; empty if it is one, or none is known."""
        if not self.recorded:
            return ""
        versions = " and ".join(self.recorded)
        return f"its stream was read with {versions}; if attempts end oddly, try `holdfast agents try {self.name}`"


def find_installed_agents(presets: Presets) -> list[InstalledAgent]:
    """Return every installed agent, those that look ready first. All are asked for their versions at once."""
    names = installed_presets(presets)
    if not names:
        return []
    with ThreadPoolExecutor(max_workers=len(names)) as pool:
        asked = list(pool.map(lambda name: ask_version(name, presets[name]), names))
    found = [
        InstalledAgent(
            name=name,
            version=said.version,
            missing=missing_credentials(presets[name], os.environ),
            recorded=_recorded_otherwise(presets[name], said.version),
            broken=said.broken,
        )
        for name, said in zip(names, asked, strict=True)
    ]
    return sorted(found, key=lambda agent: (bool(agent.broken), bool(agent.missing)))


def choose_agent(named: str, presets: Presets) -> str:
    """Return the named agent, which must be known, else the first one installed. Raises HoldfastError if there is none."""
    known = agent_names(presets)
    if named and named not in known:
        raise HoldfastError(
            f"there is no agent {quoted(named)}{did_you_mean(named, known)}",
            "name a preset with --agent, or describe yours in .holdfast/agents.toml",
        )
    if agent := named or next(iter(installed_presets(presets)), ""):
        return agent
    raise HoldfastError(
        "no known agent is on the PATH", f"install one of {', '.join(known)}, or name yours with --agent"
    )


def _recorded_otherwise(preset: Preset, version: str) -> tuple[str, ...]:
    """Return the versions that the preset was recorded with, unless this is one of them or not known."""
    return () if not version or preset.was_recorded_with(version) else preset.recorded


def ask_version(name: str, preset: Preset) -> AskedVersion:
    """Return the version that an agent gives, if it gives one in time. Nobody agreed to what agents.toml defines."""
    known = builtin_presets().get(name)
    if not preset.version or known is None or preset.version != known.version:
        return AskedVersion()
    if shutil.which(preset.version[0]) is None:
        return AskedVersion()
    said = ask_program(preset.version, _VERSION_S)
    if said.code > 0:
        return AskedVersion(broken=_broken_words(preset, said))
    found = _VERSION.search(said.out) if said.code == 0 else None
    return AskedVersion(found[0] if found else "")


def _broken_words(preset: Preset, said: ToolResult) -> str:
    lines = (said.err.strip() or said.out.strip()).splitlines()
    first = f": {one_line(lines[0], _LINE_CHARS)}" if lines else ""
    return f"broken: `{' '.join(preset.version)}` exited with {said.code}{first}"
