"""Which host takes a launch, and what is said while none does. No server takes part: these are rules about offers."""

from __future__ import annotations

import pytest

from holdfast.errors import LaunchError
from holdfast.fleet.temporal.address import FleetAddress, LaunchLease
from holdfast.fleet.temporal.hosts import choose_host
from holdfast.fleet.temporal.messages import HostOffer

SMALL = HostOffer(host="small-1", name="small", version="1", labels=("cpu",), room=2)
BIG = HostOffer(host="big-1", name="big", version="1", labels=("cpu", "gpu"), room=8, busy=5)
OLD = HostOffer(host="old-1", name="old", version="0.9", labels=("cpu", "gpu"), room=99)


def chosen(
    *offers: HostOffer, labels: str = "", placed: dict[str, int] | None = None, wanted: str = ""
) -> str:
    """Return the host that is chosen, or what is waited for."""
    found = choose_host(offers, frozenset(labels.split()), "1", placed or {}, wanted)
    return found if isinstance(found, str) else found.host


def test_the_host_with_the_most_room_takes_it() -> None:
    """Not the one with the most slots."""
    assert chosen(SMALL, BIG) == "big-1"


def test_what_was_just_placed_counts_before_the_host_says_so() -> None:
    """Its own count is a little older."""
    assert chosen(SMALL, BIG, placed={"big-1": 8}) == "small-1"


def test_a_host_needs_all_the_labels() -> None:
    """Even if it has less room than others."""
    assert chosen(SMALL, BIG, labels="gpu cpu", placed={"big-1": 7}) == "big-1"


def test_another_version_takes_nothing_and_the_message_says_so() -> None:
    """Two versions may mean different things by the same order."""
    assert chosen(OLD) == "a worker: old runs version 0.9, and this is 1"


def test_what_no_host_has_is_named() -> None:
    """Each host is told with what it lacks."""
    assert chosen(SMALL, labels="gpu") == "a worker with the labels gpu: small lacks gpu"


def test_without_room_a_slot_is_waited_for() -> None:
    """It is no matter of labels then."""
    assert chosen(SMALL, placed={"small-1": 2}) == "a free slot: no worker that fits has one"


def test_a_workspace_that_is_on_a_host_is_used_there_alone() -> None:
    """What git ignores is nowhere else."""
    assert chosen(SMALL, BIG, wanted="small-1") == "small-1"
    assert chosen(BIG, wanted="small-1") == "the worker that has its workspace, which is not there"


def test_a_host_ends_what_it_cannot_renew_long_before_it_counts_as_lost() -> None:
    """Renewed six times in a lease, ended at six tenths of it."""
    lease = LaunchLease(9.0)
    assert (lease.renew_s, round(lease.fenced_s, 3)) == (1.5, 5.4)


def test_an_address_says_where_temporal_is() -> None:
    """Port, namespace and lease have the usual values."""
    address = FleetAddress.parse("temporal://server?git=ssh://git@host/x.git&labels=a,b")
    assert (address.target, address.namespace) == ("server:7233", "default")
    assert (address.git, sorted(address.labels), address.lease.ttl_s) == (
        "ssh://git@host/x.git",
        ["a", "b"],
        120.0,
    )


@pytest.mark.parametrize(
    "url", ["temporal://", "temporal://h:port", "temporal://h?ttl=soon", "temporal://h?ttl=1"]
)
def test_an_address_without_sense_is_refused(url: str) -> None:
    """The way out is an example."""
    with pytest.raises(LaunchError) as refused:
        FleetAddress.parse(url)
    assert "such as temporal://" in refused.value.hint
