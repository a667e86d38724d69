"""`agents`: every known agent, whether it is installed, in which version, and whether it looks ready."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import msgspec

from holdfast.agents.presets import Presets, agent_names, presets_of
from holdfast.cli.arguments import JSON, Arguments
from holdfast.cli.installed_agents import InstalledAgent, find_installed_agents
from holdfast.cli.output import show
from holdfast.errors import HoldfastError
from holdfast.repo.discovery import find_checkout
from holdfast.views.terminal import terminal_width
from holdfast.views.text import titled_table

ARGUMENTS: Arguments = (JSON,)
_HEADING = ("AGENT", "VERSION", "RECORDED WITH", "STATE")


class KnownAgent(msgspec.Struct, frozen=True, kw_only=True):
    """One agent that a plan may name. `missing` says what an installed one still needs; `install` how to get the program.

    `broken`: it cannot even say its version. `unrecorded`: its version is none of those that the preset was recorded with.
    """

    name: str
    title: str
    installed: bool
    version: str
    recorded: tuple[str, ...]
    missing: str
    install: str
    broken: str = ""
    unrecorded: bool = False


class KnownAgents(msgspec.Struct, frozen=True):
    """What `agents --json` prints: the installed ones first."""

    agents: tuple[KnownAgent, ...]


def execute(args: Namespace) -> int:
    """Show every known agent, the installed ones first. Nothing but `AGENT --version` is run."""
    presets = presets_of(checkout_here())
    return show(KnownAgents(tuple(_known(presets))), _text, args)


def checkout_here() -> Path | None:
    """Return the checkout around the current folder, with or without a commit; None outside of any."""
    try:
        return find_checkout(Path.cwd())
    except HoldfastError:
        return None


def _known(presets: Presets) -> Iterator[KnownAgent]:
    found = {agent.name: agent for agent in find_installed_agents(presets)}
    for name in [*found, *(name for name in agent_names(presets) if name not in found)]:
        preset = presets[name]
        here = found.get(name, InstalledAgent(name=name, version="", missing=""))
        yield KnownAgent(
            name=name,
            title=preset.title,
            installed=name in found,
            version=here.version,
            recorded=preset.recorded,
            missing=here.missing,
            install=preset.install,
            broken=here.broken,
            unrecorded=bool(here.recorded),
        )


def _text(view: KnownAgents) -> str:
    rows = [_HEADING, *((one.name, _version(one), _versions(one), _state(one)) for one in view.agents)]
    lines = chain.from_iterable(titled_table(rows, terminal_width(), indent=""))
    return "\n".join([*lines, "", "`holdfast agents try AGENT` lets one do a tiny task."])


def _version(agent: KnownAgent) -> str:
    return f"{agent.version} (not recorded)" if agent.unrecorded else agent.version or "-"


def _versions(agent: KnownAgent) -> str:
    return ", ".join(agent.recorded) or "-"


def _state(agent: KnownAgent) -> str:
    if agent.broken:
        return agent.broken
    if agent.installed:
        return f"not ready: {agent.missing}" if agent.missing else "looks ready"
    return f"not installed: {agent.install}" if agent.install else "not installed"
