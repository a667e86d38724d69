"""What a user agrees to: a plan, and the agents that it starts as the user's files define them at that moment.

Agents can write those files. So an agreement counts only for the definitions that were shown.
"""

from __future__ import annotations

import msgspec

from holdfast.agents.presets import Preset, Presets, builtin_presets, find_agent
from holdfast.core.plan import Plan, plan_hash


def agents_used(plan: Plan, presets: Presets) -> dict[str, Preset]:
    """Return every agent that the plan uses: for tasks, as a validator, or as the fallback of another at a limit."""
    waiting = plan.agents_named()
    found: dict[str, Preset] = {}
    while waiting:
        name = waiting.pop(0)
        spec = find_agent(name, plan.agents, presets)
        if spec is not None and name not in found:
            found[name] = spec
            waiting += [spec.fallback] if spec.fallback else []
    return found


def consent_digest(plan: Plan, presets: Presets) -> str:
    """Return the digest that the user agrees to. Without agents of the user's files it is the plan's own."""
    builtin = builtin_presets()
    own = {
        name: agent
        for name, agent in agents_used(plan, presets).items()
        if find_agent(name, plan.agents, builtin) != agent
    }
    return _digest(plan_hash(plan), own) if own else plan_hash(plan)


def planner_digest(name: str, presets: Presets) -> str:
    """Return the digest that the user agrees to before an agent of theirs writes a plan; empty for one of ours."""
    agent = presets[name]
    return "" if builtin_presets().get(name) == agent else _digest("planner", {name: agent})


def _digest(what: str, agents: dict[str, Preset]) -> str:
    import hashlib

    return hashlib.sha256(msgspec.json.encode([what, agents], order="deterministic")).hexdigest()
