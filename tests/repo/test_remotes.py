"""Addresses of remotes: what they name, without credentials."""

from __future__ import annotations

import pytest

from holdfast.repo.remotes import Remote, hosted_at


@pytest.mark.parametrize(
    ("address", "host", "path"),
    [
        ("https://github.com/me/shop.git", "github.com", "me/shop"),
        ("https://ada:secret@GitHub.com/me/shop/", "github.com", "me/shop"),
        ("git@gitlab.com:group/sub/shop.git", "gitlab.com", "group/sub/shop"),
        ("ssh://git@git.example.org:2222/me/shop.git", "git.example.org", "me/shop"),
        ("github.com:me/shop", "github.com", "me/shop"),
    ],
)
def test_an_address_names_a_host_and_a_repository(address: str, host: str, path: str) -> None:
    """Whatever its scheme, user and port are."""
    hosted = hosted_at(address)
    assert hosted is not None
    assert (hosted.host, hosted.path) == (host, path)
    assert Remote("origin", address, "remote.origin.url").shown == f"{host}/{path}"


@pytest.mark.parametrize("address", ["/srv/shop.git", "../shop", "file:///srv/shop.git", "ext::sh -c true"])
def test_a_path_or_a_program_is_no_host(address: str) -> None:
    """There is no page to open."""
    assert hosted_at(address) is None


def test_a_host_of_no_known_kind_has_no_page_to_open() -> None:
    """A wrong page would be worse."""
    hosted = hosted_at("https://git.example.org/me/shop.git")
    assert hosted is not None
    assert (hosted.kind, hosted.compare_url("main", "x")) == ("", "")
