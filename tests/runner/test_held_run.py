"""A runner and a server that is away: appends wait, nothing is stored twice, and who lost the lease has no effect."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from holdfast.core import events as ev
from holdfast.errors import LeaseLostError, LeftWaitingError
from holdfast.journal import open_journal
from holdfast.journal.address import JournalAddress
from holdfast.journal.lease import Holder
from holdfast.journal.protocol import Journal
from holdfast.runner.held_run import HeldRun
from tests.contract.journals import RUN, begin, open_in, run_row
from tests.support.command import eventually
from tests.support.servers import PROTOCOLS, address_in
from tests.support.tcp_relay import NetworkFault, TcpRelay

HERE = Holder(pid=1, boot_id="x", host="here", lock="1:1")
THERE = Holder(pid=2, boot_id="y", host="there", lock="1:1")


@pytest.fixture(params=PROTOCOLS)
def relayed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Journal, TcpRelay, Journal]]:
    """A journal that is reached through a relay, the relay, and the same journal reached directly. A run exists."""
    direct = open_in(tmp_path, request.param)
    begin(direct)
    address = address_in(tmp_path, request.param)
    relay, url = TcpRelay.before(address.url)
    with closing(open_journal(JournalAddress(url, address.repository))) as journal:
        yield journal, relay, direct
    relay.close()
    direct.close()


def _append(held: HeldRun) -> Coroutine[Any, Any, None]:
    return held.append([ev.StopRequested()], run_row(), [], 101.0)


@pytest.mark.parametrize("fault", [NetworkFault.CUT, NetworkFault.NO_ANSWER])
def test_an_append_waits_for_the_server_and_is_stored_once(
    relayed: tuple[Journal, TcpRelay, Journal], fault: NetworkFault
) -> None:
    """Also if the server stored it and only the answer was lost. It is said when it begins, and when it is over."""
    journal, relay, direct = relayed
    told: list[str] = []

    def tell(words: str) -> None:
        told.append(words)
        relay.set(NetworkFault.NONE)

    held = HeldRun(journal, RUN, journal.take_epoch(RUN, HERE, hold=True), tell)
    relay.set(fault)
    asyncio.run(_append(held))
    assert [type(one.event).__name__ for one in direct.events(RUN)] == ["RunStarted", "StopRequested"]
    assert ["trying again" in told[0], "answers again" in told[1]] == [True, True]


def test_who_is_to_end_does_not_wait(relayed: tuple[Journal, TcpRelay, Journal]) -> None:
    """Somebody pressed Ctrl-C while the server was away: nothing is recorded, and nothing is claimed to be."""
    journal, relay, direct = relayed
    held = HeldRun(journal, RUN, journal.take_epoch(RUN, HERE, hold=True))
    held.leaving.set()
    relay.set(NetworkFault.CUT)
    with pytest.raises(LeftWaitingError, match="ended while store") as caught:
        asyncio.run(_append(held))
    assert (caught.value.exit_code, f"holdfast resume {RUN}" in caught.value.hint) == (130, True)
    assert len(list(direct.events(RUN))) == 1


def test_a_runner_whose_lease_ended_asks_before_it_acts(relayed: tuple[Journal, TcpRelay, Journal]) -> None:
    """If another one has the run by then, it learns so and has no further effect."""
    journal, _, direct = relayed
    journal.lease_s = 0.05
    held = HeldRun(journal, RUN, journal.take_epoch(RUN, HERE, hold=True))
    asyncio.run(held.confirm())
    eventually(lambda: direct.holder(RUN) is None, "the lease ended")
    direct.take_epoch(RUN, THERE, hold=True)
    with pytest.raises(LeaseLostError):
        asyncio.run(held.confirm())
    with pytest.raises(LeaseLostError):
        asyncio.run(_append(held))
