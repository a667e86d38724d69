"""What every journal in a server promises about the lease of a run, and about an append that was cut off."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from holdfast.core import events as ev
from holdfast.errors import LeaseHeldError, LeaseLostError
from holdfast.journal.lease import Holder
from holdfast.journal.protocol import Journal
from tests.contract.journals import RUN, begin, open_in, run_row
from tests.support.command import eventually
from tests.support.servers import SERVERS

HERE = Holder(pid=7, start_ticks=1, boot_id="boot", host="here", since=100.0, lock="1:2")
THERE = Holder(pid=8, start_ticks=1, boot_id="other", host="there", since=101.0, lock="1:2")


@pytest.fixture(params=SERVERS)
def two(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Journal, Journal]]:
    """The same journal opened twice, as by runners on two machines. A run exists."""
    one, other = open_in(tmp_path, request.param), open_in(tmp_path, request.param)
    begin(one)
    yield one, other
    one.close()
    other.close()


def _append(journal: Journal, epoch: int) -> int:
    return journal.append(RUN, epoch, [ev.StopRequested()], run_row(), [], 101.0)


def test_a_run_that_is_held_is_refused_to_others_and_said_by_whom(two: tuple[Journal, Journal]) -> None:
    """Neither a runner nor a single command may get in its way; the holder itself writes on."""
    one, other = two
    epoch = one.take_epoch(RUN, HERE, hold=True)
    with pytest.raises(LeaseHeldError, match="pid 7 on here"):
        other.take_epoch(RUN, THERE, hold=True)
    with pytest.raises(LeaseHeldError, match="pid 7 on here"):
        other.take_epoch(RUN)
    assert other.holder(RUN) == HERE
    assert _append(one, epoch) == 2


def test_a_released_run_can_be_taken_at_once(two: tuple[Journal, Journal]) -> None:
    """And who released it is fenced off."""
    one, other = two
    epoch = one.take_epoch(RUN, HERE, hold=True)
    one.release(RUN, epoch)
    assert other.holder(RUN) is None
    assert other.take_epoch(RUN, THERE, hold=True) > epoch
    with pytest.raises(LeaseLostError):
        _append(one, epoch)
    with pytest.raises(LeaseLostError):
        one.renew(RUN, epoch)


def test_a_lease_that_nobody_renews_ends(two: tuple[Journal, Journal]) -> None:
    """By the server's clock. The late runner has no effect any more, and does not release the lease of the next one."""
    one, other = two
    one.lease_s = 0.2
    epoch = one.take_epoch(RUN, HERE, hold=True)
    eventually(lambda: other.holder(RUN) is None, "the lease ended")
    later = other.take_epoch(RUN, THERE, hold=True)
    with pytest.raises(LeaseLostError):
        _append(one, epoch)
    one.release(RUN, epoch)
    assert other.holder(RUN) == THERE
    assert _append(other, later) == 2


def test_a_lease_that_ended_is_ours_again_if_nobody_took_it(two: tuple[Journal, Journal]) -> None:
    """As after an outage of the server that was longer than the lease."""
    one, other = two
    one.lease_s = 0.2
    epoch = one.take_epoch(RUN, HERE, hold=True)
    eventually(lambda: other.holder(RUN) is None, "the lease ended")
    one.lease_s = 30.0
    one.renew(RUN, epoch)
    assert other.holder(RUN) == HERE
    assert _append(one, epoch) == 2


def test_a_lease_from_before_the_servers_clock_went_back_does_not_last_for_a_day(
    two: tuple[Journal, Journal],
) -> None:
    """It ends a minute after somebody asked for the run. A holder that lives renews it meanwhile."""
    one, other = two
    one.lease_s = 86_400.0
    epoch = one.take_epoch(RUN, HERE, hold=True)
    assert other.holder(RUN) is None
    with pytest.raises(LeaseHeldError, match="pid 7 on here") as refused:
        other.take_epoch(RUN, THERE, hold=True)
    assert "wait 60 s" in refused.value.hint
    assert other.holder(RUN) == HERE
    assert _append(one, epoch) == 2


def test_a_holder_of_a_time_that_cannot_be_is_named_without_it(two: tuple[Journal, Journal]) -> None:
    """Others may have written it."""
    one, other = two
    one.take_epoch(RUN, msgspec.structs.replace(HERE, since=1e300), hold=True)
    with pytest.raises(LeaseHeldError, match="pid 7 on here"):
        other.take_epoch(RUN, THERE, hold=True)


@pytest.mark.parametrize("hold", [True, False])
def test_who_has_the_lock_of_the_holder_takes_the_run_without_waiting(
    two: tuple[Journal, Journal], *, hold: bool
) -> None:
    """The kernel gave it the lock because the holder is dead: a runner that was killed never makes its heir wait."""
    one, other = two
    first = one.take_epoch(RUN, HERE, hold=True)
    heir = msgspec.structs.replace(HERE, pid=9)
    epoch = other.take_epoch(RUN, heir, hold=hold)
    assert (epoch > first, other.holder(RUN)) == (True, heir if hold else None)
    with pytest.raises(LeaseLostError):
        _append(one, first)
