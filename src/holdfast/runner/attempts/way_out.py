"""What a person can do about an agent that nothing but a person helps: the error with the way out, as one sentence.

The commands and the places that are named here work as they are written. What an attempt means for its run is in
`attempt_events.py`.
"""

from __future__ import annotations

import re

from holdfast.agents.invocation import way_out_for_root
from holdfast.agents.presets import Preset, file_that_sets
from holdfast.core.status import FailureKind
from holdfast.runner.context import RunContext

_REFUSES_ROOT = re.compile(r"cannot be used with root")
_ERROR_CHARS = 160
_QUOTES_PROVIDER = (FailureKind.AUTH, FailureKind.CREDIT, FailureKind.MODEL)
"""Failures whose error is the provider's own text. It can be long; the whole is in the attempt's log."""


def with_way_out(
    context: RunContext, name: str, failure: FailureKind, error: str, agent: Preset | None, task: str = ""
) -> str:
    """Return an error of an agent with what a person can do about it; `task` is the one whose agent it is, if it is no validator."""
    fix = _way_out(context, name, failure, error, agent, task)
    return f"{_shortened(error, failure)}. {fix}"


def _shortened(error: str, failure: FailureKind) -> str:
    """Return an error that leaves room for the way out, without its full stop."""
    if failure in _QUOTES_PROVIDER and len(error) > _ERROR_CHARS:
        error = f"{error[: _ERROR_CHARS - 1].rstrip()}…"
    return error.rstrip().removesuffix(".")


def _way_out(
    context: RunContext, name: str, failure: FailureKind, error: str, agent: Preset | None, task: str
) -> str:
    then = f"then `holdfast resume {context.run}`"
    if failure is FailureKind.AUTH:
        return f"{_way_to_key(context, name, agent)}; {then}"
    if failure is FailureKind.CREDIT:
        return f"Top up the account of {name or 'the agent'}; {then}. {_another_agent(context, task)}"
    if failure is FailureKind.MODEL:
        return f"{_way_to_model(context, name, agent)}; {then}"
    if failure is FailureKind.ENVIRONMENT:
        return f"Install it, or correct the plan and `holdfast amend {context.run}`; {then}"
    if agent is not None and agent.not_as_root and _REFUSES_ROOT.search(error):
        for_root = way_out_for_root(agent)
        return f"{for_root[0].upper()}{for_root[1:]}; {then}"
    return f"Allow it in the agent's own settings or by `args:` of its entry in `agents:`, or skip the task; {then}"


def _way_to_key(context: RunContext, name: str, agent: Preset | None) -> str:
    """Return where the key that was refused comes from; an agent may have a login instead."""
    keys = agent.keys if agent is not None else ()
    given = next((key for key in keys if agent is not None and agent.env.get(key)), "")
    entry = context.state.plan.agents.get(name)
    if given and entry is not None and given in entry.env:
        return (
            f"Correct {given} in `env:` of {name} under `agents:` in the plan, `holdfast amend {context.run}`"
        )
    if given:
        return f"Correct {given} in `env` of {_table_of(context, name, 'env')}"
    return f"Log in with {name or 'the agent'}{f', or set {keys[0]}' if keys else ''}"


def _way_to_model(context: RunContext, name: str, agent: Preset | None) -> str:
    entry = context.state.plan.agents.get(name)
    amend = f"`holdfast amend {context.run}`"
    if entry is not None:
        asked = f" (now {entry.model})" if entry.model else ""
        return f"Set `model:` of {name} under `agents:`{asked} in the plan, {amend}"
    if agent is not None and agent.model:
        return f"Set `model` (now {agent.model}) in {_table_of(context, name, 'model')}"
    return f"Write `agents: {{{name}: {{preset: {name}, model: NAME}}}}` into the plan, {amend}"


def _another_agent(context: RunContext, task: str) -> str:
    for_task = f"; for this task only `holdfast retry {context.run} {task} --agent NAME`" if task else ""
    return f"Or name another agent: `agent:` in the plan and `holdfast amend {context.run}`{for_task}"


def _table_of(context: RunContext, name: str, key: str) -> str:
    """Return the table of agents.toml that sets a key of an agent, and its file."""
    entry = context.state.plan.agents.get(name)
    table = entry.preset if entry is not None and entry.preset else name
    return f"`[{table}]` of {file_that_sets(table, key, context.repo.checkout) or 'agents.toml'}"
