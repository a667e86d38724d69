"""An agent is bounded in time, silence and output, by its supervisor alone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.core.facts import ExitReason
from holdfast.fleet.local import LocalFleet
from holdfast.paths import StateDir
from tests.support.launches import RUN, FleetSetup, ended


@pytest.fixture
def stand(tmp_path: Path) -> Iterator[FleetSetup]:
    """A local fleet over an empty state folder, and a workspace with a FIFO that blocks for ever."""
    (tmp_path / "work").mkdir()
    state = StateDir(tmp_path / "state")
    stand = FleetSetup(state, tmp_path / "work", LocalFleet(state))
    stand.fifo("gate")
    yield stand
    asyncio.run(stand.fleet.sweep(RUN, frozenset()))
    stand.fleet.close()


def test_an_agent_that_takes_too_long_is_stopped(stand: FleetSetup) -> None:
    """The time limit holds without any runner watching."""
    record = asyncio.run(stand.finish(stand.sh("exec cat gate", timeout_s=0.2)))
    assert (record.reason, record.code) == (ExitReason.TIMEOUT, -15)


def test_an_agent_that_falls_silent_is_stopped(stand: FleetSetup) -> None:
    """The stall limit ends it long before the time limit would."""
    record = asyncio.run(stand.finish(stand.sh("echo begun; exec cat gate", stall_s=0.2)))
    assert record.reason is ExitReason.STALLED


def test_an_agent_that_closed_its_output_is_still_watched(stand: FleetSetup) -> None:
    """The end of the output is not the end of the agent."""
    record = asyncio.run(stand.finish(stand.sh("exec >&- 2>&-; read line < gate", timeout_s=0.2)))
    assert record.reason is ExitReason.TIMEOUT


def test_the_last_words_after_sigterm_are_kept(stand: FleetSetup) -> None:
    """Output is read until the tree is gone, not until it was asked to stop."""
    stand.fifo("up")
    spec = stand.sh("trap 'echo bye; exit 9' TERM; echo > up; while :; do read line < gate; done")
    asyncio.run(stand.fleet.launch(spec))
    stand.heard("up")
    assert asyncio.run(ended(stand.fleet.cancel(spec.key))).code == 9
    assert stand.fleet.logs(spec.key).endswith(b"bye\n")


def test_endless_output_stays_within_its_bound_on_disk(stand: FleetSetup) -> None:
    """All of it is counted, the latest is kept, and offsets go on meaning the same byte."""
    bound = 1024 * 1024
    spec = stand.sh("head -c 40000000 /dev/zero; echo the end", log_bytes_max=bound)
    record = asyncio.run(stand.finish(spec))
    assert record.output_bytes == 40_000_008
    kept = stand.fleet.logs(spec.key)
    assert bound // 4 < len(kept) <= bound
    assert sum(file.stat().st_size for file in stand.folder(spec.key).glob("output.log*")) <= bound
    assert stand.fleet.logs(spec.key, 40_000_000) == b"the end\n"
