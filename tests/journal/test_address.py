"""Where a journal is, and how little of it is shown."""

from __future__ import annotations

import traceback

import pytest

from holdfast.errors import HoldfastError
from holdfast.journal.address import (
    JournalAddress,
    password_of,
    split_url,
    storable_url,
    with_password,
    without_password,
)

SECRET = "s3cret"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://:s3cret@h:1/0", "redis://:***@h:1/0"),
        ("redis://u:s3cret@h?prefix=p", "redis://u:***@h?prefix=p"),
        ("postgresql://h/db?user=u&password=s3cret", "postgresql://h/db?user=u&password=***"),
        ("postgresql://h/db?oauth_client_secret=s3cret", "postgresql://h/db?oauth_client_secret=***"),
        ("postgresql://h/db?scram_client_key=s3cret", "postgresql://h/db?scram_client_key=***"),
        ("redis+sentinel://h/name?sentinel_password=s3cret", "redis+sentinel://h/name?sentinel_password=***"),
        ("redis://u@h", "redis://u@h"),
    ],
)
def test_an_address_is_shown_without_its_password(url: str, shown: str) -> None:
    """Wherever it is in it."""
    address = JournalAddress(url, "r")
    assert (without_password(url), str(address)) == (shown, shown)
    assert SECRET not in repr(address)


@pytest.mark.parametrize("character", ["/", "?", "#", "@ss/", "@"])
def test_a_password_that_ends_too_early_is_refused_and_not_shown(character: str) -> None:
    """The rest of it would be taken for a path or a host, and shown."""
    with pytest.raises(HoldfastError) as caught:
        split_url(f"redis://u:p{character}{SECRET}@h:1/0")
    assert SECRET not in f"{caught.value.message} {caught.value.hint}"
    assert "%2F" in caught.value.hint


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


@pytest.mark.parametrize(
    "given",
    [
        f"host=db password={SECRET}",
        f"db:1?password={SECRET}",
        f"postgresql:host=db password={SECRET}",
        f"redis://:{SECRET}",
        f"postgresql://me:{SECRET}",
        f"redis://h:1,:{SECRET}/0",
    ],
)
def test_what_is_no_address_is_refused_without_showing_it(given: str) -> None:
    """Nobody knows where in it the password is."""
    with pytest.raises(HoldfastError) as caught:
        split_url(given)
    assert SECRET not in "".join(traceback.format_exception(caught.value)).replace(given, "", 1)
    assert SECRET not in f"{caught.value.message} {caught.value.hint}"


def test_the_password_of_a_key_is_not_that_of_the_server() -> None:
    """So the one of the environment is still used."""
    assert password_of("postgresql://h/db?sslpassword=x") == ""
    assert password_of("postgresql://h/db?password=x&sslpassword=y") == "x"


def test_a_password_is_taken_out_and_put_back() -> None:
    """What is stored is the address without it."""
    url = with_password("redis://u@h:1/0", "p@/x")
    assert (url, password_of(url)) == ("redis://u:p%40%2Fx@h:1/0", "p@/x")
    assert with_password(url, "") == "redis://u@h:1/0"


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        ("redis://u:s3cret@h:1/0", "redis://u@h:1/0"),
        ("redis://:s3cret@h:1/0", "redis://h:1/0"),
        ("postgresql://h/db?user=u&password=s3cret", "postgresql://h/db?user=u"),
        ("redis+unix:///run/redis.sock?db=1", "redis+unix:///run/redis.sock?db=1"),
    ],
)
def test_an_address_is_written_down_without_its_password(url: str, kept: str) -> None:
    """So that what is read back is an address to which a password can be added."""
    assert storable_url(url) == kept
