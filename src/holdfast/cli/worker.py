"""`worker`: offer this machine to runs that use a fleet of many machines."""

from __future__ import annotations

import asyncio
import os
from argparse import Namespace
from pathlib import Path

from holdfast.cli.arguments import Arguments, option, positive
from holdfast.cli.output import note
from holdfast.errors import ExitCode, HoldfastError, LaunchError
from holdfast.fleet.temporal.address import SCHEME, FleetAddress
from holdfast.runner.store_choice import FLEET_VARIABLE, user_setting

ARGUMENTS: Arguments = (
    option("--fleet", "URL", f"where Temporal is: {SCHEME}://HOST:PORT/NAMESPACE"),
    option("--labels", "L,…", "what this machine has, for runs that need it", default=""),
    option("--slots", "N", "how many agents and checks it takes at once", type=positive, default=1),
    option("--home", "DIR", "where it keeps repositories, workspaces and what it has accepted"),
)


def execute(args: Namespace) -> int:
    """Work until somebody ends it. Agents outlive the worker for a while, and a worker that comes back takes them over."""
    named = os.environ.get(FLEET_VARIABLE) or user_setting("fleet")
    if not named:
        raise HoldfastError(
            "no fleet is named", f"`holdfast worker --fleet {SCHEME}://HOST:7233`, or {FLEET_VARIABLE}"
        )
    try:
        from holdfast.runner.host.worker import HostWorker, hold_home
    except ModuleNotFoundError as error:
        raise LaunchError(
            f"a worker needs {error.name}, which is not installed", "`pip install 'holdfast[temporal]'`"
        ) from error
    home = Path(args.home).absolute() if args.home else _default_home()
    hold_home(home)
    labels = tuple(filter(None, args.labels.split(",")))
    note("Agents and checks run here without a sandbox, as whoever may use the fleet's Temporal orders.")
    asyncio.run(HostWorker(FleetAddress.parse(named), home, labels, args.slots, note).run())
    return ExitCode.DONE


def _default_home() -> Path:
    state = Path(os.environ.get("XDG_STATE_HOME") or "~/.local/state").expanduser()
    return state / "holdfast" / "worker"
