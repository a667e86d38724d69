"""The fixture that the tests of supervised processes share."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.fleet.local import LocalFleet
from holdfast.paths import StateDir
from tests.support.launches import RUN, FleetSetup


@pytest.fixture
def setup(tmp_path: Path) -> Iterator[FleetSetup]:
    """A local fleet over an empty state folder, and a workspace with FIFOs; nobody writes to `gate`."""
    (tmp_path / "work").mkdir()
    state = StateDir(tmp_path / "state")
    made = FleetSetup(state, tmp_path / "work", LocalFleet(state), tmp_path / "work")
    for name in ("up", "agent", "gate"):
        made.fifo(name)
    yield made
    asyncio.run(made.fleet.sweep(RUN, frozenset()))
    made.fleet.close()
