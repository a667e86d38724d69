"""The options that choose the sandbox of agents and checks, and the note that there is none: what the user gives up, or what
this machine lacks.
"""

from __future__ import annotations

from argparse import Namespace

from holdfast.cli.arguments import flag, one_of, option
from holdfast.cli.output import note
from holdfast.core.status import SandboxLevel
from holdfast.process.sandbox import probe_sandbox
from holdfast.runner.sandbox import named_level

SANDBOX = one_of(
    option(
        "--sandbox",
        "LEVEL",
        "what agents and checks see of this machine: workspace or off",
        choices=[str(level) for level in SandboxLevel],
    ),
    flag(
        "--no-sandbox", "the same as --sandbox off: agents and checks see, and may change, all that you can"
    ),
)


def asked_level(args: Namespace) -> SandboxLevel | None:
    """Return the level that the user asked for; None if no option did."""
    if getattr(args, "no_sandbox", False):
        return SandboxLevel.OFF
    named = getattr(args, "sandbox", None)
    return SandboxLevel(named) if named else None


_GIVEN_UP = (
    "agents and checks can read your files and logins, change what you can change, and end your processes"
)


def tell_if_no_sandbox(asked: SandboxLevel | None) -> None:
    """Say so if the user gives up the sandbox by an option, or named no level and this machine has none.

    Who gives it up in the environment knows it.
    """
    if asked is SandboxLevel.OFF:
        note(f"No sandbox: {_GIVEN_UP}.")
    elif asked is None and named_level() is None and (obstacle := probe_sandbox().obstacle):
        note(f"No sandbox, because {obstacle}: {_GIVEN_UP}. To have one: {probe_sandbox().hint}.")
