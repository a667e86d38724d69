"""Where attempts run: an interface that hides whether agents run on one machine or many.

`open_fleet` is the only place that knows which fleets exist. A new one is a module beside this and a row in the table.
The lead's fleet is not in it: only the MCP server makes one, because it takes the tasks that the fleet offers. That of many
machines is opened by `temporal/`, because it needs somebody who carries workspaces.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from holdfast.errors import LaunchError
from holdfast.fleet.protocol import Fleet
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


_FLEETS: dict[str, Callable[[str], Fleet]] = {"local": _local}
