"""The agents that are known by name: those of `presets.toml`, with what the user's files change or add.

A preset is data: how to start, read, stop and understand an agent, and what it needs to work. Nothing is
started here.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import msgspec

from holdfast.agents.streams.error_patterns import ErrorPatterns
from holdfast.core.observations import AgentTrouble
from holdfast.core.plan import STREAMS, AgentProvider, AgentSpec, Plan, PromptMode
from holdfast.core.session_variables import denied_names, refusal
from holdfast.core.state import RunState
from holdfast.errors import HoldfastError, did_you_mean, quoted
from holdfast.paths import StateDir
from holdfast.system_errors import doing

_LOGIN_CHARS = 1_000_000
_VALUE = re.compile(r"""[=:]\s*["']?([^\s"',]{20,})""")
PatternTable = dict[AgentTrouble, tuple[str, ...]]
BASE_PRESET = "command"
"""The preset that a command of the user builds on. It is not an agent itself."""
_NOT_OF_PRESETS = ("preset", "resume")
"""Keys of a plan's agent that change no preset. A preset's own `resume` is the command that resumes a session."""


class Preset(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to start, read, stop and understand one kind of agent. docs/agents.md explains each field."""

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
    sandbox_env: dict[str, str] = {}
    not_as_root: tuple[str, ...] = ()
    pass_env: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    credentials: tuple[str, ...] = ()
    home: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    version: tuple[str, ...] = ()
    recorded: tuple[str, ...] = ()
    install: str = ""
    exit_codes: dict[str, AgentTrouble] = {}
    errors: PatternTable = {}
    lines: PatternTable = {}
    fallback: str = ""
    native_resume: bool = False
    first_alone: bool = False
    closing_line: bool = False

    @property
    def needed_program(self) -> str:
        """The program that must be installed: the one that the command starts, unless `program` names another."""
        return self.program or self.command[0]

    def was_recorded_with(self, version: str) -> bool:
        """Tell whether this agent's stream was read in that version, or in one that differs only behind major.minor."""
        return release_of(version) in map(release_of, self.recorded)

    def error_patterns(self) -> ErrorPatterns:
        """Return how this agent words what went wrong."""
        return ErrorPatterns.of(self.errors, self.lines, self.exit_codes)

    def as_provider(self, name: str) -> AgentProvider:
        """Return what decisions need to know about this agent."""
        return AgentProvider(
            provider=self.provider or name,
            fallback=self.fallback,
            resumable=bool(self.resume),
            native=self.native_resume,
            closing_line=self.closing_line and self.stream != "raw",
        )


def release_of(version: str) -> tuple[str, ...]:
    """Return the major and minor number of a version: what is behind them changes too often to warn of it."""
    return tuple(version.split(".")[:2])


Presets = Mapping[str, Preset]
"""Every known agent by its name."""


def with_changes(name: str, base: Preset, changes: Mapping[str, Any], where: str) -> Preset:
    """Return a preset with some keys replaced. Tables such as `env` and `errors` are merged key by key."""
    known = msgspec.to_builtins(base)
    merged = dict(known)
    if changes.get("command"):
        merged["program"] = ""  # that of the command which is replaced
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
    if changes.get("closing_line") and made.stream == "raw":
        raise HoldfastError(
            f"{where}: agent {quoted(name)}: closing_line needs a stream whose last message can be read",
            "name its stream, or leave closing_line out",
        )
    for variable in denied_names(made.pass_env):
        what, _, instead = refusal(variable).partition("; ")
        raise HoldfastError(f"{where}: agent {quoted(name)}: pass_env: {what}", instead)
    for path in (*made.credentials, *made.home):
        if not path.startswith(("~/", "$", "/")):
            raise HoldfastError(
                f"{where}: agent {quoted(name)}: {quoted(path)} is not a file of the home",
                "begin it with ~/, or with the variable that names its folder, as in $CODEX_HOME/auth.json",
            )
    return made


@lru_cache(maxsize=1)
def builtin_presets() -> Presets:
    """Return the presets that come with Holdfast, `command` included. They are read once, on first use."""
    # Imported here because only commands that start or look for agents need it.
    import tomllib

    tables = tomllib.loads(files("holdfast.agents").joinpath("presets.toml").read_text(encoding="utf-8"))
    empty = Preset(command=())
    return {name: with_changes(name, empty, table, "presets.toml") for name, table in tables.items()}


def presets_of(checkout: Path | None = None) -> Presets:
    """Return every preset. The user's file overrides the built-in ones, and the repository's file overrides both."""
    presets = dict(builtin_presets())
    for path in _user_files(checkout):
        for name, table in _tables(path):
            presets[name] = _user_preset(name, table, presets, str(path))
        _require_fallbacks(presets, str(path))
    return presets


def file_that_sets(name: str, key: str, checkout: Path) -> str:
    """Return the user's file that has the last word on a key of an agent, as people write it; empty if none sets it."""
    setting = [path for path in _user_files(checkout) if key in dict(_tables(path)).get(name, {})]
    if not setting:
        return ""
    return str(setting[-1].relative_to(checkout) if setting[-1].is_relative_to(checkout) else setting[-1])


def agent_names(presets: Presets) -> list[str]:
    """Return the agents that a plan may name without describing them."""
    return [name for name in presets if name != BASE_PRESET]


def find_agent(name: str, agents: Mapping[str, AgentSpec], presets: Presets) -> Preset | None:
    """Return the agent that a plan means by `name`: its own entry, else the preset. None if it is unknown."""
    spec = agents.get(name)
    if spec is None:
        return presets.get(name) if name != BASE_PRESET else None
    base = presets.get(spec.preset) if spec.preset else _base_for_stream(spec.stream, presets)
    if base is None:
        return None
    given = {key: value for key, value in msgspec.to_builtins(spec).items() if key not in _NOT_OF_PRESETS}
    given["pass_env"] = [*base.pass_env, *spec.pass_env]  # an agent cannot do without its provider's
    return with_changes(name, base, given, "the plan")


def agent_of_attempt(state: RunState, task: str, attempt: int, presets: Presets) -> Preset | None:
    """Return the agent of an attempt at a task; None if the task is a command, or the agent is not known any more."""
    spec, row = state.specs[task], state.tasks[task]
    if spec.run:
        return None
    past = next((one.agent for one in row.past if one.attempt == attempt), "")
    latest = row.latest.agent if attempt == row.attempt else past
    try:
        return find_agent(latest or spec.agent or state.plan.agent, state.plan.agents, presets)
    except HoldfastError:
        return None


def _base_for_stream(stream: str, presets: Presets) -> Preset:
    """Return the base of a plan's own command. With the stream of a known agent, it has that agent's errors too."""
    base, known = presets[BASE_PRESET], presets.get(stream)
    if known is None:
        return base
    return msgspec.structs.replace(
        base,
        provider=known.provider,
        errors=known.errors,
        lines=known.lines,
        exit_codes=known.exit_codes,
        closing_line=known.closing_line,
    )


def require_agents(plan: Plan, presets: Presets) -> None:
    """Raise HoldfastError if an agent of the plan is not known any more: the user's files may have changed."""
    for name in plan.agents_named():
        if name and find_agent(name, plan.agents, presets) is None:
            raise HoldfastError(
                f"the plan's agent {quoted(name)} is not known any more{did_you_mean(name, presets)}",
                "put it back into ~/.config/holdfast/agents.toml or .holdfast/agents.toml",
            )


def agent_providers(plan: Plan, presets: Presets) -> dict[str, AgentProvider]:
    """Return every agent that may work for a plan, as decisions see it."""
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

    if path.exists() and not (path.is_file() or path.is_dir()):
        raise HoldfastError(
            f"{path} is a pipe, a socket or a device; reading it could wait for ever", "remove it"
        )
    try:
        with doing("read which agents are known"):
            parsed = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise HoldfastError(f"{path} cannot be read: {error}", "fix or move it") from None
    for name, table in parsed.items():
        if not isinstance(table, dict):
            raise HoldfastError(
                f"{path}: {quoted(name)} is not a table", f"write `[{name}]` and its keys below"
            )
        yield name, table


def _user_preset(name: str, table: Mapping[str, Any], presets: Presets, where: str) -> Preset:
    """Return a table of a user's file as a preset, based on the preset it names, else on its namesake, else on `command`."""
    on = table.get("preset", name if name in presets else BASE_PRESET)
    if not isinstance(on, str) or on not in presets:
        raise HoldfastError(
            f"{where}: there is no preset {quoted(str(on))}{did_you_mean(str(on), presets)}",
            f"use one of {', '.join(agent_names(presets))}",
        )
    stream = table.get("stream")
    by_stream = on == BASE_PRESET and isinstance(stream, str)
    base = _base_for_stream(str(stream), presets) if by_stream else presets[on]
    made = with_changes(name, base, {key: value for key, value in table.items() if key != "preset"}, where)
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
    """Return how to get the missing key or login, in words; empty if the agent looks ready. No model is asked.

    An agent whose preset names neither keys nor logins needs none. What its own `env` sets counts before `env`.
    """
    env = {**env, **preset.env}
    if not preset.keys and not preset.credentials:
        return ""
    if any(env.get(key) for key in preset.keys) or any(_exists(path, env) for path in preset.credentials):
        return ""
    ways = [f"set {preset.keys[0]}"] if preset.keys else []
    ways += ["log in with it once"] if preset.credentials else []
    return " or ".join(ways)


def _exists(path: str, env: Mapping[str, str]) -> bool:
    """Tell whether a login is on disk."""
    place = place_of(path, env)
    return place is not None and place.is_file()


def login_secrets(paths: Iterable[str], env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the long values in the files of a login, whatever their format: an agent could print them."""
    found: dict[str, None] = {}
    for place in filter(None, (place_of(path, env) for path in paths)):
        try:
            with place.open(encoding="utf-8", errors="replace") as file:
                text = file.read(_LOGIN_CHARS)
        except OSError:
            continue
        found |= dict.fromkeys(value for value in _VALUE.findall(text) if "://" not in value)
    return tuple(found)


def place_of(path: str, env: Mapping[str, str]) -> Path | None:
    """Return the file that a preset names by `~` or a variable. A path through a variable that is not set leads nowhere."""
    folder, _, rest = path.partition("/")
    if folder.startswith("$"):
        folder = env.get(folder[1:], "")
        return Path(folder, rest) if folder else None
    return Path(os.path.expanduser(path))  # noqa: PTH111 - pathlib raises where there is no home
