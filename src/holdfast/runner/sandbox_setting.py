"""Which sandbox is in force: the user's options and environment, the level that a run had before, and what its plan asks for.

The user decides; a plan can only narrow. What a level means for a launch is the business of `sandbox.py`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeVar

from holdfast.core.plan import Plan
from holdfast.core.projection import RunRow
from holdfast.core.status import NetworkAccess, SandboxLevel, SandboxMechanism
from holdfast.errors import HoldfastError, did_you_mean, quoted

SANDBOX_VARIABLE = "HOLDFAST_SANDBOX"
"""Names the level that the user wants if no option does."""
NETWORK_VARIABLE = "HOLDFAST_NETWORK"
"""Names what the user lets agents reach if no option does."""
DEFAULT_LEVEL = SandboxLevel.WORKSPACE
"""What runs get if nobody names a level, where the machine can."""
_Word = TypeVar("_Word", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class SandboxSetting:
    """How much of the machine and of the network agents and checks see."""

    level: SandboxLevel = SandboxLevel.OFF
    network: NetworkAccess = NetworkAccess.ON
    by: SandboxMechanism = SandboxMechanism.BUBBLEWRAP

    @classmethod
    def of_run(cls, row: RunRow) -> SandboxSetting:
        """Return what was in force for the launches of the last runner."""
        return cls(row.sandbox, row.network, row.sandbox_by)

    @classmethod
    def of_plan(cls, plan: Plan) -> SandboxSetting:
        """Return the least that a plan asks for. The network can be closed only in a sandbox."""
        level = _least_level(plan.sandbox, plan.network.access)
        return cls(level, _least_network(level, plan.network.access))


@dataclass(frozen=True, slots=True)
class SandboxRequest:
    """What the user asked for by options; None where no option did."""

    level: SandboxLevel | None = None
    network: NetworkAccess | None = None


class SandboxObstacle(Protocol):
    """Says why launches cannot be put into a sandbox here, or into one with a network of its own; empty if they can."""

    def __call__(self, *, closed_network: bool = False) -> str:
        """Return the reason."""
        ...


def setting_in_force(
    asked: SandboxRequest, obstacle_to: SandboxObstacle, before: SandboxSetting, plan: SandboxSetting
) -> SandboxSetting:
    """Return the strictest of what the user wants, what a run had `before`, and what its plan asks for.

    What the user `asked` for by an option replaces what the run had, and what no option names stays; without a sandbox
    there is no closed network. If nobody named a level and this machine has no sandbox, there is none. Raises
    HoldfastError if somebody did, or if two options or two variables contradict each other.
    """
    _require_sense(SandboxRequest(named_level(), named_network()) if asked == SandboxRequest() else asked)
    least = SandboxSetting(
        plan.level if asked.level is not None else _narrowest(plan.level, before.level),
        plan.network
        if asked.network is not None or asked.level is SandboxLevel.OFF
        else _narrowest(plan.network, before.network),
    )
    level = asked.level if asked.level is not None else named_level()
    network = asked.network if asked.network is not None else named_network()
    needed = _least_level(least.level, network or NetworkAccess.ON)
    wanted = _narrowest(needed, DEFAULT_LEVEL if level is None else level)
    if wanted is SandboxLevel.OFF:
        return SandboxSetting()
    narrowed = _narrowest(least.network, network or NetworkAccess.ON)
    setting = SandboxSetting(wanted, _least_network(wanted, narrowed))
    obstacle = obstacle_to(closed_network=setting.network is not NetworkAccess.ON)
    if not obstacle:
        return setting
    if level is None and needed is SandboxLevel.OFF:
        return SandboxSetting()
    in_plan = " (first take `sandbox:` and `network:` out of the plan)" if plan != SandboxSetting() else ""
    if not obstacle_to():
        raise HoldfastError(
            f"this machine cannot close the network of a sandbox: {obstacle}",
            f"remove the obstacle, or leave the network open: --sandbox workspace --network on{in_plan}",
        )
    raise HoldfastError(
        f"this machine has no {wanted} sandbox: {obstacle}",
        f"remove the obstacle, or give up the sandbox with --no-sandbox: agents then see all that you see{in_plan}",
    )


def _require_sense(asked: SandboxRequest) -> None:
    closed = asked.network not in (None, NetworkAccess.ON)
    if closed and asked.level is SandboxLevel.OFF:
        raise HoldfastError(
            "the network can be closed only in a sandbox",
            f"use --sandbox workspace or strict with it ({SANDBOX_VARIABLE} and {NETWORK_VARIABLE} likewise)",
        )
    if asked.network is NetworkAccess.ON and asked.level is SandboxLevel.STRICT:
        raise HoldfastError(
            "the level strict has no open network",
            f"use --network allow, or --sandbox workspace ({SANDBOX_VARIABLE} and {NETWORK_VARIABLE} likewise)",
        )


def _least_level(level: SandboxLevel, network: NetworkAccess) -> SandboxLevel:
    """Return the level that a closed network needs at least."""
    return _narrowest(level, SandboxLevel.OFF if network is NetworkAccess.ON else SandboxLevel.WORKSPACE)


def _least_network(level: SandboxLevel, network: NetworkAccess) -> NetworkAccess:
    """Return what a level lets launches reach at most."""
    return _narrowest(network, NetworkAccess.ALLOW if level is SandboxLevel.STRICT else NetworkAccess.ON)


def _narrowest(*words: _Word) -> _Word:
    """Return the strictest of some words of an enum, which names the widest first."""
    return max(words, key=list(type(words[0])).index)


def named_level() -> SandboxLevel | None:
    """Return the level that the user's environment names, if any. Raises HoldfastError if there is no such level."""
    return _named(SANDBOX_VARIABLE, SandboxLevel, "level")


def named_network() -> NetworkAccess | None:
    """Return the network that the user's environment names, if any. Raises HoldfastError if there is no such word."""
    return _named(NETWORK_VARIABLE, NetworkAccess, "kind of network")


def _named(variable: str, kind: type[_Word], what: str) -> _Word | None:
    named, known = os.environ.get(variable, ""), [str(word) for word in kind]
    if named and named not in known:
        raise HoldfastError(
            f"{variable} is {quoted(named)}, which is no {what}{did_you_mean(named, known)}",
            f"use one of {', '.join(known)}",
        )
    return kind(named) if named else None
