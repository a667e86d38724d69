"""Many machines: launches that Temporal carries to the hosts that offer themselves.

Temporal's client takes half a second to import. So only `open_carried_fleet` and a worker do that: `address`, `messages`
and `carrier` must not.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.errors import LaunchError
from holdfast.fleet.protocol import Fleet
from holdfast.fleet.temporal.address import FleetAddress
from holdfast.fleet.temporal.carrier import WorkspaceCarrier
from holdfast.paths import StateDir


def open_carried_fleet(
    url: str, state: StateDir, carrier: WorkspaceCarrier, tell: Callable[[str], None]
) -> Fleet:
    """Return the fleet of many machines that a URL names. The `carrier` takes workspaces there and back; `tell` says what waits.

    Raises LaunchError, also if what it needs is not installed.
    """
    try:
        from holdfast.fleet.temporal.temporal_fleet import TemporalFleet
    except ModuleNotFoundError as error:
        raise LaunchError(
            f"a fleet needs {error.name}, which is not installed", "`pip install 'holdfast[temporal]'`"
        ) from error
    return TemporalFleet(state, FleetAddress.parse(url), carrier, tell)
