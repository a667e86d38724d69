"""The agents that are known by name: those of `presets.toml`, and what the user's own files change or add."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import msgspec

from holdfast.agents.streams.error_patterns import ErrorPatterns
from holdfast.core.observations import AgentTrouble
from holdfast.core.plan import STREAMS, AgentProvider, AgentSpec, Plan, PromptMode, Task, Validator
from holdfast.errors import HoldfastError, did_you_mean, quoted
from holdfast.paths import StateDir

PatternTable = dict[AgentTrouble, tuple[str, ...]]
BASE_PRESET = "command"
"""The preset that a command of the user's own builds on. It is no agent by itself."""


class Preset(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How one kind of agent is started, read, stopped and understood. docs/agents.md explains each field."""

    command: tuple[str, ...]
    program: str = ""
    title: str = ""
    provider: str = ""
    resume: tuple[str, ...] = ()
    permissions: tuple[str, ...] = ()
    model_flag: tuple[str, ...] = ()
    model: str = ""
    args: tuple[str, ...] = ()
    prompt: PromptMode = "file"
    stream: str = "raw"
    stop_signal: Literal["TERM", "INT"] = "TERM"
    env: dict[str, str] = {}
    pass_env: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    credentials: tuple[str, ...] = ()
    version: tuple[str, ...] = ()
    install: str = ""
    exit_codes: dict[str, AgentTrouble] = {}
    errors: PatternTable = {}
    lines: PatternTable = {}
    fallback: str = ""
    native_resume: bool = False

    @property
    def needed_program(self) -> str:
        """What must be installed: what the command starts, unless that only starts it in turn."""
        return self.program or self.command[0]

    def error_patterns(self) -> ErrorPatterns:
        """Return how this agent says what went wrong."""
        return ErrorPatterns.of(self.errors, self.lines, self.exit_codes)

    def as_provider(self, name: str) -> AgentProvider:
        """Return what decisions need to know of this agent under its name."""
        return AgentProvider(
            provider=self.provider or name,
            fallback=self.fallback,
            resumable=bool(self.resume),
            native=self.native_resume,
        )


def with_changes(name: str, base: Preset, changes: Mapping[str, Any], where: str) -> Preset:
    """Return a preset with some of its keys replaced. `env`, `errors` and `lines` are added to, key by key."""
    known = msgspec.to_builtins(base)
    merged = dict(known)
    for key, value in changes.items():
        old = known.get(key)
        merged[key] = {**old, **value} if isinstance(old, dict) and isinstance(value, dict) else value
    try:
        made = msgspec.convert(merged, Preset)
        made.error_patterns()
    except (msgspec.ValidationError, re.error, ValueError) as error:
        raise HoldfastError(
            f"{where}: agent {quoted(name)}: {error}", "docs/agents.md names every key of an agent"
        ) from None
    if made.stream not in STREAMS:
        fix = did_you_mean(made.stream, STREAMS)
        raise HoldfastError(
            f"{where}: agent {quoted(name)}: there is no stream {quoted(made.stream)}{fix}",
            f"use one of {', '.join(STREAMS)}",
        )
    return made


def preset_of_plan(name: str, spec: AgentSpec, presets: Mapping[str, Preset]) -> Preset | None:
    """Return the agent that an entry of a plan describes; None if it builds on a preset that is not known."""
    base = presets.get(spec.preset) if spec.preset else _base_for_stream(spec.stream, presets)
    if base is None:
        return None
    given = {key: value for key, value in msgspec.to_builtins(spec).items() if key != "preset"}
    return with_changes(name, base, given, "the plan")


def _base_for_stream(stream: str, presets: Mapping[str, Preset]) -> Preset:
    """Return what is known of a command of the plan's own: if it speaks a known agent's stream, also how that errs."""
    base, spoken = presets[BASE_PRESET], presets.get(stream)
    if spoken is None:
        return base
    return msgspec.structs.replace(
        base,
        provider=spoken.provider,
        errors=spoken.errors,
        lines=spoken.lines,
        exit_codes=spoken.exit_codes,
    )


Presets = Mapping[str, Preset]


@lru_cache(maxsize=1)
def builtin_presets() -> Presets:
    """Return the presets that come with Holdfast, `command` among them. Read once, when first asked for."""
    # Loaded here because only commands that start or look for agents need it.
    import tomllib

    tables = tomllib.loads(files("holdfast.agents").joinpath("presets.toml").read_text(encoding="utf-8"))
    empty = Preset(command=())
    return {name: with_changes(name, empty, table, "presets.toml") for name, table in tables.items()}


def presets_of(checkout: Path | None = None) -> Presets:
    """Return every preset: the built-in ones, under the user's own file, under the repository's."""
    presets = dict(builtin_presets())
    for path in _user_files(checkout):
        for name, table in _tables(path):
            presets[name] = _user_preset(name, table, presets, str(path))
        _require_fallbacks(presets, str(path))
    return presets


def agent_names(presets: Presets) -> list[str]:
    """Return what a plan may name as an agent without describing it."""
    return [name for name in presets if name != BASE_PRESET]


def find_agent(name: str, agents: Mapping[str, AgentSpec], presets: Presets) -> Preset | None:
    """Return the agent that a plan means by `name`: its own entry, else the preset."""
    spec = agents.get(name)
    if spec is not None:
        return preset_of_plan(name, spec, presets)
    return presets.get(name) if name != BASE_PRESET else None


def require_agents(plan: Plan, presets: Presets) -> None:
    """Raise HoldfastError if a plan needs an agent that is not known any more: the user's files may have changed."""
    workers: list[Task | Validator] = []
    for _, task in plan.tasks():
        workers += [task, *task.validators]
    for name in dict.fromkeys(who.agent or plan.agent for who in workers if not who.run):
        if name and find_agent(name, plan.agents, presets) is None:
            raise HoldfastError(
                f"the plan's agent {quoted(name)} is not known any more{did_you_mean(name, presets)}",
                "put it back into ~/.config/holdfast/agents.toml or .holdfast/agents.toml",
            )


def agent_providers(plan: Plan, presets: Presets) -> dict[str, AgentProvider]:
    """Return every agent that a plan may put to work, as decisions see it."""
    names = [*agent_names(presets), *plan.agents]
    found = {name: find_agent(name, plan.agents, presets) for name in names}
    return {name: agent.as_provider(name) for name, agent in found.items() if agent is not None}


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
                f"{path}: {quoted(name)} is not a table", f"write `[{name}]` and its keys below"
            )
        yield name, table


