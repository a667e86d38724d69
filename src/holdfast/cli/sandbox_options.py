"""The options that choose the sandbox of agents and checks, and the note that there is none, or more than they say: what the
user gives up, what this machine lacks, or who asks for more.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Collection

from holdfast.cli.arguments import flag, one_of, option
from holdfast.cli.output import note
from holdfast.core.plan import Limits
from holdfast.core.status import NetworkAccess, SandboxLevel
from holdfast.process.sandbox import probe_sandbox, sandbox_obstacle
from holdfast.runner.sandbox import require_good_variables
from holdfast.runner.sandbox_setting import (
    NETWORK_VARIABLE,
    SandboxRequest,
    SandboxSetting,
    named_level,
    named_network,
    setting_in_force,
)

SANDBOX = one_of(
    option(
        "--sandbox",
        "LEVEL",
        "what agents and checks see of this machine: strict, workspace (the default) or off",
        choices=[str(level) for level in SandboxLevel],
    ),
    flag(
        "--no-sandbox", "the same as --sandbox off: agents and checks see, and may change, all that you can"
    ),
)
NETWORK = option(
    "--network",
    "ACCESS",
    "what agents and checks reach: on (all), allow (their provider, registries, hosts you named) or off",
    choices=[str(access) for access in NetworkAccess],
)


def asked_sandbox(args: Namespace) -> SandboxRequest:
    """Return what the user asked for by options."""
    named, network = getattr(args, "sandbox", None), getattr(args, "network", None)
    level = SandboxLevel(named) if named else None
    return SandboxRequest(
        SandboxLevel.OFF if getattr(args, "no_sandbox", False) else level,
        NetworkAccess(network) if network else None,
    )


_GIVEN_UP = (
    "agents and checks can read your files and logins, change what you can change, and end your processes"
)
_NOTHING = SandboxSetting()


def choose_sandbox(
    args: Namespace, plan: SandboxSetting = _NOTHING, before: SandboxSetting = _NOTHING
) -> SandboxSetting:
    """Return what will be in force. Raises HoldfastError if it cannot be: asked before anything is written."""
    require_good_variables()
    return setting_in_force(asked_sandbox(args), sandbox_obstacle, before, plan)


def tell_sandbox(args: Namespace, plan: SandboxSetting = _NOTHING, before: SandboxSetting = _NOTHING) -> None:
    """Say so if there is no sandbox, by an option or because this machine has none, or if there is more than the options say.

    Who gives it up in the environment knows it.
    """
    asked, chosen = asked_sandbox(args), choose_sandbox(args, plan, before)
    if chosen.level is not SandboxLevel.OFF:
        if (asked.level or chosen.level, asked.network or chosen.network) != (chosen.level, chosen.network):
            note(f"The sandbox is {chosen.level}, the network {chosen.network}: {_who_narrows(asked, plan)}.")
    elif asked.level is SandboxLevel.OFF:
        note(f"No sandbox: {_GIVEN_UP}.")
    elif named_level() is None and (obstacle := probe_sandbox().obstacle):
        note(f"No sandbox, because {obstacle}: {_GIVEN_UP}. To have one: {probe_sandbox().hint}.")


def tell_unkept_bounds(limits: Limits, kept: Collection[str]) -> None:
    """Say which bounds of a plan this machine cannot keep: for all others it has control groups."""
    wanted = {"memory": limits.memory, "cpu": limits.cpus}
    if missing := [name for name, bound in wanted.items() if bound and name not in kept]:
        note(f"No bound for {' and '.join(missing)}: this user may make no control groups for that here.")


def _who_narrows(asked: SandboxRequest, plan: SandboxSetting) -> str:
    """Return who asks for more than the options do."""
    if plan != _NOTHING:
        return "the plan asks for it"
    if asked.network is None and named_network() not in (None, NetworkAccess.ON):
        return f"{NETWORK_VARIABLE} asks for it"
    return "the level needs it, or the run had it; name both --sandbox and --network to change it"
