"""Addresses of stores as they may be shown."""

from __future__ import annotations

import traceback

import pytest

from holdfast.errors import HoldfastError
from holdfast.journal.address import JournalAddress, split_url, without_password

SECRET = "pl4nted"


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://me:{SECRET}@one,two/db",
        f"postgresql://me:{SECRET}/x@host/db",
        f"postgresql://me:{SECRET}?x@host/db",
        f"postgresql://me:{SECRET}#x@host/db",
        f"postgresql://host/db?user=me&password={SECRET}",
        f"redis://:{SECRET}@host:6379/0",
    ],
)
def test_a_password_is_never_shown_however_it_is_written(url: str) -> None:
    """Also where it has characters that should have been escaped; the host stays."""
    address = JournalAddress(url, repository="r")
    assert SECRET not in f"{address} {address!r} {without_password(url)}"
    assert "host" in str(address) or "one,two" in str(address)


@pytest.mark.parametrize(
    "url", ["postgresql:///db?host=/tmp", "redis+unix:///run/redis.sock", "postgresql://h/d", "redis://h"]
)
def test_an_address_without_a_password_is_shown_as_it_is(url: str) -> None:
    """Also that of a Unix socket, which has no host."""
    assert without_password(url) == url


def test_an_address_that_cannot_be_split_is_refused_without_showing_it() -> None:
    """Not in what Python says about it either."""
    with pytest.raises(HoldfastError, match="not valid") as caught:
        split_url(f"postgresql://me:{SECRET}\u2100@host/db")
    assert SECRET not in "".join(traceback.format_exception(caught.value))
