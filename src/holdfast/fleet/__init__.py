"""Where attempts run: an interface that hides whether agents run on one machine or many.

`open_fleet` is the only place that knows which fleets exist. A new one is a module beside this and a row in the table.
The lead's fleet is not in it: only the MCP server makes one, because it takes the tasks that the fleet offers.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from holdfast.errors import LaunchError
from holdfast.fleet.protocol import Fleet
from holdfast.fleet.temporal.address import FleetAddress
from holdfast.fleet.temporal.carrier import WorkspaceCarrier
from holdfast.paths import StateDir


def open_fleet(url: str) -> Fleet:
    """Return the fleet that a URL names, such as `local:/home/me/project/.holdfast` (see `StateDir.fleet`)."""
    scheme, _, place = url.partition(":")
    if scheme not in _FLEETS:
        raise LaunchError(f"there is no fleet for {url!r}", f"use one of: {', '.join(_FLEETS)}")
    return _FLEETS[scheme](place)


def _local(place: str) -> Fleet:
    from holdfast.fleet.local import LocalFleet

    return LocalFleet(StateDir(Path(place)))


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


_FLEETS: dict[str, Callable[[str], Fleet]] = {"local": _local}
