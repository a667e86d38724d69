"""The argv, input and environment of one attempt, made from its agent's template or its own command."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.agents.presets import Preset
from holdfast.core.plan import Task, Validator
from holdfast.errors import HoldfastError

_PLACEHOLDER = re.compile(r"\{(?:brief|workspace|task|attempt|run|session)\}")


@dataclass(frozen=True, slots=True)
class Placeholders:
    """The values that an agent's argv may name. With a `session`, the agent resumes it."""

    brief_path: str
    brief_text: str
    workspace: str
    task: str
    attempt: int
    run: str
    session: str = ""


@dataclass(frozen=True, slots=True)
class Invocation:
    """What to execute for one attempt. `stdin_brief` asks for the brief file on standard input.

    `env` is added to the environment, `sandbox_env` only in a sandbox; `pass_env` names more variables of the user that are passed on. `credentials` and
    `home` name the files of the user's home that it needs in a sandbox; what the former hold must not be kept.
    `hosts` are those of its provider.
    """

    argv: tuple[str, ...]
    stdin_brief: bool = False
    env: dict[str, str] = field(default_factory=dict)
    stop_signal: str = "TERM"
    pass_env: tuple[str, ...] = ()
    credentials: tuple[str, ...] = ()
    home: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    sandbox_env: dict[str, str] = field(default_factory=dict)


def invoke_worker(worker: Task | Validator, agent: Preset | None, values: Placeholders) -> Invocation:
    """Return what a task or a validator executes: its own command, or its agent's."""
    if worker.run:
        return Invocation(worker.run)
    if agent is None:
        raise ValueError(f"{worker.id} has neither a command nor an agent")
    return invoke_agent(agent, values)


def invoke_agent(agent: Preset, values: Placeholders) -> Invocation:
    """Fill in an agent's template. Only known names are replaced; other braces stay as they are."""
    replacements = {
        "{brief}": values.brief_text if agent.prompt == "arg" else values.brief_path,
        "{workspace}": values.workspace,
        "{task}": values.task,
        "{attempt}": str(values.attempt),
        "{run}": values.run,
        "{session}": values.session,
    }
    template = agent.resume if values.session and agent.resume else agent.command
    argv = tuple(_replace(word, replacements) for word in argv_of(agent, template))
    return Invocation(
        argv,
        agent.prompt == "stdin",
        dict(agent.env),
        agent.stop_signal,
        agent.pass_env,
        agent.credentials,
        agent.home,
        agent.hosts,
        dict(agent.sandbox_env),
    )


class RefusesRootError(HoldfastError):
    """An agent would refuse to be started by root, because it would not be in a sandbox."""


def require_root_accepted(agent: Preset, env: Mapping[str, str]) -> None:
    """Raise RefusesRootError if an agent would refuse to be started by root with this environment, outside of a sandbox."""
    named = next((word for word in argv_of(agent, agent.command) if word in agent.not_as_root), "")
    given = {**env, **agent.env}
    if not named or all(given.get(name) == value for name, value in agent.sandbox_env.items()):
        return
    raise RefusesRootError(
        f"{agent.title or agent.command[0]} refuses to work for root with {named} outside of a sandbox",
        way_out_for_root(agent),
    )


def way_out_for_root(agent: Preset) -> str:
    """Return what root can do about an agent that wants to be in a sandbox."""
    variables = " ".join(f"{name}={value}" for name, value in agent.sandbox_env.items())
    told = f"; if this machine is itself a container that may be lost, set {variables}" if variables else ""
    return f"use `--sandbox workspace`, or work as another user{told}; or replace the agent's `permissions`"


def argv_of(agent: Preset, template: tuple[str, ...]) -> tuple[str, ...]:
    """Put the words of a key where the template names it. Extra arguments that it does not name come last."""
    words_of = {
        "{permissions}": agent.permissions,
        "{model}": (*agent.model_flag, agent.model) if agent.model else (),
        "{args}": agent.args,
    }
    words = tuple(word for named in template for word in words_of.get(named, (named,)))
    return words if "{args}" in template else (*words, *agent.args)


def _replace(word: str, replacements: dict[str, str]) -> str:
    """Replace in one pass, so that a value that looks like a placeholder stays as it is."""
    return _PLACEHOLDER.sub(lambda found: replacements[found[0]], word)
