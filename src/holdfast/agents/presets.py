"""The agents that are known by name: those of `presets.toml`, and what the user's own files change or add."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from holdfast.agents.preset import BASE, Preset, changed, of_plan
from holdfast.core.plan import AgentSpec, Plan, Task, Validator
from holdfast.core.roster import Seat
from holdfast.core.wording import did_you_mean, shown
from holdfast.errors import HoldfastError
from holdfast.paths import StateDir

Presets = Mapping[str, Preset]


@lru_cache(maxsize=1)
def builtin_presets() -> Presets:
    """Return the presets that come with Holdfast, `command` among them. Read once, when first asked for."""
    # Loaded here because only commands that start or look for agents need it.
    import tomllib

    tables = tomllib.loads(files("holdfast.agents").joinpath("presets.toml").read_text(encoding="utf-8"))
    empty = Preset(command=())
    return {name: changed(name, empty, table, "presets.toml") for name, table in tables.items()}


def presets_of(checkout: Path | None = None) -> Presets:
    """Return every preset: the built-in ones, under the user's own file, under the repository's."""
    presets = dict(builtin_presets())
    for path in _user_files(checkout):
        for name, table in _tables(path):
            presets[name] = _overlaid(name, table, presets, str(path))
        _require_fallbacks(presets, str(path))
    return presets


def agent_names(presets: Presets) -> list[str]:
    """Return what a plan may name as an agent without describing it."""
    return [name for name in presets if name != BASE]


def find_agent(name: str, agents: Mapping[str, AgentSpec], presets: Presets) -> Preset | None:
    """Return the agent that a plan means by `name`: its own entry, else the preset."""
    spec = agents.get(name)
    if spec is not None:
        return of_plan(name, spec, presets)
    return presets.get(name) if name != BASE else None


def require_agents(plan: Plan, presets: Presets) -> None:
    """Raise HoldfastError if a plan needs an agent that is not known any more: the user's files may have changed."""
    workers: list[Task | Validator] = []
    for _, task in plan.tasks():
        workers += [task, *task.validators]
    for name in dict.fromkeys(who.agent or plan.agent for who in workers if not who.run):
        if name and find_agent(name, plan.agents, presets) is None:
            raise HoldfastError(
                f"the plan's agent {shown(name)} is not known any more{did_you_mean(name, presets)}",
                "put it back into ~/.config/holdfast/agents.toml or .holdfast/agents.toml",
            )


def roster_of(plan: Plan, presets: Presets) -> dict[str, Seat]:
    """Return every agent that a plan may put to work, as decisions see it."""
    names = [*agent_names(presets), *plan.agents]
    found = {name: find_agent(name, plan.agents, presets) for name in names}
    return {name: agent.seat(name) for name, agent in found.items() if agent is not None}


def installed_presets(presets: Presets) -> list[str]:
    """Return the presets whose program is on the PATH, without running any of them."""
    return [name for name in agent_names(presets) if shutil.which(presets[name].needed_program)]


def _user_files(checkout: Path | None) -> Iterator[Path]:
    config = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    yield Path(config).expanduser() / "holdfast" / "agents.toml"
    if checkout is not None:
        yield StateDir.of_checkout(checkout).agents


def _tables(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    import tomllib

    try:
        parsed = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise HoldfastError(f"{path} cannot be read: {error}", "mend it, or move it away") from None
    for name, table in parsed.items():
        if not isinstance(table, dict):
            raise HoldfastError(
                f"{path}: {shown(name)} is not a table", f"write `[{name}]` and its keys below"
            )
        yield name, table


def _overlaid(name: str, table: Mapping[str, Any], presets: Presets, where: str) -> Preset:
    """Return one table of a user's file as a preset: on the one it names, else on its namesake, else on `command`."""
    on = table.get("preset", name if name in presets else BASE)
    if not isinstance(on, str) or on not in presets:
        raise HoldfastError(
            f"{where}: there is no preset {shown(str(on))}{did_you_mean(str(on), presets)}",
            f"use one of {', '.join(agent_names(presets))}",
        )
    made = changed(name, presets[on], {key: value for key, value in table.items() if key != "preset"}, where)
    if not made.command:
        raise HoldfastError(f"{where}: agent {shown(name)} has no command", "add `command` or `preset`")
    return made


def _require_fallbacks(presets: Presets, where: str) -> None:
    for name, preset in presets.items():
        if preset.fallback and preset.fallback not in agent_names(presets):
            raise HoldfastError(
                f"{where}: agent {shown(name)} falls back on {shown(preset.fallback)}, which is not known",
                f"use one of {', '.join(agent_names(presets))}",
            )
