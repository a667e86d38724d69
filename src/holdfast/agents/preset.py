"""What Holdfast knows about one kind of agent, and how a user's changes are laid over it. Data; nothing is started."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from holdfast.agents.streams.signals import Signals
from holdfast.core.observations import Trouble
from holdfast.core.plan import STREAMS, AgentSpec, PromptMode
from holdfast.core.roster import Seat
from holdfast.core.wording import did_you_mean, shown
from holdfast.errors import HoldfastError

Patterns = dict[Trouble, tuple[str, ...]]
BASE = "command"
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
    exit_codes: dict[str, Trouble] = {}
    errors: Patterns = {}
    lines: Patterns = {}
    fallback: str = ""
    native_resume: bool = False

    @property
    def needed_program(self) -> str:
        """What must be installed: what the command starts, unless that only starts it in turn."""
        return self.program or self.command[0]

    def signals(self) -> Signals:
        """Return how this agent says what went wrong."""
        return Signals.of(self.errors, self.lines, self.exit_codes)

    def seat(self, name: str) -> Seat:
        """Return what decisions need to know of this agent under its name."""
        return Seat(
            provider=self.provider or name,
            fallback=self.fallback,
            resumable=bool(self.resume),
            native=self.native_resume,
        )


def changed(name: str, base: Preset, changes: Mapping[str, Any], where: str) -> Preset:
    """Return a preset with some of its keys replaced. `env`, `errors` and `lines` are added to, key by key."""
    known = msgspec.to_builtins(base)
    merged = dict(known)
    for key, value in changes.items():
        old = known.get(key)
        merged[key] = {**old, **value} if isinstance(old, dict) and isinstance(value, dict) else value
    try:
        made = msgspec.convert(merged, Preset)
        made.signals()
    except (msgspec.ValidationError, re.error, ValueError) as error:
        raise HoldfastError(
            f"{where}: agent {shown(name)}: {error}", "docs/agents.md names every key of an agent"
        ) from None
    if made.stream not in STREAMS:
        fix = did_you_mean(made.stream, STREAMS)
        raise HoldfastError(
            f"{where}: agent {shown(name)}: there is no stream {shown(made.stream)}{fix}",
            f"use one of {', '.join(STREAMS)}",
        )
    return made


def of_plan(name: str, spec: AgentSpec, presets: Mapping[str, Preset]) -> Preset | None:
    """Return the agent that an entry of a plan describes; None if it builds on a preset that is not known."""
    base = presets.get(spec.preset) if spec.preset else _speaking(spec.stream, presets)
    if base is None:
        return None
    given = {key: value for key, value in msgspec.to_builtins(spec).items() if key != "preset"}
    return changed(name, base, given, "the plan")


def _speaking(stream: str, presets: Mapping[str, Preset]) -> Preset:
    """Return what is known of a command of the plan's own: if it speaks a known agent's stream, also how that errs."""
    base, spoken = presets[BASE], presets.get(stream)
    if spoken is None:
        return base
    return msgspec.structs.replace(
        base,
        provider=spoken.provider,
        errors=spoken.errors,
        lines=spoken.lines,
        exit_codes=spoken.exit_codes,
    )
