"""The options that choose the sandbox of agents and checks, and the note that there is none: what the user gives up, or what
this machine lacks.
"""

from __future__ import annotations

from argparse import Namespace

from holdfast.cli.arguments import flag, one_of, option
from holdfast.cli.output import note
from holdfast.core.status import NetworkAccess, SandboxLevel
from holdfast.process.sandbox import probe_sandbox
from holdfast.runner.sandbox_setting import SandboxRequest, named_level

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


def tell_if_no_sandbox(asked: SandboxRequest) -> None:
    """Say so if the user gives up the sandbox by an option, or named no level and this machine has none.

    Who gives it up in the environment knows it.
    """
    if asked.level is SandboxLevel.OFF:
        note(f"No sandbox: {_GIVEN_UP}.")
    elif asked == SandboxRequest() and named_level() is None and (obstacle := probe_sandbox().obstacle):
        note(f"No sandbox, because {obstacle}: {_GIVEN_UP}. To have one: {probe_sandbox().hint}.")