def _user_preset(name: str, table: Mapping[str, Any], presets: Presets, where: str) -> Preset:
    """Return one table of a user's file as a preset: on the one it names, else on its namesake, else on `command`."""
    on = table.get("preset", name if name in presets else BASE_PRESET)
    if not isinstance(on, str) or on not in presets:
        raise HoldfastError(
            f"{where}: there is no preset {quoted(str(on))}{did_you_mean(str(on), presets)}",
            f"use one of {', '.join(agent_names(presets))}",
        )
    made = with_changes(
        name, presets[on], {key: value for key, value in table.items() if key != "preset"}, where
    )
    if not made.command:
        raise HoldfastError(f"{where}: agent {quoted(name)} has no command", "add `command` or `preset`")
    return made


def _require_fallbacks(presets: Presets, where: str) -> None:
    for name, preset in presets.items():
        if preset.fallback and preset.fallback not in agent_names(presets):
            raise HoldfastError(
                f"{where}: agent {quoted(name)} falls back on {quoted(preset.fallback)}, which is not known",
                f"use one of {', '.join(agent_names(presets))}",
            )


def missing_credentials(preset: Preset, env: Mapping[str, str]) -> str:
    """Return what would have to be there before the agent can work, in words; empty if it looks ready.

    An agent that names neither keys nor logins needs none as far as anybody knows.
    """
    if not preset.keys and not preset.credentials:
        return ""
    if any(env.get(key) for key in preset.keys) or any(_exists(path, env) for path in preset.credentials):
        return ""
    ways = [f"set {preset.keys[0]}"] if preset.keys else []
    ways += ["log in with it once"] if preset.credentials else []
    return " or ".join(ways)


def _exists(path: str, env: Mapping[str, str]) -> bool:
    """Tell whether a login is on disk. A path through a variable that is not set is nowhere."""
    folder, _, rest = path.partition("/")
    if folder.startswith("$"):
        folder = env.get(folder[1:], "")
        return bool(folder) and Path(folder, rest).is_file()
    return Path(os.path.expanduser(path)).is_file()  # noqa: PTH111 - pathlib raises where there is no home
