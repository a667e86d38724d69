"""Where a journal is: a file, or a server with the id of the repository in it. Passwords never leave `url`.

What a scheme means is in `journal/__init__.py`; how a server is spoken to, in the module of its journal.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

from holdfast.errors import HoldfastError

_SECRET_OPTIONS = ("password", "passwd", "secret", "client_key", "server_key")
"""How the names of options end whose values are secrets. The last three are those of newer clients of Postgres."""
_HIDDEN = "***"
_HOST = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(:\d*)?")


@dataclass(frozen=True, slots=True)
class JournalAddress:
    """A server that keeps the journals of many repositories, and which of them is meant."""

    url: str = field(repr=False)
    """As the user gave it, a password included. Shown, stored and journalled only as `str(address)`."""
    repository: str
    """The id of the repository: the same in all its clones, wherever they are."""
    accept_volatile: bool = False
    """Whether the user accepts a server that may forget what it acknowledged."""

    def __str__(self) -> str:
        return without_password(self.url)


def without_password(url: str) -> str:
    """Return an address as it may be shown and stored. The user's name stays, the password goes."""
    parts = split_url(url)
    options = [
        (name, _HIDDEN if is_secret(name) else value)
        for name, value in parse_qsl(parts.query, keep_blank_values=True)
    ]
    user, at, hosts = parts.netloc.rpartition("@")
    name, colon, _ = user.partition(":")
    login = f"{name}{colon}{_HIDDEN if colon else ''}{at}"
    return joined_url(parts._replace(netloc=f"{login}{hosts}", query=urlencode(options, safe="/*")))


def storable_url(url: str) -> str:
    """Return an address as it may be written down: without a password, which is asked for again elsewhere."""
    parts = split_url(with_password(url, ""))
    kept = [
        (name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if not is_secret(name)
    ]
    return joined_url(parts._replace(query=urlencode(kept, safe="/*")))


def is_secret(option: str) -> bool:
    """Tell whether the value of an option of an address is a secret."""
    return option.lower().endswith(_SECRET_OPTIONS)


def password_of(url: str) -> str:
    """Return the password in an address, or an empty string."""
    parts = split_url(url)
    _, _, secret = parts.netloc.rpartition("@")[0].partition(":")
    # That of a key for TLS, or of Sentinels, is another one.
    return unquote(secret) or dict(parse_qsl(parts.query)).get("password", "")


def with_password(url: str, password: str) -> str:
    """Return an address with another password, or with none if it is empty."""
    parts = split_url(url)
    user, _, hosts = parts.netloc.rpartition("@")
    name = user.partition(":")[0]
    login = f"{name}:{quote(password, safe='')}@" if password else f"{name}@" if name else ""
    return joined_url(parts._replace(netloc=f"{login}{hosts}"))


def split_url(url: str) -> SplitResult:
    """Return the parts of an address. Raises HoldfastError, without showing it, if it is none."""
    try:
        parts = urlsplit(url)
    except ValueError:
        # What Python says about it may hold the password.
        raise HoldfastError("the address of the store is not valid", _FORM) from None
    # Of what is no address nobody knows where its password is, as in `host=db password=…`, which libpq takes.
    if not parts.scheme or "://" not in url:
        raise HoldfastError("what was given is not the address of a store", _FORM)
    # A password with such a character ends too early, and the rest of it would be shown as a part of the address.
    # libpq ends it at the first @, and would look for a host of the rest.
    login = parts.netloc.rpartition("@")[0]
    if parts.fragment or "@" in login + parts.path + parts.query:
        raise HoldfastError(
            "the address of the store has an @ or a # at a place where none can be",
            "write %2F for /, %3F for ?, %23 for # and %40 for @ in a password",
        )
    # A password without the `@` after it.
    if any(not _HOST.fullmatch(host) for host in parts.netloc.rpartition("@")[2].split(",")):
        raise HoldfastError("the address of the store has a host or a port that cannot be", _FORM)
    return parts


def joined_url(parts: SplitResult) -> str:
    """Return the address of its parts. Python alone would drop the slashes of one without a host, such as a Unix socket."""
    rest = parts._replace(scheme="", netloc="").geturl()
    return f"{parts.scheme}://{parts.netloc}{rest}"


_FORM = "such as redis://localhost:6379/0 or postgresql://localhost/holdfast"
