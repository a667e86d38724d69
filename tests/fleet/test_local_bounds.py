"""Launches in control groups: the bound holds, nothing is left of the group, and it finds what got away."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.core.facts import Presence
from holdfast.fleet.protocol import ResourceBounds
from holdfast.process import cgroups, procfs
from tests.support.launches import RUN, FleetSetup

pytestmark = pytest.mark.skipif(
    "pids" not in cgroups.available_groups(), reason="this user may not make control groups here"
)
# Only the number of processes is bounded here. The group for memory may be one that whoever runs the tests counts with.
FEW = ResourceBounds(pids=20)


def groups(token: str) -> list[str]:
    """Return the control groups of a launch."""
    return cgroups.leftover_groups(frozenset({token}))


def test_a_launch_cannot_have_more_processes_than_its_bound(setup: FleetSetup) -> None:
    """A fork bomb ends itself, and its group is gone afterwards. The supervisor is not in it."""
    script = "i=0; while test $i -lt 40; do cat gate & i=$((i+1)); done; echo all"
    spec = replace(
        setup.sh(f"sh -c '{script}' 2>err; kill $(jobs -p) 2>/dev/null; echo ended", grace_s=0.1), bounds=FEW
    )
    asyncio.run(setup.finish(spec))
    assert "all" not in setup.fleet.output(spec.key).data.decode()
    assert "fork" in (setup.work / "err").read_text().lower()
    assert groups(spec.token) == []


def test_what_cleared_its_environment_is_found_by_its_group(setup: FleetSetup) -> None:
    """Without a sandbox, and with the supervisor killed, nothing else tells whose it is."""
    spec = replace(setup.sh("env -i setsid cat gate & echo $! > left; echo > up; exec cat gate"), bounds=FEW)
    asyncio.run(setup.fleet.launch(spec))
    setup.heard("up")
    left = int(Path(setup.work / "left").read_text())
    os.kill(setup.supervisor(spec.key), signal.SIGKILL)
    assert asyncio.run(setup.fleet.wait(spec.key)).presence is Presence.LOST
    assert groups(spec.token)
    assert left in asyncio.run(setup.fleet.sweep(RUN, frozenset()))
    found = procfs.stat(left)
    assert found is None or not found.alive
    assert groups(spec.token) == []
